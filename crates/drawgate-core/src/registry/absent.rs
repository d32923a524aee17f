//! Sources that the operator has set up and that offer nothing now: callers who may use them are told
//! the reason, instead of hearing that a tool is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::{Holder, SourceTerms};
use crate::model::{Capability, SourceId};

/// Why a source offers nothing, and who may hear it.
#[derive(Debug, Clone)]
pub struct Absence {
    /// What a caller must hold to be told.
    pub requires: Vec<Capability>,
    /// Follows the source's name: `is disabled`, `failed: …`.
    pub reason: String,
    /// Names of its tools, as far as they are known, where they are not derived from its id.
    pub names: BTreeSet<String>,
    /// Whether other tools of the source are there.
    is_partial: bool,
    /// How long calls of its tools wait for it, if it is starting.
    pub starting: Option<Duration>,
    /// Told when somebody needs it, if it can be tried again.
    pub again: Option<Arc<Notify>>,
}

impl Absence {
    /// Of a source under these terms.
    #[must_use]
    pub fn new(id: &SourceId, capabilities: &[Capability], reason: impl Into<String>) -> Self {
        let mut requires = capabilities.to_vec();
        if requires.is_empty() {
            requires.push(Capability::of_source(id));
        }
        requires.retain(|capability| !capability.is_public());
        let (reason, names) = (reason.into(), BTreeSet::new());
        Self { requires, reason, names, is_partial: false, starting: None, again: None }
    }

    pub(super) fn failed(id: &SourceId, terms: &SourceTerms, problem: &str) -> Self {
        Self::new(id, &terms.capabilities, format!("failed: {problem}"))
    }

    /// Of a source that is there, but for these tools; `None` if there are none.
    pub(super) fn of_some(
        id: &SourceId,
        terms: &SourceTerms,
        missing: BTreeMap<String, String>,
    ) -> Option<Self> {
        let reasons: BTreeSet<&str> = missing.values().map(String::as_str).collect();
        let reasons = reasons.into_iter().collect::<Vec<_>>().join("; ");
        let reason = format!("does not offer it at the moment: {reasons}");
        let is_partial = !missing.is_empty();
        let names = missing.into_keys().collect();
        let absence = Self::new(id, &terms.capabilities, reason);
        is_partial.then_some(Self { names, is_partial, ..absence })
    }

    fn has(&self, id: &SourceId, name: &str) -> bool {
        let rest = name.strip_prefix(id.as_str());
        let is_its = rest.is_some_and(|rest| rest.starts_with(':') || rest.starts_with("__"));
        let own = rest.and_then(|rest| rest.strip_prefix(':')).unwrap_or(name);
        self.names.contains(own) || is_its && !self.is_partial
    }
}

/// All of them, with who has set them aside: the configuration, or a failure.
#[derive(Default)]
pub(super) struct Absences {
    all: RwLock<BTreeMap<SourceId, Noted>>,
    /// Told with every change.
    changed: Notify,
}

type Noted = (Option<Holder>, Arc<Absence>);

impl Absences {
    /// A source has failed.
    pub(super) fn insert(&self, id: &SourceId, absence: Absence) {
        self.all.write().insert(id.clone(), (None, Arc::new(absence)));
        self.changed.notify_waiters();
    }

    /// A source is there, or nobody wants it any more.
    pub(super) fn remove(&self, id: &SourceId) {
        self.all.write().remove(id);
        self.changed.notify_waiters();
    }

    /// All that are set aside by one holder, in place of those that were.
    pub(super) fn replace(&self, holder: Holder, now: BTreeMap<SourceId, Absence>) {
        let mut all = self.all.write();
        all.retain(|_, (of, _)| *of != Some(holder));
        all.extend(now.into_iter().map(|(id, one)| (id, (Some(holder), Arc::new(one)))));
        drop(all);
        self.changed.notify_waiters();
    }

    /// Whether any source is starting.
    pub(super) fn has_starting(&self) -> bool {
        self.all.read().values().any(|(_, absence)| absence.starting.is_some())
    }

    /// Returns at the next change after this was called.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.changed.notified()
    }

    /// The source that a tool of this name would be of. Of two that fit, the one with the longer id.
    pub(super) fn find(&self, name: &str) -> Option<(SourceId, Arc<Absence>)> {
        let all = self.all.read();
        let fitting = all.iter().filter(|(id, (_, absence))| absence.has(id, name));
        let (id, (_, absence)) = fitting.max_by_key(|(id, _)| id.as_str().len())?;
        Some((id.clone(), Arc::clone(absence)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_the_source_that_is_meant() {
        let id = |text: &str| SourceId::new(text).unwrap();
        let all = Absences::default();
        for one in ["files", "files__old", "pack"] {
            let mut absence = Absence::new(&id(one), &[], "is disabled");
            if one == "pack" {
                absence.names.insert("greet".to_owned());
            }
            all.insert(&id(one), absence);
        }
        for (name, expected) in [
            ("files__read", Some("files")),
            ("files:read", Some("files")),
            ("files__old__read", Some("files__old")),
            ("greet", Some("pack")),
            ("filesystem__read", None),
            ("files", None),
            ("read", None),
        ] {
            let found = all.find(name).map(|(id, _)| id.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
        }
        all.remove(&id("files"));
        assert!(all.find("files__read").is_none());
        let missing = BTreeMap::from([("greet".to_owned(), "`c`: no connection".to_owned())]);
        let some = Absence::of_some(&id("pack"), &SourceTerms::default(), missing).unwrap();
        all.insert(&id("pack"), some);
        let found = |name: &str| all.find(name).map(|(_, absence)| absence.reason.clone());
        let reason = "does not offer it at the moment: `c`: no connection";
        assert_eq!(found("greet").as_deref(), Some(reason));
        assert_eq!(found("pack:greet").as_deref(), Some(reason));
        assert_eq!(found("pack:other"), None, "the pack itself is there");
    }

    #[test]
    fn those_of_a_holder_are_replaced_together() {
        let (all, id) = (Absences::default(), SourceId::new("a").unwrap());
        let disabled = || Absence::new(&id, &[], "is disabled");
        all.replace(Holder::Server, BTreeMap::from([(id.clone(), disabled())]));
        all.replace(Holder::Toolpack, BTreeMap::new());
        assert!(all.find("a__x").is_some());
        all.replace(Holder::Server, BTreeMap::new());
        assert!(all.find("a__x").is_none());
    }
}
