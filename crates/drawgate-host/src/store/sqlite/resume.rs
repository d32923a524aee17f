//! The time at which a start goes on, where the system's clock is behind the newest event.
//!
//! The clock may have been set back, and what has ended must not be alive again: time goes on from the
//! newest event. Beyond a day the clock was far off, then or now, and no one can tell which; a log that
//! went on from a wrong time would be wrong for years. Then the system's clock counts, and all that was to
//! end at some time has ended.

use drawgate_core::audit::EventDraft;
use drawgate_core::clock::Clock;
use drawgate_core::store::StoreError;
use rusqlite::Connection;

use super::connection::unavailable;
use super::state;

/// How far the system's clock may be behind the newest event for time to go on from there.
const MAX_BEHIND_MS: u64 = 24 * 60 * 60 * 1000;
/// Less than this is not worth a word.
const SLACK_MS: u64 = 1000;

/// What a start did about the clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resumed {
    behind_ms: u64,
    /// How many grants and approvals have ended, if the system's clock counts again.
    ended: Option<usize>,
}

/// Sets the clock for a log whose newest event is of this time.
pub(super) fn resume(
    newest_ms: u64,
    clock: &dyn Clock,
    state: &Connection,
) -> Result<Resumed, StoreError> {
    let behind_ms = newest_ms.saturating_sub(clock.now_ms());
    if behind_ms > MAX_BEHIND_MS {
        let ended = state::end_timed(state)
            .map_err(|error| unavailable("end what was granted for a time", &error))?;
        return Ok(Resumed { behind_ms, ended: Some(ended) });
    }
    clock.resume(newest_ms);
    Ok(Resumed { behind_ms, ended: None })
}

impl Resumed {
    /// Writes it down in the event of the start, and in the program's log.
    pub(super) fn note(self, opened: EventDraft) -> EventDraft {
        if self.behind_ms < SLACK_MS {
            return opened;
        }
        let seconds = self.behind_ms / 1000;
        let opened = opened.number("clockBehindMs", self.behind_ms);
        let Some(ended) = self.ended else {
            tracing::warn!(
                seconds,
                "the system's clock is behind the newest event; time goes on from there"
            );
            return opened;
        };
        tracing::error!(
            seconds,
            ended,
            "the system's clock is more than a day behind the newest event; it counts from now on, and all \
             grants with an end and all open approvals have ended: check the clock, then issue them again"
        );
        opened.number("ended", ended as u64)
    }
}
