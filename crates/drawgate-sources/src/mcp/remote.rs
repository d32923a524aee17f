//! A server that is reached by a connection which stays open: whatever carries the messages, the
//! handshake, the end and its reason are the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_core::source::SourceError;
use tokio::time::{timeout, timeout_at};

use super::context::SourceContext;
use super::diagnostics::Journal;
use super::probe::shake_hands;
use super::stdio::Connection;
use super::wire::ServerInfo;
use crate::line_rpc::{MessageReader, MessageWriter};

/// A connected server. Dropping it ends the connection.
pub(super) struct Remote {
    pub(super) connection: Arc<Connection>,
    pub(super) info: ServerInfo,
    /// How long the server may take to answer a farewell.
    grace: Duration,
}

impl Remote {
    /// Shakes hands over the two ends of a transport.
    pub(super) async fn meet(
        writer: impl MessageWriter,
        reader: impl MessageReader,
        grace: Duration,
        (journal, context): (&Arc<Journal>, &SourceContext),
        deadline: Instant,
    ) -> Result<Self, SourceError> {
        let connection = Connection::open(writer, reader, Arc::clone(journal), context.clone());
        let mut remote = Self { connection, info: ServerInfo::default(), grace };
        let connection = Arc::clone(&remote.connection);
        remote.info = tokio::select! {
            outcome = timeout_at(deadline.into(), shake_hands(&connection)) => {
                outcome.map_err(|_| too_slow())??
            }
            reason = remote.served() => return Err(SourceError::unreachable(reason)),
        };
        Ok(remote)
    }

    /// Waits until the connection is over, and says why. Calls under way have failed when it returns.
    pub(super) async fn served(&mut self) -> String {
        self.connection.link().closed().await;
        let reason =
            self.connection.link().end_reason().unwrap_or("the connection was lost").to_owned();
        self.connection.link().fail_all(&reason);
        reason
    }

    /// Says farewell, and hangs up.
    pub(super) async fn end(self) {
        self.connection.link().close_input();
        let _late = timeout(self.grace, self.connection.link().closed()).await;
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.connection.link().fail_all("the server was stopped");
        self.connection.link().close_input();
        self.connection.link().hang_up();
    }
}

/// The error of a server that does not finish its start in time.
pub(super) fn too_slow() -> SourceError {
    SourceError::unreachable(
        "the server did not finish its start in time; raise `start_timeout_seconds` if it needs longer",
    )
}
