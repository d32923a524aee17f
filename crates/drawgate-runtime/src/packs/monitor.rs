//! The task of one connected pack: heartbeats, the announcement that the gateway stops, and the removal
//! of its tools after it has disconnected.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::source::ToolSource;
use drawgate_sources::pack::Ending;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{ConnectedPack, Packs};
use crate::peers::DisconnectReason;

/// How often a gateway that stops looks whether calls are still under way.
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// How often the keys of disconnected packs are checked.
const KEYS_PAUSE: Duration = Duration::from_secs(1);

/// Monitors one connected pack.
pub(super) struct PackMonitor {
    pub(super) packs: Arc<Packs>,
    pub(super) pack: ConnectedPack,
    pub(super) stop: CancellationToken,
}

impl PackMonitor {
    /// Runs from the registration of the pack to the end of its grace period.
    pub(super) async fn run(self, held: TaskTrackerToken) {
        let connection = self.pack.source.connection();
        tokio::select! {
            () = self.watch() => {}
            () = self.pack.id_taken.cancelled() => {
                self.pack.peer.end(DisconnectReason::Kicked);
                connection.end(Ending::Cut);
            }
        }
        let ending = connection.ending();
        self.end_connection(ending);
        drop(held);
        self.unregister(ending).await;
    }

    /// Sends heartbeats until the connection has ended.
    async fn watch(&self) {
        let connection = self.pack.source.connection();
        let pause = self.packs.settings.heartbeat;
        let mut beats = interval_at(Instant::now() + pause, pause);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = connection.ended() => return,
                () = self.pack.peer.cut.cancelled() => connection.end(Ending::Cut),
                () = self.stop.cancelled() => return self.finish().await,
                _ = beats.tick() => connection.beat(),
            }
        }
    }

    /// Waits, when the gateway stops, for calls under way: any of them may still need the pack.
    async fn finish(&self) {
        let connection = self.pack.source.connection();
        connection.announce_stop();
        let mut looks = interval(STOP_PAUSE);
        loop {
            tokio::select! {
                () = connection.ended() => return,
                () = self.pack.peer.cut.cancelled() => connection.end(Ending::Cut),
                _ = looks.tick() => {
                    if self.packs.gateway.under_way() == 0 {
                        connection.end(Ending::Stopping);
                    }
                }
            }
        }
    }

    /// Ends the connection of a pack that is silent or was replaced.
    fn end_connection(&self, ending: Option<Ending>) {
        match ending {
            Some(Ending::Silent) => self.pack.peer.end(DisconnectReason::Silent),
            Some(Ending::Replaced) => self.pack.peer.end(DisconnectReason::Replaced),
            Some(Ending::Gone | Ending::Cut | Ending::Stopping) | None => {}
        }
    }

    /// Removes the tools: at once, or after the grace period.
    async fn unregister(self, ending: Option<Ending>) {
        let source = Arc::clone(&self.pack.source) as Arc<dyn ToolSource>;
        let grace = self.packs.settings.grace;
        if !grace.is_zero() && self.is_expected_back(ending) {
            self.packs.supervisor.mark_away(&source);
            tokio::select! {
                () = tokio::time::sleep(grace) => {}
                () = self.key_withdrawn() => {}
                () = self.pack.end_grace.cancelled() => {}
                () = self.pack.id_taken.cancelled() => {}
                () = self.stop.cancelled() => {}
            }
        }
        self.packs.supervisor.remove_admitted(&source).await;
        self.packs.remove(&self.pack);
        self.pack.gone.cancel();
    }

    /// Waits until the key of a disconnected pack is removed.
    async fn key_withdrawn(&self) {
        let mut looks = interval(KEYS_PAUSE);
        while self.packs.authenticator.list().has(&self.pack.peer.terms) {
            looks.tick().await;
        }
    }

    fn is_expected_back(&self, ending: Option<Ending>) -> bool {
        let was_sent_away = matches!(
            self.pack.peer.reason(),
            Some(DisconnectReason::KeyRemoved | DisconnectReason::Kicked)
        );
        matches!(ending, Some(Ending::Gone | Ending::Silent)) && !was_sent_away
    }
}

impl Packs {
    /// Removes a pack, unless another has replaced it.
    fn remove(&self, pack: &ConnectedPack) {
        let mut all = self.connected.lock();
        let id = pack.source.id();
        if all.get(id).is_some_and(|other| Arc::ptr_eq(&other.source, &pack.source)) {
            all.remove(id);
        }
        drop(all);
        self.count();
    }
}
