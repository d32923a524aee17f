//! How much is logged by each source: sources are shared by all sessions, and so log as much as the one that
//! wants most.

use std::collections::BTreeMap;

use drawgate_core::model::SourceId;
use parking_lot::Mutex;

/// The most verbose level that was sent to each source.
#[derive(Default)]
pub(crate) struct SourceLogLevels(Mutex<BTreeMap<SourceId, usize>>);

impl SourceLogLevels {
    /// Records a level. Returns whether it must be sent to the source.
    pub(crate) fn note(&self, source: &SourceId, level: usize) -> bool {
        let mut log_levels = self.0.lock();
        let is_new = log_levels.get(source).is_none_or(|before| level < *before);
        if is_new {
            log_levels.insert(source.clone(), level);
        }
        is_new
    }

    pub(crate) fn forget(&self, source: &SourceId) {
        self.0.lock().remove(source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_told_only_of_more() {
        let log_levels = SourceLogLevels::default();
        let (a, b) = (SourceId::new("a").unwrap(), SourceId::new("b").unwrap());
        assert!(log_levels.note(&a, 3));
        assert!(!log_levels.note(&a, 3));
        assert!(!log_levels.note(&a, 5));
        assert!(log_levels.note(&a, 0));
        assert!(log_levels.note(&b, 5), "each source for itself");
        log_levels.forget(&a);
        assert!(log_levels.note(&a, 7), "a source that was not reached is told again");
    }
}
