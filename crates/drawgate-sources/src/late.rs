//! What a caller is told when a call took too long: which tool, how long, and what to change.

use std::time::{Duration, Instant};

use drawgate_core::model::shown_name;
use drawgate_core::source::SourceError;

/// The earlier of two ends of a call, and whose it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) at: Instant,
    /// The limit of a toolpack's author, if it is the earlier one.
    own: Option<Duration>,
}

impl End {
    /// The gate's deadline, or the author's own limit if that ends before.
    pub(crate) fn new(gate: Instant, own: Option<Duration>) -> Self {
        let end = own.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        match end {
            Some((at, limit)) if at <= gate => Self { at, own: Some(limit) },
            Some(_) | None => Self { at: gate, own: None },
        }
    }

    /// The call of `tool` did not end before it.
    pub(crate) fn missed_by(self, tool: &str) -> SourceError {
        let tool = shown_name(tool);
        SourceError::Timeout(match self.own {
            Some(limit) => format!(
                "`{tool}` did not end within {} s and was stopped; the limit is `timeout_seconds` in its toolpack",
                limit.as_secs()
            ),
            None => format!(
                "`{tool}` did not end in its time and was stopped; `timeout_seconds` in its table, or in that of its server or toolpack, gives it more"
            ),
        })
    }
}
