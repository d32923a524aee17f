//! Registration: a manifest is taken in whole, or refused with everything that is wrong with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_core::registry::SourceTerms;
use drawgate_core::source::ToolSource;
use drawgate_sdk::proto::PackManifest;
use drawgate_sources::pack::{Outgoing, PackSource, PackTerms, ReadManifest, read_manifest};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::attend::Attendant;
use super::refusal::{refused, reserved, unknown_pack_id};
use super::seat::Claim;
use super::{Calls, Holder, Known, Packs, Peer};

/// Hexadecimal digits of a connection's stamp: 64 bits that no other connection has.
const STAMP: usize = 16;

impl Packs {
    /// Registers a pack and begins to attend to it. One at a time: schemas take work, and what is
    /// known here must agree with what the gate knows.
    pub(super) async fn register(
        self: Arc<Self>,
        peer: Arc<Peer>,
        claim: Claim,
        pack: PackManifest,
        stop: CancellationToken,
    ) -> Result<Calls, Status> {
        let id = SourceId::new(&peer.name)
            .map_err(|error| Status::failed_precondition(error.to_string()))?;
        if pack.pack_id != peer.name {
            return Err(unknown_pack_id(&pack.pack_id, &peer.name));
        }
        let _turn = self.registering.lock().await;
        if stop.is_cancelled() || peer.cut.is_cancelled() {
            return Err(Status::unavailable("this connection has ended, or the gateway stops"));
        }
        if let Some(holder) = self.holder_of(&id) {
            return Err(reserved(&id, holder));
        }
        let (packs, judged) = (Arc::clone(&self), (id.clone(), Arc::clone(&peer)));
        let judging = spawn_blocking(move || packs.judge(&judged.0, &judged.1, pack));
        let judged = judging.await.map_err(|_| Status::internal("the gateway failed inside"))?;
        let (source, outgoing, calls) = judged?;
        let held = claim.take(source.line());
        let known = Known {
            peer: Arc::clone(&peer),
            source,
            calls,
            dismiss: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        self.know(&id, known.clone());
        tokio::spawn(Attendant { packs: Arc::clone(&self), known, stop }.attend(held));
        Ok(Calls::new(outgoing, peer))
    }

    /// Reads a manifest and has it registered. Compiles every schema, and so must not run on a thread
    /// that serves others.
    fn judge(
        &self,
        id: &SourceId,
        peer: &Peer,
        pack: PackManifest,
    ) -> Result<(Arc<PackSource>, Outgoing, usize), Status> {
        let terms = PackTerms {
            base: SourceTerms::clone(&self.base.load()),
            may_offer: &|name| peer.terms.tools.allows(name),
            capabilities: &peer.terms.capabilities,
            max_calls: self.settings.max_calls,
        };
        let ReadManifest { manifest, terms, features, faults } = read_manifest(id, pack, terms);
        let calls = terms.concurrency;
        let stamp: String = self.ids.secret().chars().take(STAMP).collect();
        let (source, outgoing) = PackSource::new(manifest.clone(), features, calls, stamp);
        let offered = Arc::clone(&source) as Arc<dyn ToolSource>;
        let admitted = if faults.is_empty() {
            Handle::current().block_on(self.keeper.admit(offered, manifest, terms))
        } else {
            self.keeper.examine(offered, manifest, terms)
        };
        refused(faults, admitted.err())?;
        Ok((source, outgoing, calls))
    }

    /// Remembers a pack; one of the same name that is in its grace needs it no longer.
    fn know(&self, id: &SourceId, known: Known) {
        let before = self.known.lock().insert(id.clone(), known);
        if let Some(before) = before {
            before.dismiss.cancel();
        }
        self.count();
    }

    /// Keeps ids for what the operator has set up: no pack gets one of them, and a pack that has one
    /// is sent away.
    pub async fn reserve(&self, holder: Holder, ids: BTreeSet<SourceId>) {
        let _turn = self.registering.lock().await;
        let mut losers: Vec<SourceId> = self.known.lock().keys().cloned().collect();
        losers.retain(|id| ids.contains(id));
        self.reserved.lock().insert(holder, ids);
        for id in losers {
            self.kick(id.as_str()).await;
        }
    }

    fn holder_of(&self, id: &SourceId) -> Option<Holder> {
        let reserved = self.reserved.lock();
        reserved.iter().find(|(_, ids)| ids.contains(id)).map(|(holder, _)| *holder)
    }
}
