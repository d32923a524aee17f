//! What a caller is told when a call took too long: which tool, how long, and what to change.

use std::time::{Duration, Instant};

use drawgate_core::model::shown_name;
use drawgate_core::source::SourceError;

/// The earlier of two deadlines of a call, and which one it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallDeadline {
    pub(crate) at: Instant,
    /// The limit of a toolpack's author, if it is the earlier one.
    own: Option<Duration>,
}

impl CallDeadline {
    /// The gate's deadline, or the author's own limit if that ends before.
    pub(crate) fn new(gate: Instant, own: Option<Duration>) -> Self {
        let end = own.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        match end {
            Some((at, limit)) if at <= gate => Self { at, own: Some(limit) },
            Some(_) | None => Self { at: gate, own: None },
        }
    }

    /// The call of `tool` did not end before it.
    pub(crate) fn exceeded_by(self, tool: &str) -> SourceError {
        let tool = shown_name(tool);
        SourceError::Timeout(match self.own {
            Some(limit) => format!(
                "`{tool}` did not end within {} s and was stopped; the limit is `timeout_seconds` in its toolpack",
                limit.as_secs()
            ),
            None => format!(
                "`{tool}` did not end in its time and was stopped; `timeout_seconds` in its table, or in that of its server or toolpack, gives it more"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_the_tool_the_limit_and_where_it_is_set() {
        let gate = Instant::now() + Duration::from_secs(30);
        let said = |own| CallDeadline::new(gate, own).exceeded_by("li\nst").to_string();
        let own = said(Some(Duration::from_secs(5)));
        assert!(own.contains("`li\\nst` did not end within 5 s"), "{own}");
        assert!(own.contains("`timeout_seconds` in its toolpack"), "{own}");
        // The gate's own limit is the earlier one.
        for own in [None, Some(Duration::from_mins(1)), Some(Duration::MAX)] {
            let text = said(own);
            assert!(text.contains("`li\\nst` did not end in its time"), "{text}");
            assert!(text.contains("`timeout_seconds` in its table"), "{text}");
        }
    }
}
