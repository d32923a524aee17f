//! Login: a connection is nobody's until its peer has proved an SSH key.
//!
//! The proof counts for the connection, and the session that it yields must come with every later
//! request on it. So neither a stolen proof nor a stolen session is worth anything elsewhere, and a
//! proxy that shares connections among its clients does not lend one client another's rights.

mod connection;
mod peer;

pub use connection::{Authority, Connection};
pub use peer::peer;

use std::sync::Arc;

use drawgate_sdk::proto::login_service_server::LoginService;
use drawgate_sdk::proto::{ChallengeRequest, ChallengeResponse, ProveRequest, ProveResponse};
use tonic::{Request, Response, Status, async_trait};

/// Largest message of a login.
pub const MAX_MESSAGE: usize = 16 * 1024;

/// The login service. All that it knows is in the connection of each request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Login;

#[async_trait]
impl LoginService for Login {
    async fn challenge(
        &self,
        request: Request<ChallengeRequest>,
    ) -> Result<Response<ChallengeResponse>, Status> {
        let (connection, authority) = origin(&request)?;
        let answer = connection.challenge(&authority, &request.get_ref().client_nonce).await?;
        Ok(Response::new(answer))
    }

    async fn prove(
        &self,
        request: Request<ProveRequest>,
    ) -> Result<Response<ProveResponse>, Status> {
        let (connection, authority) = origin(&request)?;
        let session = connection.prove(&authority, request.get_ref()).await?;
        Ok(Response::new(ProveResponse { session }))
    }
}

/// Where a request came in.
fn origin<T>(request: &Request<T>) -> Result<(Arc<Connection>, Authority), Status> {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let authority = request.extensions().get::<Authority>().cloned();
    connection
        .zip(authority)
        .ok_or_else(|| Status::internal("this request did not come by a connection of the gateway"))
}

#[cfg(test)]
#[path = "login/login_tests.rs"]
mod tests;
