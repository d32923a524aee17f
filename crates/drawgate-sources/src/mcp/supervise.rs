//! Keeps a server connected: starts it, notices its end, tries again with growing pauses.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use drawgate_core::source::SourceError;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backoff::Backoff;
use super::changes::Changes;
use super::diagnostics::Journal;
use super::wire::ServerInfo;
use super::{Peer, http, stdio};

/// How to reach a server.
pub(super) enum Link {
    Stdio(stdio::Link),
    Http(http::Link),
}

/// A connected server, in the hands of the task that looks after it.
enum Live {
    Stdio(Box<stdio::Server>),
    Http(Arc<http::Peer>),
}

/// Where the connection stands. Calls fail at once in all states but the first three.
#[derive(Clone)]
enum State {
    Idle,
    Starting,
    Ready(Peer, Arc<ServerInfo>),
    Down(Arc<str>),
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
    link: Link,
    state: watch::Sender<State>,
    changes: Changes,
    journal: Arc<Journal>,
}

impl Supervisor {
    pub(super) fn new(link: Link) -> Self {
        let stop = CancellationToken::new();
        let shared = Shared {
            link,
            state: watch::Sender::new(State::Idle),
            changes: Changes::new(),
            journal: Arc::new(Journal::default()),
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

    pub(super) fn changes(&self) -> &Changes {
        &self.shared.changes
    }

    /// The connection, if there is one now.
    pub(super) fn ready_peer(&self) -> Option<Peer> {
        match &*self.shared.state.borrow() {
            State::Ready(peer, _) => Some(peer.clone()),
            State::Idle | State::Starting | State::Down(_) | State::Closed => None,
        }
    }

    /// The connection, started if this is the first time that it is needed. A start is waited for, a
    /// failure is reported at once.
    pub(super) async fn peer(&self) -> Result<(Peer, Arc<ServerInfo>), SourceError> {
        self.start();
        let mut state = self.shared.state.subscribe();
        let settled = |state: &State| !matches!(state, State::Idle | State::Starting);
        let settled = state.wait_for(settled).await.map_err(|_| closed())?;
        match &*settled {
            State::Ready(peer, info) => Ok((peer.clone(), Arc::clone(info))),
            State::Down(reason) => Err(SourceError::unreachable(&**reason)),
            State::Idle | State::Starting | State::Closed => Err(closed()),
        }
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
        let mut backoff = Backoff::new();
        let random = RandomState::new();
        for attempt in 0_u64.. {
            self.journal.starting();
            let started = Instant::now();
            let reason = tokio::select! {
                live = self.link.connect(&self.journal, &self.changes) => match live {
                    Ok((live, info)) => self.serve(live, info, &stop).await,
                    Err(error) => Some(error.to_string()),
                },
                () = stop.cancelled() => None,
            };
            let Some(reason) = reason else { break };
            backoff.after(started.elapsed());
            self.down(&reason);
            let [jitter, ..] = random.hash_one(attempt).to_le_bytes();
            tokio::select! {
                () = sleep(backoff.next(jitter.into())) => self.journal.restarting(),
                () = stop.cancelled() => break,
            }
        }
        self.close();
    }

    /// Until the server is lost, which gives a reason, or told to end, which gives none.
    async fn serve(
        &self,
        mut live: Live,
        info: ServerInfo,
        stop: &CancellationToken,
    ) -> Option<String> {
        self.journal.ready(&info);
        let before = self.state.send_replace(State::Ready(live.peer(), Arc::new(info)));
        if matches!(before, State::Down(_)) {
            self.changes.bump();
        }
        let lost = tokio::select! {
            reason = live.served(&self.journal) => Some(reason),
            () = stop.cancelled() => None,
        };
        if lost.is_none() {
            self.close();
            live.end().await;
        }
        lost
    }

    fn down(&self, reason: &str) {
        tracing::warn!(reason, "a server is down");
        self.journal.failed(reason);
        if matches!(self.state.send_replace(State::Down(reason.into())), State::Ready(..)) {
            self.changes.bump();
        }
    }

    fn close(&self) {
        self.journal.closed();
        self.state.send_replace(State::Closed);
    }
}

impl Link {
    async fn connect(
        &self,
        journal: &Arc<Journal>,
        changes: &Changes,
    ) -> Result<(Live, ServerInfo), SourceError> {
        match self {
            Self::Stdio(link) => {
                let server = link.connect(journal, changes).await?;
                let info = server.info.clone();
                Ok((Live::Stdio(Box::new(server)), info))
            }
            Self::Http(link) => {
                let peer = link.connect(journal, changes).await?;
                let info = peer.info();
                Ok((Live::Http(peer), info))
            }
        }
    }
}

impl Live {
    fn peer(&self) -> Peer {
        match self {
            Self::Stdio(server) => Peer::Stdio(Arc::clone(&server.connection)),
            Self::Http(peer) => Peer::Http(Arc::clone(peer)),
        }
    }

    async fn served(&mut self, journal: &Journal) -> String {
        match self {
            Self::Stdio(server) => server.served(journal).await,
            Self::Http(peer) => peer.served().await,
        }
    }

    async fn end(self) {
        match self {
            Self::Stdio(server) => server.end().await,
            Self::Http(peer) => peer.end().await,
        }
    }
}
