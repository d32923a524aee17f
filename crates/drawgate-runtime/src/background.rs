//! Background tasks that end together.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The background tasks of a gateway.
#[derive(Default)]
pub(crate) struct Background {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Background {
    /// Starts a task that is stopped with the others.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled_owned(task).await;
        });
    }

    /// Ends all of them.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
