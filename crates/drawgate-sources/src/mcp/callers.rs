//! The calls of one connection that are under way, and whose they are: progress, log messages and
//! questions of the server find their caller here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_core::model::Client;
use drawgate_core::source::CallContext;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::progress::{INTERVAL, Progress};
use super::requests::{Allowed, ClientRequest, ServerRequest};
use super::wire::METHOD_NOT_FOUND;
use crate::line_rpc::Delivery;

/// Questions of one call that may wait while another is answered.
const QUESTIONS: usize = 8;

/// All calls of a connection.
pub(super) struct Callers {
    calls: Mutex<BTreeMap<u64, CallEntry>>,
    given_up: Mutex<VecDeque<GivenUp>>,
    allowed: Allowed,
}

/// A caller that gave up before the server had answered. What the server says late about its call
/// must not reach another client.
struct GivenUp {
    affinity: Arc<str>,
    at: Instant,
}

/// How long a server may go on about a call that was given up, and how many such are remembered.
const LATE: Duration = Duration::from_secs(5);
const MAX_GIVEN_UP: usize = 1024;

struct CallEntry {
    affinity: Arc<str>,
    client: Arc<Client>,
    questions: Option<mpsc::Sender<ServerRequest>>,
    progress: Option<Progress>,
    /// Told when a report or a message is held back.
    held: Arc<Notify>,
}

/// A call that is under way; dropping it gives it up.
pub(super) struct ActiveCall {
    callers: Arc<Callers>,
    id: u64,
    questions: Option<mpsc::Receiver<ServerRequest>>,
    held: Arc<Notify>,
    answered: bool,
}

/// The stream that a message came on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    /// The stream of this call.
    Call(u64),
    /// A stream for everything.
    Any,
}

/// The call that a message belongs to.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    None,
    Call(u64),
    /// Calls of several clients are under way, and nothing says whose it is.
    Unclear,
}

impl Callers {
    pub(super) fn new(allowed: Allowed) -> Arc<Self> {
        Arc::new(Self { calls: Mutex::default(), given_up: Mutex::default(), allowed })
    }

    /// Enters a call under the id of its request.
    pub(super) fn enter(self: &Arc<Self>, id: u64, cx: &CallContext) -> ActiveCall {
        let (sender, receiver) =
            self.allowed.reaches(&cx.client).then(|| mpsc::channel(QUESTIONS)).unzip();
        let call = CallEntry {
            affinity: Arc::clone(&cx.affinity),
            client: Arc::clone(&cx.client),
            questions: sender,
            progress: progress(cx),
            held: Arc::default(),
        };
        let held = Arc::clone(&call.held);
        self.calls.lock().insert(id, call);
        ActiveCall { callers: Arc::clone(self), id, questions: receiver, held, answered: false }
    }

    /// Whether a message without a recipient may belong to a call that another client gave up.
    fn may_be_late(&self, affinity: &Arc<str>) -> bool {
        let mut given_up = self.given_up.lock();
        while given_up.front().is_some_and(|first| first.at.elapsed() > LATE) {
            given_up.pop_front();
        }
        given_up.iter().any(|other| other.affinity != *affinity)
    }

    fn owner(
        &self,
        calls: &BTreeMap<u64, CallEntry>,
        on: On,
        takes: impl Fn(&CallEntry) -> bool,
    ) -> Owner {
        let owner = owner(calls, on, takes);
        match (&owner, on) {
            (Owner::Call(id), On::Any) => match calls.get(id) {
                Some(call) if self.may_be_late(&call.affinity) => Owner::Unclear,
                _ => owner,
            },
            _ => owner,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.lock().is_empty()
    }

    pub(super) fn report(&self, id: u64, report: Map<String, Value>) -> Delivery {
        let mut calls = self.calls.lock();
        match calls.get_mut(&id) {
            Some(CallEntry { progress: Some(progress), held, .. }) => {
                progress.report(report, Instant::now());
                if progress.is_holding() {
                    held.notify_one();
                }
                Delivery::Delivered
            }
            Some(CallEntry { progress: None, .. }) | None => Delivery::Unknown,
        }
    }

    /// Passes on what was held back of a call, as far as it is time.
    fn pass(&self, id: u64) {
        let mut calls = self.calls.lock();
        if let Some(CallEntry { progress: Some(progress), held, .. }) = calls.get_mut(&id) {
            progress.pass(Instant::now());
            if progress.is_holding() {
                held.notify_one();
            }
        }
    }

    /// A message for a caller's log; one that could be for several clients is dropped.
    pub(super) fn log(&self, on: On, message: Map<String, Value>) {
        let mut calls = self.calls.lock();
        let Owner::Call(id) = self.owner(&calls, on, |call| call.progress.is_some()) else {
            return;
        };
        let Some(call) = calls.get_mut(&id) else { return };
        if let Some(progress) = &mut call.progress
            && is_wanted(call.client.log_level.as_deref(), &message)
        {
            progress.log(message, Instant::now());
            if progress.is_holding() {
                call.held.notify_one();
            }
        }
    }

    /// Takes a server's request: hands it to the call that it belongs to, or says what to answer.
    pub(super) fn ask(&self, on: On, request: ServerRequest) -> Option<Value> {
        if request.method == "ping" {
            return Some(request.result(&json!({})));
        }
        let calls = self.calls.lock();
        let unknown = "this client offers no such method";
        let id = match self.owner(&calls, on, |call| call.questions.is_some()) {
            Owner::Call(id) => id,
            Owner::Unclear if ClientRequest::of(&request.method).is_some() => {
                return Some(request.ambiguous());
            }
            Owner::None | Owner::Unclear => {
                return Some(request.error(METHOD_NOT_FOUND, unknown));
            }
        };
        let Some(call) = calls.get(&id) else {
            return Some(request.error(METHOD_NOT_FOUND, unknown));
        };
        let params = request.params.as_ref();
        if let Some((code, why)) = self.allowed.refusal(&call.client, &request.method, params) {
            return Some(request.error(code, why));
        }
        match &call.questions {
            Some(questions) => {
                questions.try_send(request).err().map(|error| error.into_inner().overflow())
            }
            None => Some(request.error(METHOD_NOT_FOUND, unknown)),
        }
    }
}

impl ActiveCall {
    /// The next question of the server; never, for a caller that can't be asked. Meanwhile what was
    /// held back for the caller is passed on.
    pub(super) async fn question(&mut self) -> ServerRequest {
        let Self { callers, id, questions, held, .. } = self;
        let asked = async {
            match questions {
                Some(questions) => questions.recv().await,
                None => None,
            }
        };
        let passing = async {
            loop {
                held.notified().await;
                sleep(INTERVAL).await;
                callers.pass(*id);
            }
        };
        tokio::select! {
            Some(question) = asked => question,
            never = passing => never,
        }
    }

    /// The server has answered: nothing more can come of this call.
    pub(super) fn answered(&mut self) {
        self.answered = true;
    }

    /// The call goes on for a caller that has come back with answers.
    pub(super) fn resume(&self, cx: &CallContext) {
        if let Some(call) = self.callers.calls.lock().get_mut(&self.id) {
            call.client = Arc::clone(&cx.client);
            call.progress = progress(cx);
        }
    }

    /// Whether the caller may be asked, so that the call may take longer than its deadline says.
    pub(super) fn is_askable(&self) -> bool {
        self.questions.is_some()
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        let call = self.callers.calls.lock().remove(&self.id);
        if let Some(call) = call.filter(|_| !self.answered) {
            let mut given_up = self.callers.given_up.lock();
            if given_up.len() == MAX_GIVEN_UP {
                given_up.pop_front();
            }
            given_up.push_back(GivenUp { affinity: call.affinity, at: Instant::now() });
        }
    }
}

fn progress(cx: &CallContext) -> Option<Progress> {
    cx.progress.clone().map(|sink| Progress::new(sink, Instant::now()))
}

/// With one client's calls under way, a message is for the newest of them that can take it.
fn owner(calls: &BTreeMap<u64, CallEntry>, on: On, takes: impl Fn(&CallEntry) -> bool) -> Owner {
    if let On::Call(id) = on {
        return Owner::Call(id);
    }
    let Some((newest, call)) = calls.last_key_value() else { return Owner::None };
    let same = calls.values().all(|other| other.affinity == call.affinity);
    let able = calls.iter().rev().find(|(_, call)| takes(call)).map_or(newest, |(id, _)| id);
    if same { Owner::Call(*able) } else { Owner::Unclear }
}

/// From the least to the most severe.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Another caller may have made the server more talkative than this one wants.
fn is_wanted(least: Option<&str>, message: &Map<String, Value>) -> bool {
    let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
    let level = message.get("level").and_then(Value::as_str);
    match (least.and_then(rank), level.and_then(rank)) {
        (Some(least), Some(level)) => level >= least,
        (None, _) | (_, None) => true,
    }
}

#[cfg(test)]
#[path = "callers_tests.rs"]
mod tests;
