//! How a connection ends: told once, by whoever knows first.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Why a peer is no longer connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It closed its connection in order.
    Left,
    /// The connection broke.
    Lost,
    /// It did not answer any more.
    Silent,
    /// It logged in and then did nothing.
    Idle,
    /// It connected again.
    Replaced,
    /// Its key was withdrawn, or stands for something else now.
    KeyRemoved,
    /// An operator ended it.
    Kicked,
    /// The gateway stopped.
    Shutdown,
}

impl End {
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

/// The end of one connection, shared by those who may bring it about.
#[derive(Debug, Default)]
pub struct Ending {
    token: CancellationToken,
    reason: OnceLock<End>,
    made_room: AtomicBool,
}

impl Ending {
    /// Ends the connection. The first reason counts.
    pub fn end(&self, reason: End) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Ends a connection that nobody knows the owner of.
    pub fn cut(&self) {
        self.token.cancel();
    }

    /// Ends a connection that waits for its login, for the sake of another.
    pub fn make_room(&self) {
        self.made_room.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Whether it had to make room.
    #[must_use]
    pub fn has_made_room(&self) -> bool {
        self.made_room.load(Ordering::Acquire)
    }

    /// Cancelled at the end.
    #[must_use]
    pub const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Why it ended, if somebody said so.
    #[must_use]
    pub fn reason(&self) -> Option<End> {
        self.reason.get().copied()
    }
}
