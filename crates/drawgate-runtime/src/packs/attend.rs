//! One pack's task: heartbeats while it is there, the news that the gateway stops, and what becomes
//! of its tools when it is gone.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::source::ToolSource;
use drawgate_sources::pack::Ending;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Known, Packs};
use crate::peers::End;

/// How often a gateway that stops looks whether calls are still under way.
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// How often the keys of packs that are away are looked at.
const KEYS_PAUSE: Duration = Duration::from_secs(1);

/// Whoever attends to a pack.
pub(super) struct Attendant {
    pub(super) packs: Arc<Packs>,
    pub(super) known: Known,
    pub(super) stop: CancellationToken,
}

impl Attendant {
    /// From its registration to the end of its grace.
    pub(super) async fn attend(self, held: TaskTrackerToken) {
        let line = self.known.source.connection();
        tokio::select! {
            () = self.watch() => {}
            () = self.known.notice.cancelled() => {
                self.known.peer.end(End::Kicked);
                line.end(Ending::Cut);
            }
        }
        let ending = line.ending();
        self.part(ending);
        drop(held);
        self.bury(ending).await;
    }

    /// Until the line has ended.
    async fn watch(&self) {
        let line = self.known.source.connection();
        let pause = self.packs.settings.heartbeat;
        let mut beats = interval_at(Instant::now() + pause, pause);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = line.ended() => return,
                () = self.known.peer.cut.cancelled() => line.end(Ending::Cut),
                () = self.stop.cancelled() => return self.finish().await,
                _ = beats.tick() => line.beat(),
            }
        }
    }

    /// The gateway stops: calls under way, of any caller, may still need the pack.
    async fn finish(&self) {
        let line = self.known.source.connection();
        line.announce_stop();
        let mut looks = interval(STOP_PAUSE);
        loop {
            tokio::select! {
                () = line.ended() => return,
                () = self.known.peer.cut.cancelled() => line.end(Ending::Cut),
                _ = looks.tick() => {
                    if self.packs.gateway.under_way() == 0 {
                        line.end(Ending::Stopping);
                    }
                }
            }
        }
    }

    /// The connection of a pack that is silent, or whose place another one has taken, is of no use.
    fn part(&self, ending: Option<Ending>) {
        match ending {
            Some(Ending::Silent) => self.known.peer.end(End::Silent),
            Some(Ending::Replaced) => self.known.peer.end(End::Replaced),
            Some(Ending::Gone | Ending::Cut | Ending::Stopping) | None => {}
        }
    }

    /// Takes the tools out: at once, or when the grace is over.
    async fn bury(self, ending: Option<Ending>) {
        let source = Arc::clone(&self.known.source) as Arc<dyn ToolSource>;
        let grace = self.packs.settings.grace;
        if !grace.is_zero() && self.is_expected_back(ending) {
            self.packs.keeper.away(&source);
            tokio::select! {
                () = tokio::time::sleep(grace) => {}
                () = self.is_unwelcome() => {}
                () = self.known.dismiss.cancelled() => {}
                () = self.known.notice.cancelled() => {}
                () = self.stop.cancelled() => {}
            }
        }
        self.packs.keeper.dismiss(&source).await;
        self.packs.forget(&self.known);
        self.known.gone.cancel();
    }

    /// Until the key of a pack that is away counts no longer.
    async fn is_unwelcome(&self) {
        let mut looks = interval(KEYS_PAUSE);
        while self.packs.door.list().has(&self.known.peer.terms) {
            looks.tick().await;
        }
    }

    fn is_expected_back(&self, ending: Option<Ending>) -> bool {
        let was_sent_away = matches!(self.known.peer.reason(), Some(End::KeyRemoved | End::Kicked));
        matches!(ending, Some(Ending::Gone | Ending::Silent)) && !was_sent_away
    }
}

impl Packs {
    /// Forgets a pack, unless another has taken its place.
    fn forget(&self, known: &Known) {
        let mut all = self.known.lock();
        let id = known.source.id();
        if all.get(id).is_some_and(|other| Arc::ptr_eq(&other.source, &known.source)) {
            all.remove(id);
        }
        drop(all);
        self.count();
    }
}
