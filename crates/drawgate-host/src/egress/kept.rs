//! Connections that nobody uses, kept for a while.

use std::collections::HashMap;
use std::sync::Arc;

use http::uri::Authority;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::{IDLE_PER_HOST, IDLE_TIMEOUT};

/// What can be kept.
pub(super) trait Usable {
    /// Whether it can be used again; if not, it never can.
    fn is_usable(&mut self) -> bool;
}

/// What is kept, by server; the newest last.
pub(super) struct Kept<L>(Mutex<Idle<L>>);

struct Idle<L> {
    by_server: HashMap<Authority, Vec<(Instant, L)>>,
    is_swept: bool,
}

impl<L> Default for Kept<L> {
    fn default() -> Self {
        Self(Mutex::new(Idle { by_server: HashMap::new(), is_swept: false }))
    }
}

impl<L: Usable> Kept<L> {
    /// The newest of a server that can be used.
    pub(super) fn take(&self, server: &Authority) -> Option<L> {
        loop {
            let (since, mut line) = self.0.lock().by_server.get_mut(server)?.pop()?;
            if since.elapsed() < IDLE_TIMEOUT && line.is_usable() {
                return Some(line);
            }
        }
    }
}

impl<L: Usable + Send + 'static> Kept<L> {
    /// Keeps one, if it can be used again.
    pub(super) fn put(self: &Arc<Self>, server: Authority, mut line: L) {
        // Outside of a runtime nobody would let go of it.
        let Ok(runtime) = Handle::try_current() else { return };
        if !line.is_usable() {
            return;
        }
        let mut idle = self.0.lock();
        let lines = idle.by_server.entry(server).or_default();
        if lines.len() >= IDLE_PER_HOST {
            return;
        }
        lines.push((Instant::now(), line));
        if !std::mem::replace(&mut idle.is_swept, true) {
            runtime.spawn(sweep(Arc::clone(self)));
        }
    }
}

/// Lets go of what was not used for too long, until nothing is left.
async fn sweep<L>(kept: Arc<Kept<L>>) {
    loop {
        sleep(IDLE_TIMEOUT).await;
        let mut idle = kept.0.lock();
        idle.by_server.retain(|_, lines| {
            lines.retain(|(since, _)| since.elapsed() < IDLE_TIMEOUT);
            !lines.is_empty()
        });
        if idle.by_server.is_empty() {
            idle.is_swept = false;
            return;
        }
    }
}
