//! Calls that wait for their answers, by number.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use drawgate_core::source::{ProgressSink, Sent};
use drawgate_sdk::proto::ExecuteToolResponse;
use drawgate_sdk::proto::execute_tool_response::Result as Answer;
use tokio::sync::oneshot;

use super::ending::Dropped;

/// How many calls that were given up are remembered, to tell late answers from duplicates.
const REMEMBERED: usize = 256;

/// What a call hears in the end.
pub(super) type Heard = Result<Option<Answer>, Sent>;

/// The calls of one connection.
#[derive(Default)]
pub(super) struct Pending {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    given_up: VecDeque<u64>,
}

struct Waiting {
    heard: oneshot::Sender<Heard>,
    progress: Option<Arc<dyn ProgressSink>>,
    sent: Sent,
}

impl Pending {
    /// A new call, and where its answer will come.
    pub(super) fn open(
        &mut self,
        progress: Option<Arc<dyn ProgressSink>>,
    ) -> (u64, oneshot::Receiver<Heard>) {
        let number = self.next;
        self.next += 1;
        let (heard, answer) = oneshot::channel();
        self.waiting.insert(number, Waiting { heard, progress, sent: Sent::Nothing });
        (number, answer)
    }

    /// Notes that a call goes out now; `false` if it has been given up.
    pub(super) fn send(&mut self, number: u64) -> bool {
        match self.waiting.get_mut(&number) {
            Some(waiting) => {
                waiting.sent = Sent::Perhaps;
                true
            }
            None => false,
        }
    }

    /// Hands an answer to its call.
    pub(super) fn answer(
        &mut self,
        number: u64,
        response: ExecuteToolResponse,
    ) -> Result<(), Dropped> {
        match self.waiting.remove(&number) {
            Some(waiting) => {
                // The caller may have given up at this moment.
                waiting.heard.send(Ok(response.result)).map_err(|_| Dropped::Late)
            }
            None => Err(self.unexpected(number)),
        }
    }

    /// Where news of a call go.
    pub(super) fn progress(&self, number: u64) -> Option<Arc<dyn ProgressSink>> {
        self.waiting.get(&number)?.progress.clone()
    }

    /// Gives a call up; says whether the pack has it, if it was still open.
    pub(super) fn give_up(&mut self, number: u64) -> Option<Sent> {
        let waiting = self.waiting.remove(&number)?;
        if self.given_up.len() == REMEMBERED {
            self.given_up.pop_front();
        }
        self.given_up.push_back(number);
        Some(waiting.sent)
    }

    /// Ends every call.
    pub(super) fn end(&mut self) {
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            // A call that gave up at the same moment hears nothing, and needs not.
            let _ = waiting.heard.send(Err(waiting.sent));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    fn unexpected(&mut self, number: u64) -> Dropped {
        if number >= self.next {
            return Dropped::Foreign;
        }
        match self.given_up.iter().position(|given_up| *given_up == number) {
            Some(place) => {
                self.given_up.remove(place);
                Dropped::Late
            }
            None => Dropped::Duplicate,
        }
    }
}
