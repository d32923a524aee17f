//! The page where a person decides about one call: it asks for the operator's token, shows the call,
//! then takes the decision. Before the token it says nothing about the call, not even whether there
//! is one.

mod page;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequest as _;
use axum::response::Response;
use drawgate_core::model::Principal;
use drawgate_core::policy::{Approval, ApprovalState};
use http::{Method, Request, StatusCode};
use http_body_util::Limited;
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use drawgate_runtime::operations::Operations;
use drawgate_runtime::time::shown as time;

/// Where the pages are.
pub const PATH: &str = "/approvals";
/// Bytes of a form: a token and two words.
const MAX_FORM: usize = 4 * 1024;
/// How long a form may take to arrive.
const FORM_TIME: Duration = Duration::from_secs(10);
/// How long a call may be looked at before it is decided.
const KEY_TIME_MS: u64 = 5 * 60 * 1000;
/// Calls that are looked at, at once.
const MAX_KEYS: usize = 64;
/// Wrong tokens in a minute that are written down. A right one always counts: it can't be guessed, and
/// strangers must not shut the operator out.
const MAX_WRONG: u32 = 10;
const MINUTE_MS: u64 = 60_000;

/// The approval whose page this path is, if it is one.
#[must_use]
pub fn page_of(path: &str) -> Option<String> {
    path.strip_prefix(PATH)?.strip_prefix('/').map(str::to_owned)
}

/// The pages of all approvals.
pub struct Pages {
    operations: Arc<Operations>,
    /// Calls that were shown, by the hash of the key that is in the form.
    keys: Mutex<HashMap<[u8; 32], Shown>>,
    /// When the minute began, and the wrong tokens since.
    wrong: Mutex<(u64, u32)>,
}

/// What somebody with the token looks at.
struct Shown {
    approval: String,
    until: u64,
}

/// What was sent by a form.
enum Form {
    /// Show the call, to who has the token.
    Show { token: String },
    /// Decide, by the key that came with the call.
    Decide { key: String, answer: ApprovalState },
}

impl Pages {
    /// The pages of a gateway's approvals.
    #[must_use]
    pub fn new(operations: Arc<Operations>) -> Self {
        Self { operations, keys: Mutex::default(), wrong: Mutex::default() }
    }

    /// Answers a request for a page, by the id in its path. Host and origin have been checked.
    pub async fn answer(&self, id: String, request: Request<Body>) -> Response {
        let id = id.as_str();
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return page::note(StatusCode::NOT_FOUND, "There is no such page.");
        }
        match *request.method() {
            Method::GET => page::ask(StatusCode::OK, id, ""),
            Method::POST => match form(request).await {
                Some(Form::Show { token }) => self.show(id, &token).await,
                Some(Form::Decide { key, answer }) => self.decide(id, &key, answer).await,
                None => page::note(StatusCode::BAD_REQUEST, "This is not a form of this page."),
            },
            _ => page::note(StatusCode::METHOD_NOT_ALLOWED, "Open this page in a browser."),
        }
    }

    async fn show(&self, id: &str, token: &str) -> Response {
        let now = self.operations.gateway.clock().now_ms();
        if !self.operations.is_operator(token) {
            return self.refuse(id, now).await;
        }
        match self.operations.approval(id) {
            Some(listed) if listed.approval.state == ApprovalState::Pending => {
                match self.key(id, now) {
                    Some(key) => {
                        let exact = self.operations.exact_arguments(id);
                        page::call(&listed, exact.as_deref(), &key, now)
                    }
                    None => page::ask(
                        StatusCode::TOO_MANY_REQUESTS,
                        id,
                        "Too many calls are being looked at; try again later.",
                    ),
                }
            }
            Some(listed) => page::note(StatusCode::CONFLICT, &settled(&listed.approval, now)),
            None => {
                page::note(StatusCode::NOT_FOUND, "There is no such call; it may have expired.")
            }
        }
    }

    async fn decide(&self, id: &str, key: &str, answer: ApprovalState) -> Response {
        let now = self.operations.gateway.clock().now_ms();
        // Taken out whatever comes next: a key counts once.
        let shown = self.keys.lock().remove(&hash(key));
        if !shown.is_some_and(|shown| shown.approval == id && shown.until > now) {
            let message = "This form was used before or is too old; look at the call again.";
            return page::ask(StatusCode::FORBIDDEN, id, message);
        }
        match self.operations.decide_and_tell(&Principal::local(), id, answer).await {
            Ok(decided) => {
                let told = decided.in_words(|at| page::until(at, now));
                page::note(StatusCode::OK, &sentence(&format!("{told}; you can close this page")))
            }
            Err(error) => {
                let error = anyhow::Error::from(error);
                tracing::warn!(error = format!("{error:#}"), "an approval could not be decided");
                let standing = self.operations.approval(id).map(|listed| listed.approval);
                let is_settled = |it: &Approval| it.state != ApprovalState::Pending;
                let why = match standing.filter(is_settled) {
                    Some(approval) => settled(&approval, now),
                    None => "It can't be written down now; try again.".to_owned(),
                };
                page::note(StatusCode::CONFLICT, &format!("Your answer does not count. {why}"))
            }
        }
    }

    /// A key for one decision about this call.
    fn key(&self, id: &str, now: u64) -> Option<String> {
        let mut keys = self.keys.lock();
        keys.retain(|_, shown| shown.until > now);
        if keys.len() >= MAX_KEYS {
            return None;
        }
        let key = self.operations.gateway.ids().secret();
        let shown = Shown { approval: id.to_owned(), until: now.saturating_add(KEY_TIME_MS) };
        keys.insert(hash(&key), shown);
        Some(key)
    }

    /// Counts a wrong token; whether there were too many of late.
    fn are_too_many(&self, now: u64) -> bool {
        let mut wrong = self.wrong.lock();
        if now.saturating_sub(wrong.0) >= MINUTE_MS {
            *wrong = (now, 0);
        }
        wrong.1 = wrong.1.saturating_add(1);
        wrong.1 > MAX_WRONG
    }

    async fn refuse(&self, id: &str, now: u64) -> Response {
        metrics::counter!("drawgate_refused_callers_total", "reason" => "approval_page")
            .increment(1);
        if self.are_too_many(now) {
            let message = "Too many wrong tokens of late, and this is not the operator's either.";
            return page::ask(StatusCode::TOO_MANY_REQUESTS, id, message);
        }
        self.operations.gateway.record_refused_caller(None, "approval_page").await;
        page::ask(StatusCode::UNAUTHORIZED, id, "This is not the operator's token.")
    }
}

/// What is true of an approval that can't be decided any more.
fn settled(approval: &Approval, now: u64) -> String {
    let Approval { state, principal, expires_at, decided_at, .. } = approval;
    let when = time(decided_at.unwrap_or(*expires_at));
    let until = page::until(*expires_at, now);
    match state {
        ApprovalState::Pending => "This call waits for a decision.".to_owned(),
        ApprovalState::Approved => format!(
            "This call was approved at {when}. The next call of {principal} with the same arguments passes, once, until {until}."
        ),
        ApprovalState::Used => {
            format!(
                "This call was approved, and was made at {when}. The same call would be asked about again."
            )
        }
        ApprovalState::Denied if now < *expires_at => {
            format!(
                "This call was denied at {when}. The same call is refused until {until}, and asked about again after that."
            )
        }
        ApprovalState::Denied => {
            format!("This call was denied at {when}. The same call would be asked about again.")
        }
        ApprovalState::Expired => format!(
            "Nobody decided in time, or a yes was not used: this question ended at {}. The same call would be asked about again.",
            time(*expires_at)
        ),
    }
}

/// A message as a sentence of a page.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// What is kept instead of the text.
fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// The fields of both forms.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    token: Option<String>,
    key: Option<String>,
    decision: Option<Choice>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Choice {
    Approve,
    Deny,
}

async fn form(request: Request<Body>) -> Option<Form> {
    let request = request.map(|body| Body::new(Limited::new(body, MAX_FORM)));
    let read = axum::Form::<Fields>::from_request(request, &());
    let axum::Form(fields) = tokio::time::timeout(FORM_TIME, read).await.ok()?.ok()?;
    match (fields.token, fields.key, fields.decision) {
        (Some(token), None, None) => Some(Form::Show { token: token.trim().to_owned() }),
        (None, Some(key), Some(Choice::Approve)) => {
            Some(Form::Decide { key, answer: ApprovalState::Approved })
        }
        (None, Some(key), Some(Choice::Deny)) => {
            Some(Form::Decide { key, answer: ApprovalState::Denied })
        }
        _ => None,
    }
}
