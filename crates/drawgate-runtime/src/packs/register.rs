//! Registration of packs: a manifest is registered whole, or refused with all its faults.

use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_core::registry::SourceTerms;
use drawgate_core::source::ToolSource;
use drawgate_sdk::proto::PackManifest;
use drawgate_sources::pack::{Outgoing, PackSource, PackTerms, ReadManifest, read_manifest};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::monitor::PackMonitor;
use super::refusal::{PackRefusal, refused, unknown_pack_id};
use super::slot::SlotReservation;
use super::{ConnectedPack, Packs, Peer};
use crate::peers::{Refusal, Refused};

/// Hexadecimal digits of a connection's stamp: 64 bits that no other connection has.
const STAMP: usize = 16;

/// A pack that the supervisor has admitted.
struct AdmittedPack {
    source: Arc<PackSource>,
    outgoing: Outgoing,
    calls: usize,
    id_taken: CancellationToken,
}

impl Packs {
    /// Registers a pack and starts its monitor. One at a time: compiling schemas takes work, and the
    /// table here must agree with the registry.
    pub async fn register(
        self: Arc<Self>,
        peer: Arc<Peer>,
        reservation: SlotReservation,
        manifest: PackManifest,
        stop: CancellationToken,
    ) -> Result<Outgoing, PackRefusal> {
        let id = SourceId::new(&peer.name)
            .map_err(|error| PackRefusal::InvalidName(error.to_string()))?;
        if manifest.pack_id != peer.name {
            self.note_refused(&peer).await;
            return Err(unknown_pack_id(&manifest.pack_id, &peer.name));
        }
        let _turn = self.registering.lock().await;
        if stop.is_cancelled() || peer.cut.is_cancelled() {
            return Err(PackRefusal::ConnectionEnded);
        }
        let (packs, admitted) = (Arc::clone(&self), (id.clone(), Arc::clone(&peer)));
        let admitting = spawn_blocking(move || packs.admit(&admitted.0, &admitted.1, manifest));
        let admitted = admitting.await.map_err(|_| PackRefusal::Internal)?;
        if admitted.is_err() {
            self.note_refused(&peer).await;
        }
        let AdmittedPack { source, outgoing, calls, id_taken } = admitted?;
        let held = reservation.take(source.connection());
        let pack = ConnectedPack {
            peer,
            source,
            calls,
            id_taken,
            end_grace: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        self.insert(&id, pack.clone());
        tokio::spawn(PackMonitor { packs: Arc::clone(&self), pack, stop }.run(held));
        Ok(outgoing)
    }

    /// The faults themselves are for the pack; the audit log says that there were some, and whose.
    async fn note_refused(&self, peer: &Peer) {
        let refused = Refused {
            refusal: Refusal::Manifest,
            purpose: Some(peer.terms.purpose),
            name: Some(peer.name.clone()),
            fingerprint: Some(peer.terms.fingerprint.clone()),
        };
        self.authenticator.record_refusal(&refused, peer.remote).await;
    }

    /// Reads a manifest and has it registered. Compiles every schema, and so must not run on a thread
    /// that serves others.
    fn admit(
        &self,
        id: &SourceId,
        peer: &Peer,
        manifest: PackManifest,
    ) -> Result<AdmittedPack, PackRefusal> {
        let terms = PackTerms {
            base: SourceTerms::clone(&self.base.load()),
            may_offer: &|name| peer.terms.tools.allows(name),
            capabilities: &peer.terms.capabilities,
            max_calls: self.settings.max_calls,
        };
        let ReadManifest { manifest, terms, features, faults } = read_manifest(id, manifest, terms);
        let calls = terms.concurrency;
        let stamp: String = self.ids.secret().chars().take(STAMP).collect();
        let (source, outgoing) = PackSource::new(manifest.clone(), features, calls, stamp);
        let offered = Arc::clone(&source) as Arc<dyn ToolSource>;
        let mut id_taken = CancellationToken::new();
        let admitted = if faults.is_empty() {
            let admitted =
                Handle::current().block_on(self.supervisor.admit(offered, manifest, terms));
            admitted.map(|given| id_taken = given)
        } else {
            self.supervisor.check_admission(offered, manifest, terms)
        };
        refused(id, faults, admitted.err())?;
        Ok(AdmittedPack { source, outgoing, calls, id_taken })
    }

    /// Adds a pack. One of the same name that is in its grace period is replaced.
    fn insert(&self, id: &SourceId, pack: ConnectedPack) {
        let before = self.connected.lock().insert(id.clone(), pack);
        if let Some(before) = before {
            before.end_grace.cancel();
        }
        self.count();
    }
}
