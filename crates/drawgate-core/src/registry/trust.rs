//! The words of trust: what waits for a person, why, and how it is accepted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::acts::{ActError, Acts};
use crate::clock::Clock;
use crate::store::{AuditLog, Documents};

/// What becomes of definitions that nobody has accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those of the first time are trusted; what changes or comes later waits for a person.
    #[default]
    Pin,
    /// Whatever the server says is offered at once.
    Follow,
    /// Everything waits for a person, from the first time on.
    Review,
}

/// What a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// The server itself: the operations beside tools that it can be asked for.
    Server,
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A family of resources.
    Template,
    /// What the server tells models about its use.
    Instructions,
}

impl ItemKind {
    pub(super) const ALL: [Self; 5] =
        [Self::Server, Self::Tool, Self::Prompt, Self::Template, Self::Instructions];

    /// As in the audit log and in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Template => "template",
            Self::Instructions => "instructions",
        }
    }
}

/// Why a definition waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldReason {
    /// It differs from the one that is trusted.
    Changed,
    /// There was none of this name.
    New,
}

impl HeldReason {
    /// As in the audit log and in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::New => "new",
        }
    }
}

/// A definition that waits for a person, with all that a decision needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// What it defines.
    pub kind: ItemKind,
    /// The server's name for it.
    pub name: String,
    /// Why it waits.
    pub reason: HeldReason,
    /// Its hash, which an acceptance names.
    pub hash: String,
    /// The hash of the one that is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_hash: Option<String>,
    /// The definition.
    pub definition: Value,
    /// Whether a server wrote its annotations.
    #[serde(skip)]
    pub is_foreign: bool,
    /// The one that is trusted, unless it was too large to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Value>,
}

/// A definition that waits, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// What it defines.
    pub kind: ItemKind,
    /// The server's name for it.
    pub name: String,
    /// Why it waits.
    pub reason: HeldReason,
}

/// A definition that a person has seen and accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// What it defines.
    pub kind: ItemKind,
    /// The server's name for it.
    pub name: String,
    /// The hash of what was shown.
    pub hash: String,
}

/// Why a definition could not be shown or accepted.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// No such server runs.
    #[error("there is no server `{0}`")]
    NoServer(String),
    /// Nothing of this name waits.
    #[error("`{0}` does not wait for review")]
    NotWaiting(String),
    /// What waits is not what was shown.
    #[error("`{0}` has changed again; review it once more")]
    ChangedAgain(String),
    /// It could not be kept or written down.
    #[error(transparent)]
    Act(#[from] ActError),
}

/// Where pins are kept and what happens to them is written down.
#[derive(Clone)]
pub struct Pins {
    /// The pins.
    pub documents: Arc<dyn Documents>,
    /// The log.
    pub audit: Arc<dyn AuditLog>,
    /// By which a person's acceptance is kept.
    pub acts: Acts,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl From<&Held> for Quarantined {
    fn from(held: &Held) -> Self {
        Self { kind: held.kind, name: held.name.clone(), reason: held.reason }
    }
}
