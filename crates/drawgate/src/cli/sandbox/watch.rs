//! The signals that end a command in the box before its time.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The number of the signal for an output without a reader.
pub(super) const PIPE: u8 = 13;

/// Waits for the signals by which people and supervisors end programs.
pub(super) struct Interruptions {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Interruptions {
    /// From here on these signals do not end this program by themselves.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The number of the next one.
    pub(super) async fn next(&mut self) -> u8 {
        let number = tokio::select! {
            _ = self.interrupt.recv() => Number::INT,
            _ = self.terminate.recv() => Number::TERM,
            _ = self.hang_up.recv() => Number::HUP,
        };
        u8::try_from(number.as_raw()).unwrap_or_default()
    }
}
