//! Time and ids from outside, so that tests can choose them.

/// The wall clock, in milliseconds since the epoch.
///
/// An implementation never goes back and never stands still: when the system's clock is set back, time
/// goes on from the newest one, so that what has ended stays ended and what is to end does.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the epoch.
    fn now_ms(&self) -> u64;

    /// Goes on from a time that an earlier process has reached, if that is later.
    fn resume(&self, _newest_ms: u64) {}

    /// How far the system's clock was behind at the last reading, in milliseconds.
    fn behind_ms(&self) -> u64 {
        0
    }
}

/// Where names for new things come from.
pub trait Ids: Send + Sync + 'static {
    /// Unique in this installation; says nothing to anybody, and may be guessed.
    fn unique(&self) -> String;
    /// 256 bits that nobody can guess, in hexadecimal: tokens, session and approval ids.
    fn secret(&self) -> String;
}
