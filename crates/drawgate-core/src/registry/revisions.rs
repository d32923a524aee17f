//! The tools of all sources, changed one source at a time, each change in one new revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::absent::{Absence, Absences};
use super::contents::{Contents, Gone};
use super::prepared::PreparedRegistration;
use super::{BadTool, Holder, Registration, RegistrationError, Snapshot};
use crate::model::SourceId;

/// All tools of the gateway, in revisions.
pub struct Registry {
    current: ArcSwap<Snapshot>,
    revision: watch::Sender<u64>,
    /// Counts every change, also those that callers do not see.
    changes: watch::Sender<u64>,
    changing: Mutex<()>,
    absent: Absences,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            current: ArcSwap::from_pointee(Snapshot::default()),
            revision: watch::Sender::new(0),
            changes: watch::Sender::new(0),
            changing: Mutex::new(()),
            absent: Absences::default(),
        }
    }
}

impl Registry {
    /// The tools as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Reads without keeping: cheaper than [`snapshot`](Self::snapshot) on the way of a call.
    pub(crate) fn peek(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// The revision, for subscribers.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Registers a source, replacing all it had. Returns the tools that were left out.
    pub fn replace(&self, registration: Registration) -> Result<Vec<BadTool>, RegistrationError> {
        self.commit(PreparedRegistration::of(registration)?)
    }

    /// The same for a source that is starting, with what is known of it from before. Calls of its tools wait
    /// until it is registered, or known to be down.
    pub(super) fn replace_remembered(
        &self,
        registration: Registration,
    ) -> Result<Vec<BadTool>, RegistrationError> {
        self.commit_as(PreparedRegistration::of(registration)?, Some(Gone::NotYet))
    }

    /// Whether a source is starting, and its tools are those of before.
    pub(crate) fn is_starting(&self, source: &SourceId) -> bool {
        self.current.load().gone(source) == Some(Gone::NotYet)
    }

    /// Waits until a source is not starting any more.
    pub(crate) async fn started(&self, source: &SourceId) {
        let mut changes = self.changes.subscribe();
        while self.is_starting(source) {
            // The sender is this registry's own.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// The second half of it. The first takes the time, and needs no lock.
    pub(super) fn commit(
        &self,
        prepared: PreparedRegistration,
    ) -> Result<Vec<BadTool>, RegistrationError> {
        self.commit_as(prepared, None)
    }

    fn commit_as(
        &self,
        mut prepared: PreparedRegistration,
        gone: Option<Gone>,
    ) -> Result<Vec<BadTool>, RegistrationError> {
        let _changing = self.changing.lock();
        let before = self.current.load_full();
        for entry in &mut prepared.entries {
            entry.inherit(&before, &prepared.source);
        }
        let leaving = prepared.claims(&before)?;
        let PreparedRegistration { source, entries, offered, bad, .. } = prepared;
        let mut contents = before.contents().clone();
        contents.remove(|id| *id == source || leaving.contains(id));
        contents.down.extend(gone.map(|gone| (source.clone(), gone)));
        contents.insert(source, entries, offered);
        self.publish(&before, contents);
        Ok(bad)
    }

    /// What [`replace`](Self::replace) would say now, without doing it.
    pub fn examine(&self, registration: Registration) -> Result<(), RegistrationError> {
        PreparedRegistration::of(registration)?.claims(&self.current.load()).map(drop)
    }

    /// Forgets a source.
    pub fn remove(&self, source: &SourceId) {
        let _changing = self.changing.lock();
        let before = self.current.load_full();
        let mut contents = before.contents().clone();
        contents.remove(|id| id == source);
        self.publish(&before, contents);
    }

    /// Notes why a source that the operator has set up offers nothing.
    pub fn set_absent(&self, source: &SourceId, absence: Absence) {
        self.absent.insert(source, absence);
    }

    /// Forgets it: the source is there, or nobody wants it any more.
    pub fn clear_absent(&self, source: &SourceId) {
        self.absent.remove(source);
    }

    /// Whether a source is starting whose tools are not known from before.
    pub(crate) fn has_unknown_starting(&self) -> bool {
        self.absent.has_starting()
    }

    /// Returns when other sources are absent than when this was called.
    pub(crate) fn absences_changed(&self) -> impl Future<Output = ()> + '_ {
        self.absent.changed()
    }

    /// Notes all sources that a holder has set aside, in place of those that it had before.
    pub fn set_aside(&self, holder: Holder, sources: BTreeMap<SourceId, Absence>) {
        self.absent.replace(holder, sources);
    }

    /// The source that offers nothing and that a tool of this name would be of.
    #[must_use]
    pub fn absent(&self, name: &str) -> Option<(SourceId, Arc<Absence>)> {
        self.absent.find(name)
    }

    /// Marks a source as gone for now: its tools are not listed, and calls of them are refused as
    /// unavailable by the source itself.
    pub fn set_down(&self, source: &SourceId) {
        self.set_gone(source, Gone::ForNow);
    }

    /// The same for a source that nobody waits for: whoever registers a tool of the same name next
    /// takes its place.
    pub fn retire(&self, source: &SourceId) {
        self.set_gone(source, Gone::ForGood);
    }

    fn set_gone(&self, source: &SourceId, gone: Gone) {
        let _changing = self.changing.lock();
        let before = self.current.load_full();
        if before.contents().has_any_of(source) && before.gone(source) != Some(gone) {
            let mut contents = before.contents().clone();
            contents.down.insert(source.clone(), gone);
            self.publish(&before, contents);
        }
    }

    fn publish(&self, before: &Snapshot, contents: Contents) {
        // The same tools again, from a source that reconnected, are the same revision to callers.
        let same = contents.same_as(before.contents());
        let revision = if same { before.revision() } else { before.revision() + 1 };
        self.current.store(Arc::new(Snapshot::build(revision, contents)));
        if !same {
            self.revision.send_replace(revision);
        }
        self.changes.send_modify(|count| *count += 1);
    }
}
