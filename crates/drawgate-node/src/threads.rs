//! The threads of all gateways of this process.
//!
//! They are never ended: a child process that was started through the launcher dies with the thread that
//! started it, and the environments of Node come and go before that.

use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use drawgate_host::process::KEEP_THREADS;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::fault::Fault;

/// The most threads that are used where the program does not say how many.
const MOST_BY_DEFAULT: usize = 4;

static THREADS: Mutex<Option<&'static Runtime>> = Mutex::new(None);

/// The threads. The first gateway of the process decides how many there are.
pub(crate) fn start(count: Option<usize>) -> std::io::Result<&'static Handle> {
    let mut threads = THREADS.lock();
    if let Some(runtime) = *threads {
        return Ok(runtime.handle());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = Builder::new_multi_thread()
        .worker_threads(count.unwrap_or_else(|| cores.min(MOST_BY_DEFAULT)))
        .thread_name("drawgate")
        .thread_keep_alive(KEEP_THREADS)
        .enable_all()
        .build()?;
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    *threads = Some(runtime);
    Ok(runtime.handle())
}

/// Waits for work that is done on those threads, so that no child process belongs to a thread of Node. Work
/// that takes longer is not cut off: it goes on without anybody who waits.
pub(crate) fn wait<T: Send + 'static>(
    threads: &Handle,
    limit: Duration,
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    let (done, result) = sync_channel(1);
    threads.spawn(async move {
        let _gone = done.send(work.await);
    });
    match result.recv_timeout(limit) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(Fault::timeout(limit)),
        Err(RecvTimeoutError::Disconnected) => Err(Fault::internal()),
    }
}
