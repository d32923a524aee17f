//! What happens in a tree of runs, for those who watch. It is kept in memory only, and the oldest goes
//! first: what must not be lost is in the steps.

use std::collections::VecDeque;
use std::time::Duration;

use drawgate_core::model::ErrorCode;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::live::Phase;
use super::record::Ending;

/// Events of one tree that are kept for those who come late or read slowly.
const KEPT: usize = 4096;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    /// Its number in the tree, from 1.
    pub seq: u64,
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// The run.
    pub run: String,
    /// Its profile.
    pub profile: String,
    /// How many runs are above it.
    pub depth: u8,
    /// What happened.
    #[serde(flatten)]
    pub body: Happened,
}

/// What happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happened {
    /// It began, or was taken up again.
    Started {
        /// The model.
        model: String,
    },
    /// The model wrote more text.
    Text {
        /// The text.
        text: String,
    },
    /// A tool is called.
    Call {
        /// The step of the call.
        step: u32,
        /// The tool.
        tool: String,
        /// The arguments, known secrets masked.
        arguments: Value,
    },
    /// A call ended.
    Result {
        /// The step of the call.
        step: u32,
        /// The tool.
        tool: String,
        /// The code, if it failed.
        error: Option<ErrorCode>,
        /// The beginning of the result.
        text: String,
    },
    /// A message came into the conversation.
    Message {
        /// The run that it is from.
        from: Option<String>,
        /// The message.
        text: String,
    },
    /// The run is in another phase.
    Phase {
        /// The phase.
        phase: Phase,
    },
    /// A request to the model failed and is made again.
    Retry {
        /// Why it failed.
        reason: String,
        /// Milliseconds until then.
        pause_ms: u64,
    },
    /// It ended.
    Ended {
        /// How.
        ending: Ending,
        /// The last text.
        text: String,
        /// Why, unless it is done.
        reason: Option<String>,
        /// Tokens that it and its children used.
        tokens: u64,
        /// How many of them were read from a provider's cache.
        #[serde(default)]
        cached_tokens: u64,
        /// US dollars that it and its children cost, as far as prices are known.
        cost_usd: f64,
    },
}

/// The events of one tree.
#[derive(Debug)]
pub(crate) struct Feed {
    events: Mutex<VecDeque<RunEvent>>,
    newest: watch::Sender<u64>,
}

impl Default for Feed {
    fn default() -> Self {
        Self { events: Mutex::default(), newest: watch::Sender::new(0) }
    }
}

impl Feed {
    /// Adds an event; its number is given here.
    pub(crate) fn add(&self, mut event: RunEvent) {
        let mut events = self.events.lock();
        event.seq = *self.newest.borrow() + 1;
        let seq = event.seq;
        events.push_back(event);
        if events.len() > KEPT {
            events.pop_front();
        }
        drop(events);
        self.newest.send_replace(seq);
    }

    /// The events after a number, once there are any or the time is over.
    pub(crate) async fn after(&self, seq: u64, patience: Duration) -> Vec<RunEvent> {
        let mut newest = self.newest.subscribe();
        // Without a new event in time there is none to tell.
        let _ = tokio::time::timeout(patience, newest.wait_for(|newest| *newest > seq)).await;
        self.events.lock().iter().filter(|event| event.seq > seq).cloned().collect()
    }
}
