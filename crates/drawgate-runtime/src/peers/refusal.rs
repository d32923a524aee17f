//! Why a peer is refused: in the audit log for the operator, and in a sentence for the peer, which
//! learns nothing about who is authorised.

use drawgate_sdk::statement::Purpose;

/// Why a peer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// What it sent can't be read.
    Malformed,
    /// Its key is not authorised.
    UnknownKey,
    /// The signature is not that of its key over its statement.
    BadSignature,
    /// The proof was used before.
    Replayed,
    /// The proof is too old.
    Stale,
    /// The proof was made for another gateway, address, connection or use.
    Foreign,
    /// The key is authorised, but not for this name and purpose.
    WrongName,
    /// A request without the session of its connection.
    NoSession,
    /// Too many attempts on one connection.
    TooMany,
    /// It waited for its login among too many others, and one more came.
    NoRoom,
    /// Too many connections of the same name.
    Crowded,
    /// No login in time.
    Timeout,
    /// A pack's manifest, which it is told of in detail.
    Manifest,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Malformed,
        Self::UnknownKey,
        Self::BadSignature,
        Self::Replayed,
        Self::Stale,
        Self::Foreign,
        Self::WrongName,
        Self::NoSession,
        Self::TooMany,
        Self::NoRoom,
        Self::Crowded,
        Self::Timeout,
        Self::Manifest,
    ];

    /// As in the audit log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownKey => "unknown_key",
            Self::BadSignature => "bad_signature",
            Self::Replayed => "replayed",
            Self::Stale => "stale",
            Self::Foreign => "foreign",
            Self::WrongName => "wrong_name",
            Self::NoSession => "no_session",
            Self::TooMany => "too_many",
            Self::NoRoom => "no_room",
            Self::Crowded => "crowded",
            Self::Timeout => "timeout",
            Self::Manifest => "manifest",
        }
    }

    /// For the peer. Which keys are authorised, and for what, it does not learn.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Malformed => {
                "this proof can't be read; send the statement as it was signed, and the signature in SSHSIG form"
            }
            Self::UnknownKey | Self::BadSignature | Self::WrongName => {
                "this proof is not accepted; the gateway's operator finds the reason in its audit log"
            }
            Self::Replayed => "this proof was used before; ask for a new challenge",
            Self::Stale => "this proof is too old; ask for a new challenge",
            Self::Foreign => {
                "this proof was made for another gateway, address, connection or namespace; ask for a challenge on this connection"
            }
            Self::NoSession => {
                "log in first, and send the session from the login with each request, on the same connection"
            }
            Self::TooMany => "too many attempts; connect again",
            Self::NoRoom => "too many connections wait for their login; connect again",
            Self::Crowded => "there are too many connections of this name already; end one of them",
            Self::Timeout => "the login took too long; connect again",
            Self::Manifest => "this manifest is refused",
        }
    }
}

/// A refusal, with what the peer claimed to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub refusal: Refusal,
    /// What it wanted to be, if it got that far.
    pub purpose: Option<Purpose>,
    /// Its name, as it said.
    pub name: Option<String>,
    /// The key that it claimed to hold.
    pub fingerprint: Option<String>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, purpose: None, name: None, fingerprint: None }
    }
}
