//! How a connection ends: the first reason that is given counts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use drawgate_core::model::Principal;
use tokio_util::sync::CancellationToken;

/// Why a peer is no longer connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectReason {
    /// It closed its connection in order.
    Left,
    /// The connection broke.
    Lost,
    /// It stopped answering.
    Silent,
    /// It logged in and then did nothing.
    Idle,
    /// It connected again.
    Replaced,
    /// Its key was removed, or has other terms now.
    KeyRemoved,
    /// An operator ended it.
    Kicked,
    /// The gateway stopped.
    Shutdown,
}

impl DisconnectReason {
    /// As in the audit log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Lost => "lost",
            Self::Silent => "silent",
            Self::Idle => "idle",
            Self::Replaced => "replaced",
            Self::KeyRemoved => "key_removed",
            Self::Kicked => "kicked",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Ends one connection. Shared by all parts that may end it.
#[derive(Debug, Default)]
pub struct Disconnection {
    token: CancellationToken,
    reason: OnceLock<DisconnectReason>,
    evicted: AtomicBool,
    /// The operator who ended it.
    kicked_by: OnceLock<Principal>,
}

impl Disconnection {
    /// Ends the connection. The first reason counts.
    pub fn end(&self, reason: DisconnectReason) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Ends the connection because an operator wants so.
    pub fn kick(&self, operator: &Principal) {
        let _ = self.kicked_by.set(operator.clone());
        self.end(DisconnectReason::Kicked);
    }

    /// The operator who ended it, if one did.
    #[must_use]
    pub fn kicked_by(&self) -> Option<&Principal> {
        let is_kicked = self.reason() == Some(DisconnectReason::Kicked);
        self.kicked_by.get().filter(|_| is_kicked)
    }

    /// Ends a connection that has not logged in.
    pub fn cut(&self) {
        self.token.cancel();
    }

    /// Ends a connection that has not logged in, to make room for another.
    pub fn evict(&self) {
        self.evicted.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Whether it was evicted.
    #[must_use]
    pub fn was_evicted(&self) -> bool {
        self.evicted.load(Ordering::Acquire)
    }

    /// Cancelled when the connection must end.
    #[must_use]
    pub const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Why it ended, if a reason was given.
    #[must_use]
    pub fn reason(&self) -> Option<DisconnectReason> {
        self.reason.get().copied()
    }
}
