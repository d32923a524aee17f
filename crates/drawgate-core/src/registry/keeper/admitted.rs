//! Sources that come by themselves: they bring their manifests, and their connections say when they
//! go.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::super::wanted::Wanted;
use super::super::{Origin, Registration, RegistrationError, SourceTerms};
use super::status::SourceState;
use super::{Hold, Keeper, Supervision};
use crate::model::McpManifest;
use crate::source::ToolSource;

/// The place of a source that came by itself.
#[derive(Default)]
pub(super) struct Stay {
    /// Cancelled when it must leave.
    notice: CancellationToken,
    /// Cancelled when nothing of it is left.
    gone: CancellationToken,
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

impl Supervision {
    /// Whether it is this source, and came by itself.
    fn is(&self, source: &Arc<dyn ToolSource>) -> bool {
        !self.is_configured()
            && std::ptr::addr_eq(Arc::as_ptr(&self.supervised.source), Arc::as_ptr(source))
    }

    /// Has it leave if it came by itself; what is returned beside it is cancelled when it has.
    pub(super) fn send_away(&self) -> Option<(Arc<dyn ToolSource>, CancellationToken)> {
        match &self.hold {
            Hold::Configured(_) => None,
            Hold::Admitted(stay) => {
                stay.notice.cancel();
                Some((Arc::clone(&self.supervised.source), stay.gone.clone()))
            }
        }
    }
}

impl Keeper {
    /// Takes in a source that came by itself, with its manifest: registered whole when this returns,
    /// or refused. One of the same id that came by itself too is replaced in the same revision, and
    /// closed. What is returned is cancelled when the operator gives the id to somebody else: it must
    /// be [dismissed](Self::dismiss) then.
    pub async fn admit(
        &self,
        source: Arc<dyn ToolSource>,
        manifest: McpManifest,
        terms: SourceTerms,
    ) -> Result<CancellationToken, RegistrationError> {
        let id = source.id().clone();
        // Nobody's schemas are compiled in vain.
        self.check_free(&self.kept.lock(), &id)?;
        let supervised = self.supervised_source(source, terms, Origin::Admitted);
        let server = format!("{} {}", manifest.name, manifest.version);
        let wanted = Wanted::of(supervised.registration(manifest))?;
        let stay = Stay::default();
        let notice = stay.notice.clone();
        let replaced = {
            let mut kept = self.kept.lock();
            self.check_free(&kept, &id)?;
            let done = self.registry.commit(wanted);
            supervised.note(server, done.clone(), &[]);
            done?;
            self.unusable.lock().remove(&id);
            self.registry.clear_absent(&id);
            kept.insert(id, Supervision { supervised, hold: Hold::Admitted(stay) })
        };
        if let Some(replaced) = replaced {
            replaced.supervised.source.close().await;
        }
        Ok(notice)
    }

    /// What [`admit`](Self::admit) would say now, without taking anything in.
    pub fn examine(
        &self,
        source: Arc<dyn ToolSource>,
        manifest: McpManifest,
        terms: SourceTerms,
    ) -> Result<(), RegistrationError> {
        self.check_free(&self.kept.lock(), source.id())?;
        let origin = Origin::Admitted;
        self.registry.examine(Registration { manifest, terms, origin, source })
    }

    /// A source that came by itself is gone, and expected back: its tools stay listed, and it answers
    /// calls of them as unavailable. Nothing happens if another has taken its place.
    pub fn away(&self, source: &Arc<dyn ToolSource>) {
        let kept = self.kept.lock();
        if let Some(found) = kept.get(source.id()).filter(|kept| kept.is(source)) {
            let now = self.pins.clock.now_ms();
            found.supervised.status.lock().become_state(SourceState::Away, now);
        }
    }

    /// A source that came by itself is gone: its tools leave the list at once, and their names are
    /// free. Nothing happens if another has taken its place; `false` then.
    pub async fn dismiss(&self, source: &Arc<dyn ToolSource>) -> bool {
        let left = {
            let mut kept = self.kept.lock();
            if !kept.get(source.id()).is_some_and(|kept| kept.is(source)) {
                return false;
            }
            self.registry.retire(source.id());
            kept.remove(source.id())
        };
        source.close().await;
        // Whoever waits for its end hears of it now.
        drop(left);
        true
    }
}
