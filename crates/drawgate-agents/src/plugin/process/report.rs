//! What a person needs to find out why a plugin does not work.

use std::collections::VecDeque;

use drawgate_core::registry::visible_line;
use parking_lot::Mutex;
use serde::Serialize;

/// How many lines of standard error are kept.
const LINES: usize = 64;
/// How many characters of each.
const CHARACTERS: usize = 500;

/// How a plugin's process is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessReport {
    /// `starting`, `ready`, `down` (it will be started again), `given_up` (not for some minutes), `stopped`.
    pub state: &'static str,
    /// Its process id, while it has a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u64,
    /// How often in a row it ended by itself or did not start.
    pub failures: u32,
    /// Messages that meant nothing: late answers, unknown ids, text that is not of the protocol.
    pub ignored_messages: u64,
    /// Hooks that it was not told of, because too many waited or it did not answer.
    pub dropped_hooks: u64,
    /// Why it ended or did not start the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The last lines of its standard error.
    pub stderr_tail: Vec<String>,
}

/// Collects what a report says.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    report: ProcessReport,
    stderr: VecDeque<String>,
    /// The first line on standard output that is no message.
    printed: Option<String>,
}

/// A line of a plugin's, as far as it is shown; nothing if it is empty.
fn shown(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let line: String = visible_line(text.trim_end()).chars().take(CHARACTERS).collect();
    (!line.is_empty()).then_some(line)
}

impl Journal {
    pub(super) fn change(&self, change: impl FnOnce(&mut ProcessReport)) {
        change(&mut self.0.lock().report);
    }

    pub(super) fn complaint(&self, line: &[u8]) {
        let Some(line) = shown(line) else { return };
        let mut inner = self.0.lock();
        if inner.stderr.len() == LINES {
            inner.stderr.pop_front();
        }
        inner.stderr.push_back(line);
    }

    /// Notes what stands on standard output and is no message.
    pub(super) fn printed(&self, line: &[u8]) {
        let mut inner = self.0.lock();
        if inner.printed.is_none() {
            inner.printed = shown(line);
        }
    }

    pub(super) fn first_printed(&self) -> Option<String> {
        self.0.lock().printed.clone()
    }

    pub(super) fn forget_printed(&self) {
        self.0.lock().printed = None;
    }

    pub(super) fn last_complaint(&self) -> Option<String> {
        self.0.lock().stderr.back().cloned()
    }

    pub(super) fn report(&self) -> ProcessReport {
        let inner = self.0.lock();
        ProcessReport {
            stderr_tail: inner.stderr.iter().cloned().collect(),
            ..inner.report.clone()
        }
    }
}
