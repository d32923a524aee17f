//! What a person needs to know about a server that does not work.

use std::collections::VecDeque;

use drawgate_core::model::shape::{self, Form, Misfit};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::refusals::Refusal;
use super::wire::ServerInfo;
use crate::excerpt::{excerpt, masked};

/// How many lines of a server's complaints are kept: at most 1 MiB of them.
const TAIL_LINES: usize = 256;

/// How many odd members of one list are remembered.
const MAX_MISFITS: usize = 256;

/// The state of a source, for `doctor` and for the console.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceDiagnostics {
    /// Where it stands.
    pub state: SourceState,
    /// How it is reached.
    pub transport: &'static str,
    /// The child's process id.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u64,
    /// Seconds until the next attempt, after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_seconds: Option<u64>,
    /// Seconds for which calls are refused, because too many in a row have failed; 0 when one may try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_for_seconds: Option<u64>,
    /// Connections that serve one client each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientConnections>,
    /// Why it failed last.
    pub last_error: Option<String>,
    /// The last lines that it wrote to its standard error.
    pub stderr_tail: Vec<String>,
    /// How many lines it has written there in all.
    pub stderr_lines: u64,
    /// What it asked for in its sandbox and was not given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
    /// What the server calls itself.
    pub server_name: Option<String>,
    /// The server's version.
    pub server_version: Option<String>,
    /// The protocol revision in use.
    pub protocol_version: Option<String>,
    /// Tools that are not offered, and why.
    pub left_out: Vec<LeftOut>,
    /// Members of definitions that are not shown to callers, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misfits: Vec<LeftOut>,
    /// Messages that were ignored: not JSON, or answers to nothing.
    pub ignored_messages: u64,
}

/// Where a source stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// Not running, because it is not in use. The next call starts it.
    #[default]
    Idle,
    /// On its way.
    Starting,
    /// At work.
    Ready,
    /// It failed; another attempt will be made.
    Failed,
    /// Ended for good.
    Closed,
}

/// How many clients have a connection of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClientConnections {
    /// So many now.
    pub open: usize,
    /// So many at most.
    pub limit: usize,
}

/// A tool or other thing that is not offered, or not whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its name, if it has one.
    pub tool: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What of a server's lists does not reach callers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Omissions {
    /// Bad definitions. They do not spoil the others.
    pub(super) left_out: Vec<LeftOut>,
    /// Members of definitions that have the wrong type.
    pub(super) misfits: Vec<LeftOut>,
}

impl Omissions {
    /// Notes the members of a definition that callers are not shown; an error if it does not fit as a whole.
    pub(super) fn inspect(
        &mut self,
        name: &str,
        form: Form,
        definition: &Value,
    ) -> Result<(), Misfit> {
        let room = MAX_MISFITS.saturating_sub(self.misfits.len());
        let found = shape::misfits(form, definition)?.into_iter().take(room);
        self.misfits.extend(
            found.map(|misfit| LeftOut { tool: name.to_owned(), reason: misfit.to_string() }),
        );
        Ok(())
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.left_out.extend(other.left_out);
        self.misfits.extend(other.misfits);
    }
}

impl SourceDiagnostics {
    /// Masks what the server may have repeated of the values that it was given.
    pub(super) fn masked(mut self, secrets: &[String]) -> Self {
        for line in &mut self.stderr_tail {
            *line = excerpt(line, secrets);
        }
        self.last_error = self.last_error.map(|text| masked(&text, secrets));
        self
    }
}

/// Collects the above while a source lives.
#[derive(Debug, Default)]
pub(super) struct Journal {
    facts: Mutex<SourceDiagnostics>,
    next_attempt: Mutex<Option<Instant>>,
    tail: Mutex<VecDeque<String>>,
}

impl Journal {
    pub(super) fn new(transport: &'static str) -> Self {
        let facts = SourceDiagnostics { transport, ..SourceDiagnostics::default() };
        Self { facts: Mutex::new(facts), ..Self::default() }
    }

    pub(super) fn read(&self) -> SourceDiagnostics {
        let next_attempt = *self.next_attempt.lock();
        let next_attempt_seconds =
            next_attempt.map(|time| time.saturating_duration_since(Instant::now()).as_secs());
        // The lines and their number are read together.
        let tail = self.tail.lock();
        let stderr_tail = tail.iter().cloned().collect();
        SourceDiagnostics { next_attempt_seconds, stderr_tail, ..self.facts.lock().clone() }
    }

    pub(super) fn starting(&self) {
        *self.next_attempt.lock() = None;
        self.facts.lock().state = SourceState::Starting;
    }

    pub(super) fn ready(&self, info: &ServerInfo) {
        let mut facts = self.facts.lock();
        facts.state = SourceState::Ready;
        facts.server_name = Some(info.name.clone());
        facts.server_version = Some(info.version.clone());
        facts.protocol_version = Some(info.protocol.clone());
    }

    /// It failed, and is tried again at the given time.
    pub(super) fn failed(&self, reason: &str, next_attempt: Instant) {
        *self.next_attempt.lock() = Some(next_attempt);
        let mut facts = self.facts.lock();
        facts.state = SourceState::Failed;
        facts.pid = None;
        facts.last_error = Some(reason.to_owned());
    }

    pub(super) fn asleep(&self) {
        let mut facts = self.facts.lock();
        facts.state = SourceState::Idle;
        facts.pid = None;
    }

    pub(super) fn restarting(&self) {
        self.facts.lock().restarts += 1;
    }

    pub(super) fn closed(&self) {
        *self.next_attempt.lock() = None;
        let mut facts = self.facts.lock();
        facts.state = SourceState::Closed;
        facts.pid = None;
    }

    pub(super) fn pid(&self, pid: u32) {
        self.facts.lock().pid = Some(pid);
    }

    pub(super) fn gone(&self) {
        self.facts.lock().pid = None;
    }

    pub(super) fn listed(&self, omissions: Omissions) {
        let mut facts = self.facts.lock();
        facts.left_out = omissions.left_out;
        facts.misfits = omissions.misfits;
    }

    pub(super) fn ignored(&self) {
        self.facts.lock().ignored_messages += 1;
    }

    /// How many lines it has written to its standard error.
    pub(super) fn complaints(&self) -> u64 {
        self.facts.lock().stderr_lines
    }

    /// The lines that followed the first so many, as far as they are kept. They are not masked.
    pub(super) fn complaints_since(&self, before: u64) -> Vec<String> {
        let tail = self.tail.lock();
        let new = self.facts.lock().stderr_lines.saturating_sub(before);
        let old = tail.len().saturating_sub(usize::try_from(new).unwrap_or(usize::MAX));
        tail.iter().skip(old).cloned().collect()
    }

    /// Keeps a line as it was read; it is masked, then shortened, when it is shown.
    pub(super) fn complaint(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line).into_owned();
        let mut tail = self.tail.lock();
        self.facts.lock().stderr_lines += 1;
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_hold_no_secrets() {
        let journal = Journal::default();
        journal.complaint(b"login with hunter2 failed\n");
        journal.failed("hunter2?", Instant::now());
        let report = journal.read().masked(&["hunter2".to_owned()]);
        assert_eq!(report.stderr_tail, ["login with **** failed"]);
        let secret = format!("{}hunter2", "x".repeat(497));
        journal.complaint(secret.as_bytes());
        let tail = journal.read().masked(&["hunter2".to_owned()]).stderr_tail;
        assert_eq!(tail[1], format!("{}***", "x".repeat(497)), "masked, then shortened");
        assert_eq!(report.last_error.as_deref(), Some("****?"));
    }
}
