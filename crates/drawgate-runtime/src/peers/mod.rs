//! Authentication of packs and agents that dial in: the list of authorised keys, the terms of each,
//! and how a peer proves that it holds one.
//!
//! Nothing here knows a protocol. A surface hands over what a peer said, and gets back what it is,
//! or why it is refused.

mod authenticator;
mod disconnection;
mod file;
mod follow;
mod identity;
mod key;
mod line;
mod list;
mod new;
mod nonce;
mod patterns;
mod peer;
mod refusal;
mod signature;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use authenticator::{
    KeyChanges, KeyExists, LoginAttempt, PeerAuthenticator, PeerAuthenticatorParts,
};
pub use disconnection::{DisconnectReason, Disconnection};
pub use file::{FileProblem, KeyFile};
pub use follow::follow;
pub use identity::Identity;
pub use key::{KeyFault, read_key};
pub use line::{LineFault, OptionFault};
pub use list::{Entry, KeyList, Selection};
pub use new::NewKey;
pub use nonce::NONCE_SECONDS;
pub use patterns::{PatternError, ToolPatterns};
pub use peer::Peer;
pub use refusal::{Refusal, Refused};

use drawgate_core::audit::EventDraft;
use drawgate_core::model::Capability;
use drawgate_sdk::statement::Purpose;

/// The terms of a key: whose it is, and what it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTerms {
    /// A pack or an agent.
    pub purpose: Purpose,
    /// The pack's id or the agent's name.
    pub name: String,
    /// The tools that a pack may offer; none for an agent.
    pub tools: ToolPatterns,
    /// What an agent may hold; for a pack, what a caller needs for each of its tools beside what the
    /// pack itself says.
    pub capabilities: Vec<Capability>,
    /// `SHA256:` and the key's fingerprint.
    pub fingerprint: String,
    /// What the line says about the key, for people.
    pub comment: String,
}

impl KeyTerms {
    /// Adds the terms to an event.
    #[must_use]
    pub fn describe(&self, draft: EventDraft) -> EventDraft {
        draft
            .text("purpose", self.purpose.as_str())
            .text("name", &self.name)
            .text("fingerprint", &self.fingerprint)
            .text("tools", self.tools.to_string())
            .texts("capabilities", self.capabilities.iter().map(Capability::as_str))
    }

    /// Whether both are equal apart from the comment.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let Self { purpose, name, tools, capabilities, fingerprint, comment: _ } = self;
        *purpose == other.purpose
            && *name == other.name
            && *tools == other.tools
            && *capabilities == other.capabilities
            && *fingerprint == other.fingerprint
    }
}
