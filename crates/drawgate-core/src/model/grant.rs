//! Capabilities and the grants through which alone they are held.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Caller, IdError, SourceId};

/// A flat string that a tool requires and a caller holds, such as `file.read` or `demo`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Capability(Arc<str>);

/// Longest capability: enough for any sensible scope, short enough for a log line.
const MAX_CAPABILITY: usize = 128;

impl Capability {
    /// Parses a capability.
    pub fn new(value: &str) -> Result<Self, CapabilityError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "._:/-*".contains(c);
        if value.is_empty() || value.len() > MAX_CAPABILITY || !value.chars().all(legal) {
            return Err(CapabilityError(value.chars().take(MAX_CAPABILITY).collect()));
        }
        Ok(Self(value.into()))
    }

    /// The use of a source whose tools require nothing else: `source.ID`. The local user holds it with
    /// `*`; agents need a grant.
    #[must_use]
    pub fn of_source(source: &SourceId) -> Self {
        Self(format!("source.{source}").into())
    }

    /// `*`, which covers all others.
    #[must_use]
    pub fn everything() -> Self {
        Self("*".into())
    }

    /// Whether it is `public`, the operator's word for tools that are open to every caller.
    #[must_use]
    pub fn is_public(&self) -> bool {
        &*self.0 == "public"
    }

    /// The capability as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether holding `self` is enough where `required` is asked for: the same text, `*` for
    /// everything, or `file.*` for everything below `file.`.
    #[must_use]
    pub fn covers(&self, required: &Capability) -> bool {
        if self == required || &*self.0 == "*" {
            return true;
        }
        match self.0.strip_suffix('*') {
            Some(prefix) if prefix.ends_with('.') => required.0.starts_with(prefix),
            _ => false,
        }
    }

    /// What is covered by both: the narrower of the two, if one covers the other. Two that do not
    /// cover each other have nothing in common.
    #[must_use]
    pub fn intersection<'a>(&'a self, other: &'a Self) -> Option<&'a Self> {
        if self.covers(other) { Some(other) } else { other.covers(self).then_some(self) }
    }
}

/// A string that is not a capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a capability; use 1 to 128 of `a-z A-Z 0-9 . _ : / - *`", .0.escape_debug())]
pub struct CapabilityError(String);

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl TryFrom<String> for Capability {
    type Error = CapabilityError;
    fn try_from(value: String) -> Result<Self, CapabilityError> {
        Self::new(&value)
    }
}

impl From<Capability> for String {
    fn from(value: Capability) -> String {
        value.0.to_string()
    }
}

/// Names one grant.
pub type GrantId = Arc<str>;

/// Who may use a grant. In JSON: `workspace`, `user:NAME` or `session:ID`.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub enum GrantScope {
    /// Every caller of this gateway.
    Workspace,
    /// One principal.
    User(super::Principal),
    /// One session of a caller.
    Session(String),
}

impl GrantScope {
    /// Whether `caller` is within this scope.
    #[must_use]
    pub fn includes(&self, caller: &Caller) -> bool {
        match self {
            Self::Workspace => true,
            Self::User(name) => *name == caller.principal,
            Self::Session(id) => caller.session.as_deref() == Some(id.as_str()),
        }
    }
}

/// A string that is not a scope.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ScopeError {
    /// Not one of the three forms.
    #[error("`{}` is not a scope; use `workspace`, `user:NAME` or `session:ID`", .0.escape_debug())]
    Form(String),
    /// The name after `user:` is not a principal.
    #[error(transparent)]
    User(#[from] IdError),
}

impl TryFrom<String> for GrantScope {
    type Error = ScopeError;
    fn try_from(value: String) -> Result<Self, ScopeError> {
        if value == "workspace" {
            return Ok(Self::Workspace);
        }
        match value.split_once(':') {
            Some(("user", name)) => Ok(Self::User(super::Principal::new(name)?)),
            Some(("session", id)) if !id.is_empty() => Ok(Self::Session(id.to_owned())),
            _ => Err(ScopeError::Form(value)),
        }
    }
}

impl From<GrantScope> for String {
    fn from(value: GrantScope) -> String {
        match value {
            GrantScope::Workspace => "workspace".to_owned(),
            GrantScope::User(name) => format!("user:{name}"),
            GrantScope::Session(id) => format!("session:{id}"),
        }
    }
}

/// One capability, held by a scope of callers, perhaps until a time. Times are milliseconds since
/// the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapabilityGrant {
    /// Its name, for revocation and audit.
    pub grant_id: GrantId,
    /// What it allows.
    pub capability: Capability,
    /// When it was issued.
    pub issued_at: u64,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Who may use it; absent means every caller of this gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<GrantScope>,
    /// The approval by a person that stands behind it; such a grant satisfies a confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
}

impl CapabilityGrant {
    /// Whether the grant may be used by `caller` at `now`.
    #[must_use]
    pub fn is_live(&self, caller: &Caller, now: u64) -> bool {
        self.expires_at.is_none_or(|end| now < end)
            && self.scope.as_ref().is_none_or(|scope| scope.includes(caller))
    }
}
