//! Keeps a server connected: starts it, notices its end, tries again with growing pauses, and lets it
//! sleep while it is not needed.

use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::source::SourceError;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Peer;
use super::context::SourceContext;
use super::diagnostics::Journal;
use super::dialer::{ConnectedServer, Dialer};
use super::uses::{InUse, Uses};
use super::wire::ServerInfo;
use crate::backoff::Backoff;

/// The shortest time between two attempts that calls ask for: however many call, a server that is down
/// is not dialled more often.
const DEMAND_PAUSE: Duration = Duration::from_millis(500);
/// How long a call waits for a server that is down to come back.
const DOWN_PATIENCE: Duration = Duration::from_secs(5);

/// Where the connection stands. Calls wait in the states before `Down`; in `Down` they ask for an
/// attempt, and wait for its outcome.
#[derive(Clone)]
enum State {
    Idle,
    Starting,
    Ready(Peer, Arc<ServerInfo>),
    /// Ended because it was not in use; the next call starts it again.
    Asleep,
    Down {
        reason: Arc<str>,
        /// Which attempt failed last, so that a call can tell the outcome of the next one.
        attempt: u64,
    },
    Closed,
}

/// Looks after one server. Dropping it ends the server.
pub(super) struct Supervisor {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

struct Shared {
    dialer: Arc<Dialer>,
    supervision: Supervision,
    uses: Uses,
    wake: Notify,
    /// Told when a call needs a server that is down.
    demand: Notify,
    state: watch::Sender<State>,
    context: SourceContext,
    journal: Arc<Journal>,
}

/// How a connection is looked after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Supervision {
    /// How long it may be unused before it is ended.
    pub(super) idle: Option<Duration>,
    /// The longest pause before the next attempt after a failure.
    pub(super) longest_pause: Duration,
    pub(super) audience: Audience,
}

/// Who is told when the connection is lost, and when it is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// The gate, which shows what the server offers.
    Gate,
    /// No one: the connection serves one client, and the gate watches the source's own connection.
    None,
}

/// Why a connection was given up.
enum End {
    Lost(String),
    Unused,
    Stopped,
}

impl Supervisor {
    pub(super) fn new(
        dialer: Arc<Dialer>,
        context: SourceContext,
        supervision: Supervision,
    ) -> Self {
        let stop = CancellationToken::new();
        let transport = dialer.transport();
        let shared = Shared {
            dialer,
            supervision,
            uses: Uses::new(),
            wake: Notify::new(),
            demand: Notify::new(),
            state: watch::Sender::new(State::Idle),
            context,
            journal: Arc::new(Journal::new(transport)),
        };
        Self {
            shared: Arc::new(shared),
            task: Mutex::default(),
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        }
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    pub(super) fn context(&self) -> &SourceContext {
        &self.shared.context
    }

    /// Marks the server as in use, so that it does not sleep. Take it before asking for the
    /// connection.
    pub(super) fn hold(&self) -> InUse {
        self.shared.uses.hold()
    }

    /// When it was last needed; `None` while it is in use.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        let state = self.shared.state.borrow().clone();
        (!self.shared.is_needed(&state)).then(|| self.shared.uses.last())
    }

    /// The connection, if there is one now.
    pub(super) fn ready_peer(&self) -> Option<Peer> {
        match &*self.shared.state.borrow() {
            State::Ready(peer, _) => Some(peer.clone()),
            State::Idle | State::Starting | State::Asleep | State::Down { .. } | State::Closed => {
                None
            }
        }
    }

    /// The connection, started if this is the first time that it is needed, or if it sleeps. A start is
    /// waited for, a failure is reported at once.
    pub(super) async fn peer(&self) -> Result<(Peer, Arc<ServerInfo>), SourceError> {
        self.start();
        let _awake = self.hold();
        let mut state = self.shared.state.subscribe();
        self.shared.wake.notify_one();
        let settled =
            |state: &State| !matches!(state, State::Idle | State::Starting | State::Asleep);
        let settled = state.wait_for(settled).await.map_err(|_| closed())?;
        match &*settled {
            State::Ready(peer, info) => Ok((peer.clone(), Arc::clone(info))),
            State::Down { reason, .. } => Err(SourceError::unreachable(&**reason)),
            State::Idle | State::Starting | State::Asleep | State::Closed => Err(closed()),
        }
    }

    /// The connection for a call. A server that is down is dialled at once, whatever pause it is in;
    /// calls that come meanwhile share the attempt.
    pub(super) async fn dial(&self) -> Result<(Peer, Arc<ServerInfo>), SourceError> {
        let _awake = self.hold();
        let mut state = self.shared.state.subscribe();
        let State::Down { reason, attempt: failed } = state.borrow().clone() else {
            return self.peer().await;
        };
        self.shared.demand.notify_one();
        let tried = state
            .wait_for(|state| !matches!(state, State::Down { attempt, .. } if *attempt == failed));
        let in_time = timeout(DOWN_PATIENCE, tried).await.is_ok();
        if in_time { self.peer().await } else { Err(SourceError::unreachable(&*reason)) }
    }

    /// Ends the server and waits until it is gone.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        let task = self.task.lock().take();
        match task {
            Some(task) => {
                if let Err(error) = task.await {
                    tracing::error!(%error, "the task that looks after a server has failed");
                }
            }
            None => self.shared.close(),
        }
    }

    fn start(&self) {
        let mut task = self.task.lock();
        if task.is_none() && !self.stop.is_cancelled() {
            self.shared.state.send_replace(State::Starting);
            *task = Some(tokio::spawn(Arc::clone(&self.shared).run(self.stop.clone())));
        }
    }
}

fn closed() -> SourceError {
    SourceError::unreachable("the server was stopped")
}

impl Shared {
    async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut backoff = Backoff::CONNECTION.up_to(self.supervision.longest_pause);
        let random = RandomState::new();
        for attempt in 0_u64.. {
            self.journal.starting();
            let started = Instant::now();
            let end = tokio::select! {
                live = self.dialer.connect(&self.journal, &self.context) => match live {
                    Ok(live) => self.serve(live, &stop).await,
                    Err(error) => End::Lost(error.to_string()),
                },
                () = stop.cancelled() => End::Stopped,
            };
            if self.uses.take_served() {
                backoff.reset();
            }
            backoff.after(started.elapsed());
            let again = match end {
                End::Stopped => break,
                End::Unused => self.sleep(&stop).await,
                End::Lost(reason) => {
                    let [jitter, ..] = random.hash_one(attempt).to_le_bytes();
                    let next = Instant::now() + backoff.next(jitter.into());
                    let on_demand = next.min(started + DEMAND_PAUSE);
                    self.down(&reason, attempt, (on_demand, next), &stop).await
                }
            };
            if again.is_break() {
                break;
            }
        }
        self.close();
    }

    async fn serve(&self, mut live: ConnectedServer, stop: &CancellationToken) -> End {
        let info = live.info();
        self.journal.ready(&info);
        let ready = State::Ready(live.peer(), Arc::new(info));
        self.uses.touch();
        if matches!(self.state.send_replace(ready.clone()), State::Down { .. }) {
            self.tell();
        }
        let end = tokio::select! {
            reason = live.served(&self.journal) => End::Lost(reason),
            () = self.unused(&ready) => End::Unused,
            () = stop.cancelled() => End::Stopped,
        };
        match end {
            End::Lost(_) => {}
            End::Unused => live.end().await,
            End::Stopped => {
                self.close();
                live.end().await;
            }
        }
        end
    }

    /// Returns when the server has been unused for long enough. From then on the connection is not
    /// handed out.
    async fn unused(&self, ready: &State) {
        let Some(idle) = self.supervision.idle else { return std::future::pending().await };
        loop {
            self.uses.idle_for(idle).await;
            if !self.is_needed(ready) {
                self.state.send_replace(State::Asleep);
                // A call may have taken the connection just before; later ones wait.
                if !self.is_needed(ready) {
                    return;
                }
                self.state.send_replace(ready.clone());
            }
            self.uses.touch();
        }
    }

    /// Calls under way, calls that wait for their caller's answers, and subscriptions need the server.
    fn is_needed(&self, state: &State) -> bool {
        let busy = match state {
            State::Ready(peer, _) => peer.is_busy(),
            State::Idle | State::Starting | State::Asleep | State::Down { .. } | State::Closed => {
                false
            }
        };
        busy || self.uses.is_held() || !self.context.subscriptions.is_empty()
    }

    /// Waits until the server is needed.
    async fn sleep(&self, stop: &CancellationToken) -> ControlFlow<()> {
        self.journal.asleep();
        loop {
            tokio::select! {
                // A call may have left a notice long ago.
                () = self.wake.notified() => if self.uses.is_held() {
                    return ControlFlow::Continue(());
                },
                () = stop.cancelled() => return ControlFlow::Break(()),
            }
        }
    }

    /// Until it is time for the next attempt: at `next`, or, if a call asks for it, at `on_demand`.
    async fn down(
        &self,
        reason: &str,
        attempt: u64,
        (on_demand, next): (Instant, Instant),
        stop: &CancellationToken,
    ) -> ControlFlow<()> {
        // The supervisor of sources is told, and warns.
        tracing::debug!(reason, "a server is down");
        self.journal.failed(reason, next);
        let before = self.state.send_replace(State::Down { reason: reason.into(), attempt });
        if matches!(before, State::Ready(..) | State::Asleep) {
            self.tell();
        }
        let demanded = async {
            loop {
                self.demand.notified().await;
                // A call may have left a notice long ago.
                if self.uses.is_held() {
                    return sleep_until(on_demand).await;
                }
            }
        };
        let due = async {
            tokio::select! {
                () = sleep_until(next) => {}
                () = demanded => {}
            }
        };
        tokio::select! {
            () = due => {
                self.journal.restarting();
                ControlFlow::Continue(())
            }
            () = stop.cancelled() => ControlFlow::Break(()),
        }
    }

    fn tell(&self) {
        match self.supervision.audience {
            Audience::Gate => self.context.changes.bump(),
            Audience::None => {}
        }
    }

    fn close(&self) {
        self.journal.closed();
        self.state.send_replace(State::Closed);
    }
}
