//! Sources that connect by themselves: they bring their manifests, and leave when their connections end.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::super::prepared::PreparedRegistration;
use super::super::{Origin, Registration, RegistrationError, SourceTerms};
use super::status::SourceState;
use super::{SourceHandle, SourceSupervisor, Supervision};
use crate::model::McpManifest;
use crate::source::ToolSource;

/// The signals between the supervisor and a source that connected by itself.
#[derive(Default)]
pub(super) struct LeaveSignals {
    /// Cancelled when the source must leave.
    requested: CancellationToken,
    /// Cancelled when the source is removed.
    finished: CancellationToken,
}

impl Drop for LeaveSignals {
    fn drop(&mut self) {
        self.finished.cancel();
    }
}

impl Supervision {
    /// Whether it is this source, and an admitted one.
    fn is(&self, source: &Arc<dyn ToolSource>) -> bool {
        !self.is_configured()
            && std::ptr::addr_eq(Arc::as_ptr(&self.supervised.source), Arc::as_ptr(source))
    }

    /// Asks an admitted source to leave. The returned token is cancelled when it has left.
    pub(super) fn ask_to_leave(&self) -> Option<(Arc<dyn ToolSource>, CancellationToken)> {
        match &self.handle {
            SourceHandle::Configured(_) => None,
            SourceHandle::Admitted(leave) => {
                leave.requested.cancel();
                Some((Arc::clone(&self.supervised.source), leave.finished.clone()))
            }
        }
    }
}

impl SourceSupervisor {
    /// Registers a source that connected by itself, with its whole manifest, or refuses it. An admitted
    /// source of the same id is replaced in the same revision and closed. The returned token is
    /// cancelled when the operator gives the id to another source: the caller must
    /// [remove](Self::remove_admitted) the source then.
    pub async fn admit(
        &self,
        source: Arc<dyn ToolSource>,
        manifest: McpManifest,
        terms: SourceTerms,
    ) -> Result<CancellationToken, RegistrationError> {
        self.admit_from(Origin::Admitted, source, manifest, terms).await
    }

    /// The same for a source of the program that the gateway is a part of: what its manifest says counts
    /// like what an operator has configured.
    pub async fn declare(
        &self,
        source: Arc<dyn ToolSource>,
        manifest: McpManifest,
        terms: SourceTerms,
    ) -> Result<CancellationToken, RegistrationError> {
        self.admit_from(Origin::Declared, source, manifest, terms).await
    }

    async fn admit_from(
        &self,
        origin: Origin,
        source: Arc<dyn ToolSource>,
        manifest: McpManifest,
        terms: SourceTerms,
    ) -> Result<CancellationToken, RegistrationError> {
        let id = source.id().clone();
        // Checked first, because compiling schemas is expensive.
        self.check_free(&self.sources.lock(), &id)?;
        let supervised = self.supervised_source(source, terms, origin);
        let server = format!("{} {}", manifest.name, manifest.version);
        let prepared = PreparedRegistration::of(supervised.registration(manifest))?;
        let leave = LeaveSignals::default();
        let requested = leave.requested.clone();
        let replaced = {
            let mut sources = self.sources.lock();
            self.check_free(&sources, &id)?;
            let done = self.registry.commit(prepared);
            supervised.note(server, done.clone(), &[]);
            done?;
            self.unusable.lock().remove(&id);
            self.registry.clear_absent(&id);
            sources.insert(id, Supervision { supervised, handle: SourceHandle::Admitted(leave) })
        };
        if let Some(replaced) = replaced {
            replaced.supervised.source.close().await;
        }
        Ok(requested)
    }

    /// Runs the checks of [`admit`](Self::admit) without registering anything.
    pub fn check_admission(
        &self,
        source: Arc<dyn ToolSource>,
        manifest: McpManifest,
        terms: SourceTerms,
    ) -> Result<(), RegistrationError> {
        self.check_free(&self.sources.lock(), source.id())?;
        let origin = Origin::Admitted;
        self.registry.examine(Registration { manifest, terms, origin, source })
    }

    /// Marks an admitted source as disconnected and expected back: its tools stay listed, and calls to
    /// them answer that it is unavailable. Does nothing if another source has replaced it.
    pub fn mark_away(&self, source: &Arc<dyn ToolSource>) {
        let sources = self.sources.lock();
        if let Some(found) = sources.get(source.id()).filter(|found| found.is(source)) {
            let now = self.pins.clock.now_ms();
            found.supervised.status.lock().become_state(SourceState::Away, now);
        }
    }

    /// Removes an admitted source: its tools leave the list at once, and their names are free. Does
    /// nothing and returns `false` if another source has replaced it.
    pub async fn remove_admitted(&self, source: &Arc<dyn ToolSource>) -> bool {
        let left = {
            let mut sources = self.sources.lock();
            if !sources.get(source.id()).is_some_and(|found| found.is(source)) {
                return false;
            }
            self.registry.retire(source.id());
            sources.remove(source.id())
        };
        source.close().await;
        // Wakes those who wait for its end.
        drop(left);
        true
    }
}
