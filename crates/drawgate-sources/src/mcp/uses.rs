//! Counts the uses of a server, so that an unused one can be ended.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// The uses of one server.
#[derive(Debug, Clone)]
pub(super) struct Uses(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    holders: usize,
    last: Instant,
    /// Whether a call was served since `take_served`.
    served: bool,
}

/// One use of the server; it ends on drop.
#[derive(Debug)]
pub(super) struct InUse(Uses);

impl Uses {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Inner { holders: 0, last: Instant::now(), served: false })))
    }

    pub(super) fn hold(&self) -> InUse {
        self.0.lock().holders += 1;
        InUse(self.clone())
    }

    pub(super) fn is_held(&self) -> bool {
        self.0.lock().holders > 0
    }

    /// Whether a call was served since this was last asked.
    pub(super) fn take_served(&self) -> bool {
        std::mem::take(&mut self.0.lock().served)
    }

    /// When it was last needed.
    pub(super) fn last(&self) -> Instant {
        let inner = self.0.lock();
        if inner.holders > 0 { Instant::now() } else { inner.last }
    }

    /// Counts from now on, as if it had just been needed.
    pub(super) fn touch(&self) {
        self.0.lock().last = Instant::now();
    }

    /// Returns when it has been unused for so long.
    pub(super) async fn idle_for(&self, time: Duration) {
        loop {
            // While it is in use, `last` is now, so that the wait begins anew.
            let until = self.last() + time;
            sleep_until(until).await;
            if !self.is_held() && self.last() + time <= until {
                return;
            }
        }
    }
}

impl InUse {
    /// Notes that the server has served a call.
    pub(super) fn served(&self) {
        self.0.0.lock().served = true;
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut inner = self.0.0.lock();
        inner.holders -= 1;
        inner.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_time_begins_when_the_last_holder_lets_go() {
        let (uses, minute) = (Uses::new(), Duration::from_mins(1));
        let began = Instant::now();
        let (first, second) = (uses.hold(), uses.hold());
        let idle = tokio::spawn({
            let uses = uses.clone();
            async move { uses.idle_for(minute).await }
        });
        tokio::time::advance(Duration::from_secs(90)).await;
        drop(first);
        tokio::time::advance(Duration::from_secs(90)).await;
        drop(second);
        idle.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 240);
    }
}
