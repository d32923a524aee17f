//! State that a caller carries between two calls of the same: what a source needs to go on, and the
//! approval that a call has already got. Sealed, so that it counts only for the caller, the tool and
//! the arguments that it was made for, for a time, and only while this gateway runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::authorize::Confirmed;
use super::{Refusal, refuse};
use crate::model::{ErrorCode, Principal};
use crate::registry::Entry;

/// How long a person may take to answer.
const LIFETIME: Duration = Duration::from_mins(15);
/// The longest state of a source that is carried.
const MAX_INNER: usize = 256 * 1024;
/// How many used states with an approval behind them are remembered, until they expire by themselves.
const MAX_USED: usize = 100_000;

/// What a state says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    /// Who may use it.
    principal: String,
    /// For what.
    tool: String,
    definition: String,
    arguments: String,
    /// The approval that the call has got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) approval: Option<String>,
    /// The source's own state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) inner: Option<String>,
    /// The question was the gate's own: the page where a person decides.
    #[serde(default)]
    pub(super) page: bool,
    expires_at: u64,
    nonce: String,
}

/// Makes states and opens them again.
pub(crate) struct Continuations {
    key: [u8; 32],
    /// States that must not be used again, with their end.
    used: Mutex<BTreeMap<String, u64>>,
}

/// What a state is for.
pub(super) enum Carried {
    /// The caller was sent to the page where a person decides.
    Page,
    /// A source asked: its own state, and the approval that the call has got.
    Source { inner: Option<String>, approval: Option<String> },
}

/// What a state is bound to.
pub(super) struct Bound<'a> {
    pub(super) principal: &'a Principal,
    pub(super) entry: &'a Entry,
    /// The hash of the arguments.
    pub(super) arguments: &'a str,
}

impl Continuations {
    /// `key` is a secret of this process.
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { key, used: Mutex::default() }
    }

    /// Seals what the caller is to bring back.
    pub(super) fn seal(
        &self,
        bound: &Bound<'_>,
        carried: Carried,
        nonce: String,
        now: u64,
    ) -> Result<String, Refusal> {
        let (inner, approval, page) = match carried {
            Carried::Page => (None, None, true),
            Carried::Source { inner, approval } => (inner, approval, false),
        };
        if inner.as_ref().is_some_and(|inner| inner.len() > MAX_INNER) {
            let message = format!("the tool's state is larger than {MAX_INNER} bytes");
            return Err(refuse(ErrorCode::ExecutionFailed, message));
        }
        let claims = Claims {
            principal: bound.principal.to_string(),
            tool: bound.entry.id.to_string(),
            definition: bound.entry.definition.clone(),
            arguments: bound.arguments.to_owned(),
            approval,
            inner,
            page,
            expires_at: now.saturating_add(u64::try_from(LIFETIME.as_millis()).unwrap_or(u64::MAX)),
            nonce,
        };
        let body = serde_json::to_vec(&claims).unwrap_or_default();
        let mac = URL_SAFE_NO_PAD.encode(self.mac(&body));
        Ok(format!("{}.{mac}", URL_SAFE_NO_PAD.encode(body)))
    }

    /// Opens a state, if it is ours and meant for this call. One that stands for an approval is used
    /// up by it.
    pub(super) fn open(&self, state: &str, bound: &Bound<'_>, now: u64) -> Result<Claims, Refusal> {
        let claims = self.read(state).ok_or_else(|| invalid("it is not one of this gateway's"))?;
        let meant = claims.principal == bound.principal.as_str()
            && claims.tool == bound.entry.id.as_str()
            && claims.arguments == bound.arguments;
        if !meant {
            return Err(invalid("it belongs to another call"));
        }
        if claims.definition != bound.entry.definition {
            return Err(invalid("the tool's definition has changed"));
        }
        if claims.expires_at <= now {
            return Err(invalid("it has expired"));
        }
        if claims.approval.is_some() {
            self.use_up(&claims, now)?;
        }
        Ok(claims)
    }

    /// The source's own state in one of ours, whoever holds it.
    pub(super) fn inner(&self, state: &str) -> Option<(String, String)> {
        let claims = self.read(state)?;
        Some((claims.tool, claims.inner?))
    }

    fn use_up(&self, claims: &Claims, now: u64) -> Result<(), Refusal> {
        let mut used = self.used.lock();
        if used.len() >= MAX_USED {
            used.retain(|_, end| *end > now);
        }
        if used.len() >= MAX_USED || used.contains_key(&claims.nonce) {
            return Err(invalid("it was used before"));
        }
        used.insert(claims.nonce.clone(), claims.expires_at);
        Ok(())
    }

    fn read(&self, state: &str) -> Option<Claims> {
        let (body, mac) = state.split_once('.')?;
        let body = URL_SAFE_NO_PAD.decode(body).ok()?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        let mut keyed = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        keyed.update(&body);
        keyed.verify_slice(&mac).ok()?;
        serde_json::from_slice(&body).ok()
    }

    fn mac(&self, body: &[u8]) -> Vec<u8> {
        // HMAC takes a key of any length; an empty code would never verify.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return Vec::new() };
        mac.update(body);
        mac.finalize().into_bytes().to_vec()
    }
}

/// A source's handle of a call, with the tool that it belongs to: a call is taken up again by the same
/// definition only, and only by a source that can.
#[derive(Serialize, Deserialize)]
pub(super) struct Handle {
    tool: String,
    definition: String,
    inner: String,
    /// A person has confirmed the call, by itself or by a grant.
    #[serde(default)]
    confirmed: bool,
}

impl Handle {
    /// Serializes the handle, for the task that stores it.
    pub(super) fn of(tool: &str, definition: &str, handle: &str, confirmed: bool) -> String {
        let handle = Self {
            tool: tool.to_owned(),
            definition: definition.to_owned(),
            inner: handle.to_owned(),
            confirmed,
        };
        serde_json::to_string(&handle).unwrap_or_default()
    }

    /// The source's own part, if it is this tool's, and what has confirmed the call.
    pub(super) fn open(text: &str, entry: &Entry) -> Result<(Arc<str>, Confirmed), Refusal> {
        let handle: Self = serde_json::from_str(text).map_err(|_| not_resumed())?;
        let same = handle.tool == entry.id.as_str() && handle.definition == entry.definition;
        let by = if handle.confirmed { Confirmed::Person } else { Confirmed::Nothing };
        if same && entry.source.can_resume() {
            Ok((handle.inner.into(), by))
        } else {
            Err(not_resumed())
        }
    }
}

/// To begin it anew might do it twice.
fn not_resumed() -> Refusal {
    let message = "the tool has changed since the call began, so that it can't be taken up again";
    refuse(ErrorCode::Conflict, message)
}

/// Surfaces know it by `requestState` in the details.
fn invalid(why: &str) -> Refusal {
    refuse(
        ErrorCode::Conflict,
        format!("`requestState` can't be used: {why}; make the call again without it"),
    )
    .with_details(serde_json::json!({ "requestState": "invalid" }))
}
