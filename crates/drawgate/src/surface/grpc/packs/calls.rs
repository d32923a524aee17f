//! The stream of calls to a pack, and the status that ends it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use drawgate_sdk::proto::ExecuteToolRequest;
use drawgate_sources::pack::{Ending, Outgoing};
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

use drawgate_runtime::peers::{DisconnectReason, Peer};

/// What a pack reads.
pub struct Calls {
    outgoing: Outgoing,
    peer: Arc<Peer>,
    is_over: bool,
}

impl Calls {
    pub(super) const fn new(outgoing: Outgoing, peer: Arc<Peer>) -> Self {
        Self { outgoing, peer, is_over: false }
    }

    fn final_status(&self) -> Option<Status> {
        end_status(self.outgoing.connection().ending(), self.peer.reason())
    }
}

impl Stream for Calls {
    type Item = Result<ExecuteToolRequest, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let message = ready!(Pin::new(&mut self.outgoing).poll_next(cx));
        self.is_over = message.is_none();
        Poll::Ready(message.map(Ok).or_else(|| self.final_status().map(Err)))
    }
}

/// Why the stream ends, so that a pack knows whether to come back: `UNAVAILABLE` means later, anything
/// else that an operator or an author must look.
fn end_status(ending: Option<Ending>, reason: Option<DisconnectReason>) -> Option<Status> {
    match (ending, reason) {
        // What the key stands for now is said at the next login.
        (_, Some(DisconnectReason::KeyRemoved)) => {
            Some(Status::unavailable("the key of this pack was changed or removed; log in again"))
        }
        (_, Some(DisconnectReason::Kicked)) => {
            Some(Status::unavailable("an operator ended this connection"))
        }
        (Some(Ending::Replaced), _) => Some(Status::aborted(
            "another connection of this pack has taken its place; run one of them",
        )),
        (Some(Ending::Silent), _) => {
            Some(Status::unavailable("no heartbeat was answered; connect again"))
        }
        (Some(Ending::Cut), _) => Some(Status::unavailable("this connection has ended")),
        (Some(Ending::Stopping | Ending::Gone) | None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn the_status_says_whether_to_come_back() {
        let rows = [
            (Ending::Cut, Some(DisconnectReason::KeyRemoved), Some(Code::Unavailable)),
            (Ending::Gone, Some(DisconnectReason::Kicked), Some(Code::Unavailable)),
            (Ending::Cut, None, Some(Code::Unavailable)),
            (Ending::Replaced, None, Some(Code::Aborted)),
            (Ending::Silent, Some(DisconnectReason::Silent), Some(Code::Unavailable)),
            (Ending::Stopping, None, None),
            (Ending::Gone, None, None),
        ];
        for (ending, reason, code) in rows {
            let status = end_status(Some(ending), reason);
            assert_eq!(status.map(|status| status.code()), code, "{ending:?} {reason:?}");
        }
    }
}
