//! What is known about open approvals while the gateway runs, and never stored: the exact arguments
//! of the call, for the person who decides, and whether a call waits for the answer at this moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::canonical;
use crate::model::Principal;

/// Bytes of exact arguments that are kept, in all and of one caller. What finds no room can't be
/// shown in full; the person who decides is told so.
const MAX_BYTES: usize = 64 * 1024 * 1024;
const MAX_BYTES_PER_CALLER: usize = 8 * 1024 * 1024;

/// Exact arguments and waiting calls, by the id of the approval.
#[derive(Default)]
pub(super) struct HeldCalls {
    calls: Mutex<BTreeMap<String, HeldCall>>,
    /// Cancelled when no call waits for a person any more, because the gateway stops.
    released: CancellationToken,
}

struct HeldCall {
    principal: Principal,
    expires_at: u64,
    /// Canonical JSON.
    arguments: Option<Arc<str>>,
    waiting: usize,
}

/// A call that waits for an answer, until this is dropped.
pub(super) struct Waiting<'a> {
    held: &'a HeldCalls,
    /// `None` where nothing is known about the approval.
    id: Option<&'a str>,
}

impl HeldCalls {
    /// Keeps the exact arguments of a call that a person is asked about, until the approval ends.
    pub(super) fn keep(
        &self,
        id: &str,
        principal: &Principal,
        arguments: &Map<String, Value>,
        (now, expires_at): (u64, u64),
    ) {
        let mut calls = self.calls.lock();
        calls.retain(|_, call| call.expires_at > now || call.waiting > 0);
        if calls.get(id).is_some_and(|call| call.arguments.is_some()) {
            return;
        }
        let mut bytes = Vec::new();
        canonical::write_map(arguments, &mut bytes);
        let size = |call: &HeldCall| call.arguments.as_ref().map_or(0, |text| text.len());
        let all: usize = calls.values().map(size).sum();
        let own: usize = calls.values().filter(|call| call.principal == *principal).map(size).sum();
        let fits = all + bytes.len() <= MAX_BYTES && own + bytes.len() <= MAX_BYTES_PER_CALLER;
        let text = String::from_utf8(bytes).ok().filter(|_| fits).map(Arc::from);
        let principal = principal.clone();
        let call = HeldCall { principal, expires_at, arguments: None, waiting: 0 };
        calls.entry(id.to_owned()).or_insert(call).arguments = text;
    }

    /// Counts a call as waiting for an approval that has been kept.
    pub(super) fn wait<'a>(&'a self, id: &'a str) -> Waiting<'a> {
        let mut calls = self.calls.lock();
        let call = calls.get_mut(id).map(|call| call.waiting += 1);
        Waiting { held: self, id: call.map(|()| id) }
    }

    /// Has no call wait for a person, now and from now on.
    pub(super) fn release(&self) {
        self.released.cancel();
    }

    /// Returns when that was said.
    pub(super) async fn released(&self) {
        self.released.cancelled().await;
    }

    /// The exact arguments, as canonical JSON.
    pub(super) fn arguments(&self, id: &str) -> Option<Arc<str>> {
        self.calls.lock().get(id)?.arguments.clone()
    }

    /// Whether a call waits for the answer.
    pub(super) fn is_awaited(&self, id: &str) -> bool {
        self.calls.lock().get(id).is_some_and(|call| call.waiting > 0)
    }

    /// Forgets the arguments of a call that has been decided.
    pub(super) fn decided(&self, id: &str) {
        if let Some(call) = self.calls.lock().get_mut(id) {
            call.arguments = None;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        if let Some(call) = self.held.calls.lock().get_mut(id) {
            call.waiting = call.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keep(held: &HeldCalls, id: &str, who: &str, bytes: usize, now: u64) {
        let Value::Object(arguments) = json!({ "x": "a".repeat(bytes) }) else { return };
        held.keep(id, &Principal::new(who).unwrap(), &arguments, (now, now + 100));
    }

    #[test]
    fn exact_arguments_are_bounded_and_end_with_their_approval() {
        let held = HeldCalls::default();
        for number in 0..10 {
            keep(&held, &number.to_string(), "ann", MAX_BYTES_PER_CALLER / 4, 0);
        }
        let kept = |ids: std::ops::Range<u32>| {
            ids.filter(|id| held.arguments(&id.to_string()).is_some()).count()
        };
        assert_eq!(kept(0..10), 3, "with their names and quotes a fourth finds no room");
        keep(&held, "10", "bob", 10, 0);
        assert_eq!(kept(10..11), 1, "another caller's do");
        held.decided("10");
        assert_eq!(kept(10..11), 0);
        let waiting = held.wait("0");
        keep(&held, "11", "bob", 10, 100);
        assert_eq!((kept(0..10), kept(11..12)), (1, 1), "what has expired is gone");
        assert!(held.is_awaited("0") && !held.is_awaited("11"));
        drop(waiting);
        assert!(!held.is_awaited("0"));
    }
}
