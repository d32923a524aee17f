//! Progress of calls, taken off the transport in the order in which it comes.
//!
//! The library hands notifications to tasks of their own, so that the last report of a call may be handled after
//! its result. Here it is in the call's queue before the result is read.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ProgressNotificationParam, ProgressToken, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;

/// Reports that wait for one call, and reports of calls whose ids are not known yet; the oldest go first.
const MAX_WAITING: usize = 256;

/// The reports of all calls.
#[derive(Clone, Default)]
pub(crate) struct News(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    calls: HashMap<ProgressToken, Arc<Queue>>,
    /// A server may be faster than the caller learns the token of its own call.
    early: VecDeque<ProgressNotificationParam>,
}

#[derive(Default)]
struct Queue {
    reports: Mutex<VecDeque<ProgressNotificationParam>>,
    told: Notify,
}

/// The reports of one call, until this is dropped.
pub(crate) struct CallNews {
    news: News,
    token: ProgressToken,
    queue: Arc<Queue>,
}

impl News {
    /// The reports of a call, those that have come already included.
    pub(crate) fn of(&self, token: ProgressToken) -> CallNews {
        let queue = Arc::new(Queue::default());
        let mut table = locked(&self.0);
        let (own, others) =
            table.early.drain(..).partition(|report| report.progress_token == token);
        table.early = others;
        *locked(&queue.reports) = own;
        table.calls.insert(token.clone(), Arc::clone(&queue));
        drop(table);
        CallNews { news: self.clone(), token, queue }
    }

    fn deliver(&self, report: ProgressNotificationParam) {
        let mut table = locked(&self.0);
        match table.calls.get(&report.progress_token) {
            Some(queue) => {
                push(&mut locked(&queue.reports), report);
                queue.told.notify_one();
            }
            None => push(&mut table.early, report),
        }
    }
}

impl CallNews {
    /// The next report that is there.
    pub(crate) fn take(&self) -> Option<ProgressNotificationParam> {
        locked(&self.queue.reports).pop_front()
    }

    /// The next report, once there is one.
    pub(crate) async fn next(&self) -> ProgressNotificationParam {
        loop {
            if let Some(report) = self.take() {
                return report;
            }
            self.queue.told.notified().await;
        }
    }
}

impl Drop for CallNews {
    fn drop(&mut self) {
        locked(&self.news.0).calls.remove(&self.token);
    }
}

fn push(reports: &mut VecDeque<ProgressNotificationParam>, report: ProgressNotificationParam) {
    if reports.len() == MAX_WAITING {
        reports.pop_front();
    }
    reports.push_back(report);
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A transport whose reports of progress go to their calls.
pub(crate) struct WithNews<T> {
    transport: T,
    news: News,
}

impl<T> WithNews<T> {
    pub(crate) fn new(transport: T, news: News) -> Self {
        Self { transport, news }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for WithNews<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.transport.receive().await?;
            let JsonRpcMessage::Notification(told) = message else { return Some(message) };
            match told.notification {
                ServerNotification::ProgressNotification(report) => {
                    self.news.deliver(report.params);
                }
                notification => {
                    let told = rmcp::model::JsonRpcNotification { notification, ..told };
                    return Some(JsonRpcMessage::Notification(told));
                }
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.transport.close()
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    fn report(token: u32, progress: f64) -> ProgressNotificationParam {
        ProgressNotificationParam::new(
            ProgressToken(NumberOrString::Number(token.into())),
            progress,
        )
    }

    #[tokio::test]
    async fn reports_wait_for_their_call_in_order_and_are_bounded() {
        let news = News::default();
        news.deliver(report(1, 1.0));
        news.deliver(report(2, 9.0));
        let own = news.of(report(1, 0.0).progress_token);
        news.deliver(report(1, 2.0));
        assert_eq!((own.next().await.progress, own.next().await.progress), (1.0, 2.0));
        assert!(own.take().is_none());
        let more = u32::try_from(MAX_WAITING).unwrap();
        for number in 0..=more {
            news.deliver(report(1, f64::from(number)));
        }
        let first = own.take().unwrap().progress;
        let mut last = first;
        while let Some(next) = own.take() {
            last = next.progress;
        }
        assert_eq!((first, last), (1.0, f64::from(more)), "the oldest goes, the last stays");
        drop(own);
        assert!(locked(&news.0).calls.is_empty());
    }
}
