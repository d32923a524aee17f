//! Time and ids from outside, so that tests can choose them.

/// The wall clock, in milliseconds since the epoch.
///
/// An implementation never goes back: a clock that is set back repeats its highest value, so that an
/// expired grant stays expired.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the epoch.
    fn now_ms(&self) -> u64;
}

/// Where names for new things come from.
pub trait Ids: Send + Sync + 'static {
    /// Unique in this installation; says nothing to anybody, and may be guessed.
    fn unique(&self) -> String;
    /// 256 bits that nobody can guess, in hexadecimal: tokens, session and approval ids.
    fn secret(&self) -> String;
}
