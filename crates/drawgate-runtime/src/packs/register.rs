//! Registration: a manifest is taken in whole, or refused with everything that is wrong with it.

use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_core::registry::SourceTerms;
use drawgate_core::source::ToolSource;
use drawgate_sdk::proto::PackManifest;
use drawgate_sources::pack::{Outgoing, PackSource, PackTerms, ReadManifest, read_manifest};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::attend::Attendant;
use super::refusal::{PackRefusal, refused, unknown_pack_id};
use super::seat::Claim;
use super::{Known, Packs, Peer};
use crate::peers::{Refusal, Refused};

/// Hexadecimal digits of a connection's stamp: 64 bits that no other connection has.
const STAMP: usize = 16;

/// A pack that was taken in.
struct Judged {
    source: Arc<PackSource>,
    outgoing: Outgoing,
    calls: usize,
    notice: CancellationToken,
}

impl Packs {
    /// Registers a pack and begins to attend to it. One at a time: schemas take work, and what is
    /// known here must agree with what the gate knows.
    pub async fn register(
        self: Arc<Self>,
        peer: Arc<Peer>,
        claim: Claim,
        pack: PackManifest,
        stop: CancellationToken,
    ) -> Result<Outgoing, PackRefusal> {
        let id = SourceId::new(&peer.name)
            .map_err(|error| PackRefusal::InvalidName(error.to_string()))?;
        if pack.pack_id != peer.name {
            self.note_refused(&peer).await;
            return Err(unknown_pack_id(&pack.pack_id, &peer.name));
        }
        let _turn = self.registering.lock().await;
        if stop.is_cancelled() || peer.cut.is_cancelled() {
            return Err(PackRefusal::ConnectionEnded);
        }
        let (packs, judged) = (Arc::clone(&self), (id.clone(), Arc::clone(&peer)));
        let judging = spawn_blocking(move || packs.judge(&judged.0, &judged.1, pack));
        let judged = judging.await.map_err(|_| PackRefusal::Internal)?;
        if judged.is_err() {
            self.note_refused(&peer).await;
        }
        let Judged { source, outgoing, calls, notice } = judged?;
        let held = claim.take(source.connection());
        let known = Known {
            peer,
            source,
            calls,
            notice,
            dismiss: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        self.know(&id, known.clone());
        tokio::spawn(Attendant { packs: Arc::clone(&self), known, stop }.attend(held));
        Ok(outgoing)
    }

    /// The faults themselves are for the pack; the log says that there were some, and whose.
    async fn note_refused(&self, peer: &Peer) {
        let refused = Refused {
            refusal: Refusal::Manifest,
            purpose: Some(peer.terms.purpose),
            name: Some(peer.name.clone()),
            fingerprint: Some(peer.terms.fingerprint.clone()),
        };
        self.door.note_refusal(&refused, peer.remote).await;
    }

    /// Reads a manifest and has it registered. Compiles every schema, and so must not run on a thread
    /// that serves others.
    fn judge(&self, id: &SourceId, peer: &Peer, pack: PackManifest) -> Result<Judged, PackRefusal> {
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
        let mut notice = CancellationToken::new();
        let admitted = if faults.is_empty() {
            let admitted = Handle::current().block_on(self.keeper.admit(offered, manifest, terms));
            admitted.map(|given| notice = given)
        } else {
            self.keeper.examine(offered, manifest, terms)
        };
        refused(faults, admitted.err())?;
        Ok(Judged { source, outgoing, calls, notice })
    }

    /// Remembers a pack; one of the same name that is in its grace needs it no longer.
    fn know(&self, id: &SourceId, known: Known) {
        let before = self.known.lock().insert(id.clone(), known);
        if let Some(before) = before {
            before.dismiss.cancel();
        }
        self.count();
    }
}
