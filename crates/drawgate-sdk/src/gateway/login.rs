//! The login: both sides prove who they are, for this connection.

use std::fmt::Write as _;
use std::time::Duration;

use http::HeaderValue;
use ssh_key::{HashAlg, PublicKey, SshSig};
use tokio::time::timeout;
use tonic::{Code, Status};

use super::{Connection, ConnectionError, Gateway};
use crate::key::Key;
use crate::proto::login_service_client::LoginServiceClient;
use crate::proto::{ChallengeRequest, ChallengeResponse, ProveRequest};
use crate::statement::{
    LOGIN_NAMESPACE, LoginStatement, Purpose, SERVER_NAMESPACE, server_statement,
};

/// The gateway cuts whoever has not proved himself after about this time.
const LOGIN_LIMIT: Duration = Duration::from_secs(20);

/// Dials and logs in.
pub(crate) async fn log_in(
    gateway: &Gateway,
    key: &Key,
    purpose: Purpose,
    name: &str,
) -> Result<Connection, ConnectionError> {
    let mut connection = Connection::open(gateway).await?;
    timeout(LOGIN_LIMIT, prove(gateway, key, purpose, name, &mut connection))
        .await
        .map_err(|_| ConnectionError::Timeout { authority: gateway.authority().to_owned() })??;
    Ok(connection)
}

async fn prove(
    gateway: &Gateway,
    key: &Key,
    purpose: Purpose,
    name: &str,
    connection: &mut Connection,
) -> Result<(), ConnectionError> {
    let origin = gateway.address.origin().clone();
    let mut client = LoginServiceClient::with_origin(connection.line(), origin);
    let client_nonce = nonce()?;
    let request = ChallengeRequest { client_nonce: client_nonce.clone() };
    let challenge = client.challenge(request).await.map_err(|status| no_answer(gateway, status))?;
    let challenge = challenge.into_inner();
    check_server(gateway, &challenge, &client_nonce).map_err(|reason| {
        ConnectionError::Identity { authority: gateway.authority().to_owned(), reason }
    })?;
    let statement = LoginStatement {
        purpose,
        name,
        server: &challenge.server,
        authority: gateway.authority(),
        nonce: &challenge.nonce,
    }
    .to_string();
    let signature = key.sign(LOGIN_NAMESPACE, statement.as_bytes()).await?;
    let answer = client.prove(ProveRequest { statement, signature }).await?.into_inner();
    let mut session =
        HeaderValue::from_str(&answer.session).map_err(|_| ConnectionError::Protocol {
            authority: gateway.authority().to_owned(),
            reason: "its session is no header value".to_owned(),
        })?;
    session.set_sensitive(true);
    connection.line.set_session(session);
    connection.server = challenge.server;
    Ok(())
}

/// A first request that breaks down in transport means that the other side speaks something else.
fn no_answer(gateway: &Gateway, status: Status) -> ConnectionError {
    if !matches!(status.code(), Code::Unknown | Code::Internal) {
        return status.into();
    }
    let hint = if gateway.address.secure() { "" } else { "; if it has TLS, write `https://`" };
    ConnectionError::Protocol {
        authority: gateway.authority().to_owned(),
        reason: format!("{}{hint}", status.message()),
    }
}

/// The gateway must have signed our nonce with the key that it names, and that must be the one that
/// is expected, if one is. The text says what is wrong.
fn check_server(
    gateway: &Gateway,
    challenge: &ChallengeResponse,
    client_nonce: &str,
) -> Result<(), String> {
    if let Some(wanted) = &gateway.identity
        && *wanted != challenge.server
    {
        return Err(format!("expected `{wanted}`, found `{}`", challenge.server));
    }
    let signature = SshSig::from_pem(&challenge.server_signature)
        .map_err(|_| "its proof is no SSH signature".to_owned())?;
    let public = PublicKey::from(signature.public_key().clone());
    if public.fingerprint(HashAlg::Sha256).to_string() != challenge.server {
        return Err(format!("its proof is by another key than `{}`", challenge.server));
    }
    let statement = server_statement(gateway.authority(), &challenge.nonce, client_nonce);
    public
        .verify(SERVER_NAMESPACE, statement.as_bytes(), &signature)
        .map_err(|_| "its signature is not valid here".to_owned())
}

fn nonce() -> Result<String, ConnectionError> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| ConnectionError::lost(format!("no random numbers: {error}")))?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
