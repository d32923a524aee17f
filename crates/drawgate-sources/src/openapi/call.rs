//! One call: credentials, the request, once more where that is safe.

use std::time::Instant;

use drawgate_core::model::ToolOutput;
use drawgate_core::source::{PermittedCall, SourceError};
use drawgate_host::Host;
use drawgate_host::egress::{EgressError, Fetched};
use http::{HeaderValue, StatusCode, header};

use super::auth::{self, Chosen, Guard, TokenError};
use super::config::Settings;
use super::load::Loaded;
use super::plan::Plan;
use super::request::{self, ArgumentError, Draft};
use super::send::{Ready, send};
use super::{response, retry};
use crate::failed_request::source_error;

const ACCEPT: &str = "application/json, text/plain;q=0.9, */*;q=0.8";
const USER_AGENT: &str = concat!("drawgate/", env!("CARGO_PKG_VERSION"));

/// What a call needs beside its plan.
pub(super) struct Means<'a> {
    pub(super) host: &'a Host,
    pub(super) settings: &'a Settings,
    pub(super) loaded: &'a Loaded,
    pub(super) deadline: Instant,
}

impl Means<'_> {
    pub(super) async fn perform(
        &self,
        plan: &Plan,
        call: &PermittedCall,
    ) -> Result<ToolOutput, SourceError> {
        let chosen = match self.loaded.guards.choose(&plan.security) {
            Ok(chosen) => chosen,
            Err(missing) => return Ok(ToolOutput::failure(missing)),
        };
        let boundary = format!("drawgate-{}", self.host.ids.secret());
        let draft = request::draft(plan, &self.loaded.provided, call.arguments(), &boundary);
        let draft = self.with_headers(draft.map_err(argument_error)?);
        let answer = self.exchange(plan, &chosen, &draft).await?;
        let uri = format!("openapi://{}/{}", self.loaded.manifest.server_id, call.tool());
        Ok(response::output(&plan.method, &answer, &uri))
    }

    /// The connector's own headers win over what a caller gives.
    fn with_headers(&self, mut draft: Draft) -> Draft {
        for (name, value) in &self.settings.headers {
            match value.to_str() {
                Ok(cookies) if name == header::COOKIE => {
                    draft.cookies.insert(0, cookies.to_owned());
                }
                _ => {
                    draft.headers.insert(name.clone(), value.clone());
                }
            }
        }
        for (name, value) in [(header::ACCEPT, ACCEPT), (header::USER_AGENT, USER_AGENT)] {
            draft.headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
        draft
    }

    async fn exchange(
        &self,
        plan: &Plan,
        chosen: &Chosen<'_>,
        draft: &Draft,
    ) -> Result<Fetched, SourceError> {
        let mut attempt = 0;
        let mut refused = None;
        loop {
            let (draft, token) =
                self.with_credentials(draft.clone(), chosen, refused.as_ref()).await?;
            let (url, headers, body) = draft.finish(&plan.server).map_err(argument_error)?;
            let ready = Ready { method: plan.method.clone(), url, headers, body };
            let result = send(self.host, ready, &self.loaded.reach, self.deadline).await;
            if is_unauthorized(&result) && token.is_some() && refused.is_none() {
                refused = token;
                continue;
            }
            match self.pause(plan, &result, attempt) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return result.map_err(|error| source_error(&error)),
            }
            attempt += 1;
        }
    }

    fn pause(
        &self,
        plan: &Plan,
        result: &Result<Fetched, EgressError>,
        attempt: u32,
    ) -> Option<std::time::Duration> {
        if attempt >= self.settings.retries {
            return None;
        }
        let secret = self.host.ids.secret();
        let jitter = u32::from_str_radix(secret.get(..4)?, 16).ok()?;
        let wait = retry::pause(&plan.method, result, attempt, jitter)?;
        // An answer now is better than none at the deadline.
        (Instant::now() + wait < self.deadline).then_some(wait)
    }

    /// The request with credentials, and the token that was fetched for it.
    async fn with_credentials(
        &self,
        mut draft: Draft,
        chosen: &Chosen<'_>,
        refused: Option<&HeaderValue>,
    ) -> Result<(Draft, Option<HeaderValue>), SourceError> {
        let mut used = None;
        for (guard, scopes) in chosen {
            let token = match guard {
                Guard::Client(client) => {
                    let (host, reach) = (self.host, &self.loaded.reach);
                    let header = client
                        .header(host, reach, scopes, refused, self.deadline)
                        .await
                        .map_err(|error| token_error(&error))?;
                    used = Some(header.clone());
                    Some(header)
                }
                Guard::Header(..) | Guard::Query(_) | Guard::Cookie(_) => None,
            };
            auth::apply(guard, token, &mut draft);
        }
        Ok((draft, used))
    }
}

fn is_unauthorized(result: &Result<Fetched, EgressError>) -> bool {
    result.as_ref().is_ok_and(|answer| answer.status == StatusCode::UNAUTHORIZED)
}

/// The caller can mend it.
#[expect(clippy::needless_pass_by_value, reason = "it turns one error into another")]
fn argument_error(error: ArgumentError) -> SourceError {
    SourceError::Arguments { message: error.to_string(), details: None }
}

/// Nothing has been sent to the API itself yet.
fn token_error(error: &TokenError) -> SourceError {
    SourceError::unreachable(error.to_string())
}
