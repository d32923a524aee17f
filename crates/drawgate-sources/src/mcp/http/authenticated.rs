//! Requests to a protected server: the login's header goes with each, and a refusal is answered with
//! one new attempt if the login can be renewed. An `Authorization` of the operator's own stays.

use std::sync::Arc;
use std::time::Instant;

use ::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use drawgate_core::model::SourceId;
use drawgate_core::source::SourceError;
use drawgate_host::Host;
use drawgate_host::credentials::{Bearer, Try};
use drawgate_host::egress::{AnswerBody as ResponseBody, Body, EgressError, Reach};
use tokio::time::timeout_at;

use crate::failed_request::source_error;

/// Sends requests to one server, with its login.
#[derive(Clone)]
pub(in crate::mcp) struct AuthenticatedEgress {
    host: Arc<Host>,
    reach: Reach,
    login: Option<Arc<dyn Bearer>>,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::mcp) enum RequestError {
    /// It was not sent, or its answer was lost.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The server does not take it from us.
    #[error(transparent)]
    Login(#[from] SourceError),
}

impl From<RequestError> for SourceError {
    fn from(closed: RequestError) -> Self {
        match closed {
            RequestError::Egress(error) => source_error(&error),
            RequestError::Login(needed) => needed,
        }
    }
}

impl AuthenticatedEgress {
    /// With the login of a server, unless the operator's headers have one.
    pub(in crate::mcp) fn new(
        host: &Arc<Host>,
        id: &SourceId,
        configured: &HeaderMap,
        reach: Reach,
    ) -> Self {
        let credentials =
            host.credentials.as_ref().filter(|_| !configured.contains_key(header::AUTHORIZATION));
        let login = credentials.and_then(|credentials| credentials.bearer(id));
        Self { host: Arc::clone(host), reach, login }
    }

    /// Sends a request and waits for the head of the answer.
    pub(in crate::mcp) async fn request(
        &self,
        request: Request<Body>,
        deadline: Instant,
    ) -> Result<Response<ResponseBody>, RequestError> {
        match self.login.as_deref() {
            None => Ok(self.host.egress.request(request, &self.reach, deadline).await?),
            // Boxed, so that requests without a login do not pay for its room.
            Some(login) => Box::pin(self.request_with(login, request, deadline)).await,
        }
    }

    async fn request_with(
        &self,
        login: &dyn Bearer,
        mut request: Request<Body>,
        deadline: Instant,
    ) -> Result<Response<ResponseBody>, RequestError> {
        let sent = authorize(login, request.headers_mut(), deadline).await?;
        let response = self.host.egress.request(request.clone(), &self.reach, deadline).await?;
        if !may_try_again(login, Try::First, sent, &response, deadline).await? {
            return Ok(response);
        }
        let sent = authorize(login, request.headers_mut(), deadline).await?;
        let response = self.host.egress.request(request, &self.reach, deadline).await?;
        may_try_again(login, Try::Again, sent, &response, deadline).await?;
        Ok(response)
    }
}

async fn authorize(
    login: &dyn Bearer,
    headers: &mut HeaderMap,
    deadline: Instant,
) -> Result<Option<HeaderValue>, RequestError> {
    let value =
        timeout_at(deadline.into(), login.header()).await.map_err(|_| EgressError::Deadline)??;
    if let Some(value) = &value {
        headers.insert(header::AUTHORIZATION, value.clone());
    }
    Ok(value)
}

async fn may_try_again(
    login: &dyn Bearer,
    attempt: Try,
    sent: Option<HeaderValue>,
    response: &Response<ResponseBody>,
    deadline: Instant,
) -> Result<bool, RequestError> {
    let status = response.status();
    if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Ok(false);
    }
    let asked = login.rejected(attempt, sent.as_ref(), status, response.headers());
    Ok(timeout_at(deadline.into(), asked).await.map_err(|_| EgressError::Deadline)??)
}
