//! What goes out to a pack, in order; calls that were given up before they were sent are left out.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use drawgate_sdk::proto::ExecuteToolRequest;
use futures_util::Stream;
use tokio::sync::mpsc;

use super::connection::PackConnection;
use super::ending::Ending;

/// A message that waits to be sent.
pub(super) enum Queued {
    /// A call, by its number: it is left out if it has been given up.
    Call(u64, ExecuteToolRequest),
    /// Anything else.
    Other(ExecuteToolRequest),
}

/// The messages to a pack. Dropping it ends the connection.
pub struct Outgoing {
    connection: Arc<PackConnection>,
    messages: mpsc::Receiver<Queued>,
}

impl Outgoing {
    pub(super) fn new(connection: Arc<PackConnection>, messages: mpsc::Receiver<Queued>) -> Self {
        Self { connection, messages }
    }

    /// The connection that the messages go out on.
    #[must_use]
    pub fn connection(&self) -> &Arc<PackConnection> {
        &self.connection
    }
}

impl Stream for Outgoing {
    type Item = ExecuteToolRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.messages.poll_recv(cx)) {
                Some(Queued::Call(number, request)) => {
                    if self.connection.sends(number) {
                        return Poll::Ready(Some(request));
                    }
                }
                Some(Queued::Other(message)) => return Poll::Ready(Some(message)),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.connection.end(Ending::Gone);
    }
}
