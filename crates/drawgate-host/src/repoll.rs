//! Futures that wake themselves.
//!
//! Two halves of a connection that one task polls talk through channels, and every word between them
//! wakes the task that is being polled. A runtime answers by queueing the task, and by waking a thread
//! to run it. Polling again at once costs far less.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// How often something is polled again before others on the thread get their turn.
const MAX_AGAIN: usize = 16;

const RESTING: u8 = 0;
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

/// Takes the wake-ups that come while its owner is polled.
#[derive(Debug)]
pub struct Repoll {
    state: Arc<State>,
    waker: Waker,
}

#[derive(Debug)]
struct State {
    now: AtomicU8,
    task: Mutex<Waker>,
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.now.compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if noted == Err(RESTING) {
            self.task.lock().wake_by_ref();
        }
    }
}

impl Default for Repoll {
    fn default() -> Self {
        let task = Mutex::new(Waker::noop().clone());
        let state = Arc::new(State { now: AtomicU8::new(RESTING), task });
        Self { waker: Waker::from(Arc::clone(&state)), state }
    }
}

impl Repoll {
    /// Polls something until it is ready, or waits for something else than itself.
    pub fn poll<T>(
        &self,
        context: &Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let State { now, task } = &*self.state;
        task.lock().clone_from(context.waker());
        let mut inner = Context::from_waker(&self.waker);
        for _ in 0..MAX_AGAIN {
            now.store(POLLED, Ordering::Release);
            let done = poll(&mut inner);
            if done.is_ready() {
                now.store(RESTING, Ordering::Release);
                return done;
            }
            let rests = now.compare_exchange(POLLED, RESTING, Ordering::AcqRel, Ordering::Acquire);
            if rests.is_ok() {
                return Poll::Pending;
            }
        }
        now.store(RESTING, Ordering::Release);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What a future sees that wakes itself so often and is ready then: how often it was polled by one
    /// poll of the task, and how often the task was woken.
    fn wakes_itself(times: usize) -> (usize, usize, bool) {
        let task = Arc::new(Counted::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut polls = 0;
        let done = Repoll::default().poll(&Context::from_waker(&waker), |inner| {
            polls += 1;
            if polls > times {
                return Poll::Ready(());
            }
            inner.waker().wake_by_ref();
            Poll::Pending
        });
        (polls, task.0.load(Ordering::Relaxed), done.is_ready())
    }

    #[test]
    fn who_wakes_itself_is_polled_again_and_not_for_ever() {
        assert_eq!(wakes_itself(0), (1, 0, true));
        assert_eq!(wakes_itself(3), (4, 0, true));
        assert_eq!(wakes_itself(MAX_AGAIN), (MAX_AGAIN, 1, false), "others get their turn");
    }

    #[test]
    fn who_is_woken_by_others_wakes_its_task() {
        let task = Arc::new(Counted::default());
        let waker = Waker::from(Arc::clone(&task));
        let (repoll, mut kept) = (Repoll::default(), None);
        let pending = repoll.poll(&Context::from_waker(&waker), |inner| {
            kept = Some(inner.waker().clone());
            Poll::<()>::Pending
        });
        assert!(pending.is_pending());
        assert_eq!(task.0.load(Ordering::Relaxed), 0);
        kept.unwrap().wake();
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
    }
}
