//! How many refusals of strangers are written to the audit log.

use parking_lot::Mutex;

/// Strangers must not be able to fill the audit log: so many of their attempts a minute are written
/// down, and the metrics count the rest.
#[derive(Debug, Default)]
pub struct RefusalLimiter(Mutex<(u64, u32)>);

impl RefusalLimiter {
    /// Whether one more may be written down now.
    #[must_use]
    pub fn allows(&self, now: u64) -> bool {
        const PER_MINUTE: u32 = 60;
        const MINUTE_MS: u64 = 60_000;
        let mut window = self.0.lock();
        if now.saturating_sub(window.0) >= MINUTE_MS {
            *window = (now, 0);
        }
        window.1 += 1;
        window.1 <= PER_MINUTE
    }
}
