//! Waiting in code that is not asynchronous.

use tokio::runtime::RuntimeFlavor;

/// Runs what waits; the runtime's other tasks go on, where it has other threads.
pub(crate) fn without_blocking_others<T>(wait: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        Ok(_) | Err(_) => wait(),
    }
}
