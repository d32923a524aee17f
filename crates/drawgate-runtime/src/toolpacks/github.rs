//! Packs from GitHub: which commit a reference means, and that commit's archive.
//!
//! The commit is asked for first and the archive by the commit alone, so that what was resolved is
//! what comes. What is in the archive is for others to judge.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_core::json;
use drawgate_host::egress::{AnswerBody, Chunks, Egress, read_body};
use drawgate_host::secrets::Secrets;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::origin::{GithubSource, is_commit};
use super::remote::RemoteError;
use super::web::{Base, Web, failed};
use crate::time;

/// Largest archive as it is transferred.
pub(super) const MAX_ARCHIVE: usize = 32 * 1024 * 1024;

/// Largest answer about a commit, should the server send all it knows of it.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

const RESOLVE_TIME: Duration = Duration::from_secs(30);
const DOWNLOAD_TIME: Duration = Duration::from_mins(10);

/// How long an archive may stand still.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// A repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// The repository.
    pub source: GithubSource,
    /// What was asked for: a branch, a tag or the commit itself.
    pub reference: String,
    /// The commit's whole id.
    pub commit: String,
}

/// An archive as it came.
#[derive(Debug, Clone)]
pub struct Download {
    /// Of what.
    pub pinned: Pinned,
    /// Its bytes.
    pub archive: Vec<u8>,
}

/// How far a download is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that have come.
    pub bytes: u64,
    /// Bytes in all, where the server says so.
    pub total: Option<u64>,
}

/// GitHub, or what stands for it.
pub struct Github {
    web: Web,
    api: Base,
    archive: Base,
}

impl Github {
    /// GitHub at these addresses, with the token `GITHUB_TOKEN` of the environment if there is one.
    pub fn new(
        egress: Arc<Egress>,
        secrets: &Secrets,
        api: &str,
        archive: &str,
    ) -> Result<Self, RemoteError> {
        let web = Web::new(egress, secrets)?;
        Ok(Self { web, api: Base::read(api)?, archive: Base::read(archive)? })
    }

    /// The commit that a reference means now. A whole commit id means itself.
    pub async fn resolve(&self, source: &GithubSource) -> Result<Pinned, RemoteError> {
        let reference = source.reference();
        let commit = if is_commit(reference) {
            reference.to_owned()
        } else {
            self.ask_commit(source, reference).await?
        };
        // A short number may be a tag's whole name, but then its commit hardly begins with it.
        if commit.starts_with(reference) && commit != reference {
            return Err(RemoteError::Abbreviated(reference.to_owned()));
        }
        Ok(Pinned { source: source.clone(), reference: reference.to_owned(), commit })
    }

    /// The archive of a commit.
    pub async fn download(
        &self,
        pinned: &Pinned,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Download, RemoteError> {
        let what = pinned.source.to_string();
        let deadline = Instant::now() + DOWNLOAD_TIME;
        let path = format!("{}/tar.gz/{}", pinned.source.repository(), pinned.commit);
        let answer = self.web.get(&self.archive, &path, "application/gzip, */*", deadline).await?;
        let answer = self.good(answer, &what)?;
        if answer.headers().contains_key(CONTENT_ENCODING) {
            return Err(RemoteError::Answer(what));
        }
        let archive = self.receive(answer, &what, deadline, progress).await?;
        Ok(Download { pinned: pinned.clone(), archive })
    }

    async fn ask_commit(
        &self,
        source: &GithubSource,
        reference: &str,
    ) -> Result<String, RemoteError> {
        let what = source.to_string();
        let deadline = Instant::now() + RESOLVE_TIME;
        let path = format!("repos/{}/commits/{}", source.repository(), escaped(reference));
        let answer = self.web.get(&self.api, &path, "application/vnd.github.sha", deadline).await?;
        let answer = self.good(answer, &what)?;
        let body = read_body(answer.into_body(), MAX_ANSWER, deadline).await;
        let body = body.map_err(|error| failed(&self.api, error))?;
        commit_in(&body).ok_or(RemoteError::Answer(what))
    }

    async fn receive(
        &self,
        answer: Response<AnswerBody>,
        what: &str,
        deadline: Instant,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Vec<u8>, RemoteError> {
        let total = number(answer.headers(), CONTENT_LENGTH.as_str());
        let too_large = || RemoteError::TooLarge(what.to_owned());
        if total
            .is_some_and(|total| usize::try_from(total).map_or(true, |total| total > MAX_ARCHIVE))
        {
            return Err(too_large());
        }
        let mut chunks = Chunks::new(answer.into_body());
        let mut archive = Vec::new();
        loop {
            let patience = deadline.min(Instant::now() + IDLE_TIME);
            let next = tokio::time::timeout_at(patience.into(), chunks.next()).await;
            let next = next.map_err(|_| RemoteError::Stalled(what.to_owned()))?;
            let Some(chunk) = next.map_err(|error| failed(&self.archive, error))? else {
                return Ok(archive);
            };
            if archive.len().saturating_add(chunk.len()) > MAX_ARCHIVE {
                return Err(too_large());
            }
            archive.extend_from_slice(&chunk);
            progress(Progress { bytes: u64::try_from(archive.len()).unwrap_or(u64::MAX), total });
        }
    }

    /// The answer, if it is what was asked for; otherwise why not.
    fn good(
        &self,
        answer: Response<AnswerBody>,
        what: &str,
    ) -> Result<Response<AnswerBody>, RemoteError> {
        let (status, what, with_token) = (answer.status(), what.to_owned(), self.web.has_token());
        match status {
            StatusCode::OK => Ok(answer),
            StatusCode::UNAUTHORIZED => Err(RemoteError::TokenRefused),
            StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => {
                Err(RemoteError::NotFound { what, with_token })
            }
            StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => {
                Err(refusal(status, answer.headers(), what, with_token))
            }
            _ if status.is_redirection() => Err(RemoteError::Moved(what)),
            _ => Err(RemoteError::Status { status: status.as_u16(), what }),
        }
    }
}

/// A refusal that is about the number of requests, or another.
fn refusal(status: StatusCode, headers: &HeaderMap, what: String, with_token: bool) -> RemoteError {
    let spent = number(headers, "x-ratelimit-remaining") == Some(0);
    let wait = number(headers, "retry-after");
    if status != StatusCode::TOO_MANY_REQUESTS && !spent && wait.is_none() {
        return RemoteError::Status { status: status.as_u16(), what };
    }
    let reset = number(headers, "x-ratelimit-reset").filter(|_| spent);
    let again = match (reset, wait) {
        (Some(seconds), _) => Some(format!("until {}", time::shown(seconds.saturating_mul(1000)))),
        (None, Some(seconds)) => Some(format!("for {seconds} seconds")),
        (None, None) => None,
    };
    RemoteError::RateLimit { again, with_token }
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// The commit id in an answer: alone, as was asked for, or as `sha` in all that is known of it.
fn commit_in(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    if is_commit(text) {
        return Some(text.to_owned());
    }
    let answer = json::parse(body).ok()?;
    answer.get("sha")?.as_str().filter(|sha| is_commit(sha)).map(str::to_owned)
}

/// A reference as part of a path. Its own `/` stay.
fn escaped(reference: &str) -> String {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
    utf8_percent_encode(reference, ESCAPED).to_string()
}

#[cfg(test)]
#[path = "github_tests.rs"]
mod tests;
