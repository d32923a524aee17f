//! Why the connection of a pack ended, and why an answer was dropped.

use drawgate_core::source::{Sent, SourceError};

/// Why a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Its stream ended at the other end, or the connection did.
    Gone,
    /// It did not answer heartbeats.
    Silent,
    /// Another connection of the same pack took its place.
    Replaced,
    /// Its peer may not be here any more.
    Cut,
    /// The gateway stops.
    Stopping,
}

/// Why an answer was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// Its call has been given up.
    Late,
    /// It has been given already.
    Duplicate,
    /// It belongs to no call of this connection.
    Foreign,
}

impl Dropped {
    /// As in the metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Duplicate => "duplicate",
            Self::Foreign => "foreign",
        }
    }
}

/// What the caller hears of a call that the connection's end has ended.
pub(super) fn unavailable(pack: &str, sent: Sent) -> SourceError {
    match sent {
        Sent::Nothing => SourceError::unreachable(format!("pack `{pack}` is not connected")),
        Sent::Perhaps => SourceError::lost(format!(
            "pack `{pack}` was lost during the call; whether it was carried out is not known"
        )),
    }
}
