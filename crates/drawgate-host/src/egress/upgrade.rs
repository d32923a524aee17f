//! Connections that begin as an HTTP request and become something else, such as a WebSocket.

use std::time::Instant;

use http::{HeaderMap, Request, Response, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::time::timeout_at;

use super::{AnswerBody, Body, Egress, EgressError, Purpose, Reach};

/// The bytes after the answer that agreed to the change, in both directions.
pub type UpgradedStream = TokioIo<Upgraded>;

/// What a server said to a request for another protocol.
#[derive(Debug)]
pub enum Upgrade {
    /// It agreed.
    Agreed {
        /// The headers of its answer.
        headers: HeaderMap,
        /// The connection.
        stream: UpgradedStream,
    },
    /// It answered like any other request.
    Refused(Response<AnswerBody>),
}

impl Egress {
    /// Sends a request that asks for another protocol. It goes the way of every other request:
    /// the same addresses, certificates and deadlines.
    pub async fn upgrade(
        &self,
        request: Request<Body>,
        reach: &Reach,
        deadline: Instant,
    ) -> Result<Upgrade, EgressError> {
        let response = self.exchange(request, reach, deadline, Purpose::Upgrade).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Upgrade::Refused(response));
        }
        let headers = response.headers().clone();
        match timeout_at(deadline.into(), hyper::upgrade::on(response)).await {
            Ok(Ok(upgraded)) => Ok(Upgrade::Agreed { headers, stream: TokioIo::new(upgraded) }),
            Ok(Err(error)) => Err(EgressError::Lost(error.to_string())),
            Err(_) => Err(EgressError::Deadline),
        }
    }
}
