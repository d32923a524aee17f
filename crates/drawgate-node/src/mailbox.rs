//! What is on its way to JavaScript: results, calls of its tools, events.
//!
//! There is one function for all of them, which wakes the event loop; JavaScript then takes a batch. It is
//! a weak one: a gateway that does nothing does not keep the process alive.

use std::collections::VecDeque;
use std::fmt::Write as _;

use napi::Status;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use parking_lot::Mutex;
use serde_json::Value;

/// Events that wait for JavaScript at most, and calls of its tools.
const MOST_EVENTS: usize = 1024;
const MOST_TOOL_CALLS: usize = 1024;

/// Messages and bytes that are taken at once, so that the event loop has other turns in between.
const BATCH_MESSAGES: usize = 256;
const BATCH_BYTES: usize = 1024 * 1024;

/// Wakes the event loop.
pub(crate) type Wake = ThreadsafeFunction<(), (), (), Status, false, true>;

/// There is no room; nothing was sent.
#[derive(Debug)]
pub(crate) struct Full;

/// What is on its way to JavaScript.
pub(crate) struct Mailbox {
    state: Mutex<State>,
}

struct State {
    /// Absent once the gateway has ended.
    wake: Option<Wake>,
    /// Whether the event loop has been woken and has not looked yet.
    is_woken: bool,
    queue: VecDeque<Message>,
    events: usize,
    tool_calls: usize,
    /// The sequence after which audit events are missing, where some did not fit.
    lost_after: Option<u64>,
}

struct Message {
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An answer to what JavaScript began, which bounds how many there are.
    Answer,
    /// A call of its tool, by the number of the call.
    ToolCall(u32),
    Event,
}

impl Mailbox {
    pub(crate) fn new(wake: Wake) -> Self {
        let state = State {
            wake: Some(wake),
            is_woken: false,
            queue: VecDeque::new(),
            events: 0,
            tool_calls: 0,
            lost_after: None,
        };
        Self { state: Mutex::new(state) }
    }

    /// Answers something that JavaScript began under this number, with JSON.
    pub(crate) fn answer(&self, kind: &str, id: u32, json: &str) {
        push(&mut self.state.lock(), Kind::Answer, format!("[\"{kind}\",{id},{json}]"));
    }

    /// Tells JavaScript how far a call is, unless it is behind.
    pub(crate) fn progress(&self, id: u32, report: &Value) {
        let mut state = self.state.lock();
        if state.events < MOST_EVENTS {
            state.events += 1;
            push(&mut state, Kind::Event, format!("[\"progress\",{id},{report}]"));
        }
    }

    /// Has JavaScript call one of its tools.
    pub(crate) fn tool_call(&self, id: u32, call: &Value) -> Result<(), Full> {
        let text = format!("[\"call\",{id},{call}]");
        let mut state = self.state.lock();
        if state.wake.is_none() || state.tool_calls >= MOST_TOOL_CALLS {
            return Err(Full);
        }
        state.tool_calls += 1;
        push(&mut state, Kind::ToolCall(id), text);
        Ok(())
    }

    /// Tells JavaScript that nobody waits for a call of its tool any more. A call that it has not taken yet
    /// is not made at all.
    pub(crate) fn abort_tool_call(&self, id: u32) {
        let mut state = self.state.lock();
        let place = state.queue.iter().position(|message| message.kind == Kind::ToolCall(id));
        match place {
            Some(place) => {
                state.queue.remove(place);
                state.tool_calls -= 1;
            }
            None => push(&mut state, Kind::Answer, format!("[\"abort\",{id}]")),
        }
    }

    /// Tells listeners of an event, with JSON. Where there is no room, they are told that events after
    /// the sequence `after` of the audit log are missing.
    pub(crate) fn event(&self, name: &str, json: &str, after: u64) -> Result<(), Full> {
        let mut state = self.state.lock();
        if state.events >= MOST_EVENTS {
            state.lost_after.get_or_insert(after);
            return Err(Full);
        }
        state.events += 1;
        push(&mut state, Kind::Event, format!("[\"event\",\"{name}\",{json}]"));
        Ok(())
    }

    /// Tells listeners that events after a sequence are missing.
    pub(crate) fn lost(&self, after: u64) {
        let mut state = self.state.lock();
        state.lost_after.get_or_insert(after);
        wake(&mut state);
    }

    /// The next messages, as a JSON array.
    pub(crate) fn take(&self) -> String {
        let mut state = self.state.lock();
        state.is_woken = false;
        let mut batch = String::from("[");
        for count in 0..BATCH_MESSAGES {
            let Some(Message { kind, text }) = state.queue.pop_front() else { break };
            match kind {
                Kind::Answer => {}
                Kind::ToolCall(_) => state.tool_calls -= 1,
                Kind::Event => state.events -= 1,
            }
            let comma = if count == 0 { "" } else { "," };
            let _infallible = write!(batch, "{comma}{text}");
            if batch.len() >= BATCH_BYTES {
                break;
            }
        }
        batch.push(']');
        if state.events == 0
            && let Some(after) = state.lost_after.take()
        {
            let text = format!("[\"event\",\"lagged\",{{\"after\":{after}}}]");
            push(&mut state, Kind::Answer, text);
        } else if !state.queue.is_empty() {
            wake(&mut state);
        }
        batch
    }

    /// Nothing reaches JavaScript from here on.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.queue.clear();
        let wake = state.wake.take();
        drop(state);
        drop(wake);
    }
}

fn push(state: &mut State, kind: Kind, text: String) {
    if state.wake.is_some() {
        state.queue.push_back(Message { kind, text });
        wake(state);
    }
}

fn wake(state: &mut State) {
    if let Some(wake) = state.wake.as_ref().filter(|_| !state.is_woken) {
        // It fails only where the environment has ended, and then nobody listens.
        state.is_woken = wake.call((), ThreadsafeFunctionCallMode::NonBlocking) == Status::Ok;
    }
}
