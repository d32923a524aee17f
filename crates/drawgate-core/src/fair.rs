//! A semaphore that is fair between callers.
//!
//! First come, first served would let one caller with a long queue delay all others by the whole of it.
//! Here each caller has a queue of its own, and a slot that becomes free goes to the queues in turn.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A number of slots that callers wait for in turn.
#[derive(Debug)]
pub struct FairSlots(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    /// The callers that wait, in the order of their turns; none of the queues is empty.
    queues: VecDeque<Queue>,
}

#[derive(Debug)]
struct Queue {
    caller: Arc<str>,
    waiting: VecDeque<oneshot::Sender<FairSlot>>,
}

/// A slot that is held. Dropped, it goes to the next caller.
#[derive(Debug)]
pub struct FairSlot(Option<Arc<FairSlots>>);

impl FairSlots {
    /// So many slots, at least one.
    #[must_use]
    pub fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free: slots.max(1), queues: VecDeque::new() })))
    }

    /// Waits for a slot among the calls of `caller`, which take turns with those of others. The future
    /// may be dropped at any time.
    pub async fn acquire(self: &Arc<Self>, caller: &str) -> FairSlot {
        let turn = {
            let mut state = self.0.lock();
            if state.free > 0 {
                state.free -= 1;
                return FairSlot(Some(Arc::clone(self)));
            }
            state.enqueue(caller)
        };
        // The sender is dropped only with the slots themselves, which `self` keeps.
        turn.await.unwrap_or(FairSlot(None))
    }

    fn release(self: &Arc<Self>) {
        let mut state = self.0.lock();
        let mut slot = FairSlot(Some(Arc::clone(self)));
        while let Some(next) = state.next() {
            match next.send(slot) {
                Ok(()) => return,
                // It waits no more.
                Err(back) => slot = back,
            }
        }
        slot.0 = None;
        state.free += 1;
    }
}

impl State {
    fn enqueue(&mut self, caller: &str) -> oneshot::Receiver<FairSlot> {
        let (sender, turn) = oneshot::channel();
        match self.queues.iter_mut().find(|queue| &*queue.caller == caller) {
            Some(queue) => {
                queue.waiting.retain(|waiting| !waiting.is_closed());
                queue.waiting.push_back(sender);
            }
            None => {
                self.queues.push_back(Queue { caller: caller.into(), waiting: [sender].into() });
            }
        }
        turn
    }

    /// The first call of the caller whose turn it is; that caller's next call waits for all others.
    fn next(&mut self) -> Option<oneshot::Sender<FairSlot>> {
        let mut queue = self.queues.pop_front()?;
        let next = queue.waiting.pop_front();
        if !queue.waiting.is_empty() {
            self.queues.push_back(queue);
        }
        next
    }
}

impl Drop for FairSlot {
    fn drop(&mut self) {
        if let Some(slots) = self.0.take() {
            slots.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// What is ready at once.
    fn now<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    /// Lets calls wait in the order of `calls`, each named by its caller's letter and its number, and
    /// returns the order in which they get the one slot. Those of `dropped` give up before.
    async fn served(calls: &str, dropped: &[usize]) -> Vec<usize> {
        let slots = FairSlots::new(1);
        let mut held = Some(slots.acquire("holder").await);
        let mut waiting: Vec<_> = calls
            .chars()
            .enumerate()
            .map(|(number, caller)| {
                let slots = Arc::clone(&slots);
                let mut turn =
                    Box::pin(async move { slots.acquire(caller.encode_utf8(&mut [0; 4])).await });
                assert!(now(turn.as_mut()).is_none(), "the slot is held");
                Some((number, turn))
            })
            .collect();
        for number in dropped {
            waiting[*number] = None;
        }
        let mut order = Vec::new();
        let mut waiting: Vec<_> = waiting.into_iter().flatten().collect();
        while !waiting.is_empty() {
            drop(held.take());
            let at = waiting.iter_mut().position(|(_, turn)| match now(turn.as_mut()) {
                Some(slot) => {
                    held = Some(slot);
                    true
                }
                None => false,
            });
            order.push(waiting.remove(at.expect("a slot is free")).0);
        }
        drop(held);
        assert!(now(std::pin::pin!(slots.acquire("x"))).is_some(), "no slot is lost");
        order
    }

    #[tokio::test]
    async fn callers_take_turns() {
        let cases: [(&str, &[usize], &[usize]); 5] = [
            ("aaaab", &[], &[0, 4, 1, 2, 3]),
            ("aaabbc", &[], &[0, 3, 5, 1, 4, 2]),
            ("aaa", &[], &[0, 1, 2]),
            ("aaab", &[0, 1], &[3, 2]),
            ("ab", &[0, 1], &[]),
        ];
        for (calls, dropped, expected) in cases {
            assert_eq!(served(calls, dropped).await, expected, "{calls} without {dropped:?}");
        }
    }

    #[tokio::test]
    async fn a_slot_that_was_handed_over_and_not_taken_is_not_lost() {
        let slots = FairSlots::new(1);
        let held = slots.acquire("a").await;
        let mut turn = Box::pin(slots.acquire("b"));
        assert!(now(turn.as_mut()).is_none());
        drop(held);
        drop(turn);
        assert!(now(std::pin::pin!(slots.acquire("c"))).is_some());
    }
}
