//! Spares callers the wait for a server that fails every call.
//!
//! After some calls in a row that failed by the server's fault, calls fail at once for a while; then
//! one is let through, and its outcome decides.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use drawgate_core::deadline::Deadline;
use drawgate_core::source::{Sent, SourceError};
use parking_lot::Mutex;

use super::principal_of;

/// Calls in a row that must fail.
const FAILURES: u32 = 5;
/// A call that had less time than this says nothing about the server when it runs out: else a caller
/// in a hurry could cut the server off from all others.
const SERIOUS_WAIT: Duration = Duration::from_secs(5);
/// Calls of one principal that ran out of time and count: one whose calls are slow by nature must not
/// cut the server off from all others either.
const TIMEOUTS_EACH: u32 = 2;

/// One server's breaker.
#[derive(Debug)]
pub(super) struct Breaker {
    pause: Duration,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    failures: u32,
    last_failure: Option<Instant>,
    /// The timeouts among the failures, by principal.
    timeouts: BTreeMap<Box<str>, u32>,
    /// Set while it is open.
    until: Option<Instant>,
    /// When the call began that tries the server now.
    trial: Option<Instant>,
}

/// A call that was let through; it must say how it ended.
#[derive(Debug)]
pub(super) struct Admission<'a> {
    breaker: &'a Breaker,
    principal: &'a str,
    began: Instant,
    deadline: Deadline,
    is_trial: bool,
    settled: bool,
}

/// What a call says about its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Works,
    Fails,
    RanOut,
    Nothing,
}

impl Breaker {
    pub(super) fn new(pause: Duration) -> Self {
        Self { pause, inner: Mutex::default() }
    }

    /// Lets a call through, or says until when none is.
    pub(super) fn admit<'a>(
        &'a self,
        client: &'a str,
        deadline: &Deadline,
    ) -> Result<Admission<'a>, SourceError> {
        self.admit_at(Instant::now(), client, deadline)
    }

    /// How much longer calls are refused, while it is open.
    pub(super) fn open_for(&self) -> Option<Duration> {
        self.inner.lock().until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    fn admit_at<'a>(
        &'a self,
        now: Instant,
        client: &'a str,
        deadline: &Deadline,
    ) -> Result<Admission<'a>, SourceError> {
        let deadline = deadline.clone();
        let mut inner = self.inner.lock();
        // After a pause a slow trial no longer blocks other trials.
        let is_tried = inner.trial.is_some_and(|began| now < began + self.pause);
        let is_trial = match inner.until {
            None => false,
            Some(until) if until <= now && !is_tried => {
                inner.trial = Some(now);
                true
            }
            Some(until) => return Err(refusal(inner.failures, until, now)),
        };
        let principal = principal_of(client);
        Ok(Admission { breaker: self, principal, began: now, deadline, is_trial, settled: false })
    }

    fn settle(&self, call: &Admission<'_>, verdict: Verdict, now: Instant) {
        let mut inner = self.inner.lock();
        if call.is_trial && inner.trial == Some(call.began) {
            inner.trial = None;
        }
        match verdict {
            // A call from before it opened is no proof that the server works now.
            Verdict::Works if inner.until.is_none() || call.is_trial => *inner = Inner::default(),
            Verdict::Works | Verdict::Nothing => {}
            Verdict::RanOut if inner.is_over_share(call.principal) => {}
            Verdict::Fails | Verdict::RanOut => {
                inner.failures = inner.failures.saturating_add(1);
                inner.last_failure = Some(now);
                if call.is_trial || (inner.failures >= FAILURES && inner.until.is_none()) {
                    inner.until = Some(now + self.pause);
                }
            }
        }
    }
}

impl Inner {
    /// Counts a call that ran out of time; whether its principal had enough of them before.
    fn is_over_share(&mut self, principal: &str) -> bool {
        let own = self.timeouts.entry(principal.into()).or_default();
        *own = own.saturating_add(1);
        *own > TIMEOUTS_EACH
    }
}

impl Admission<'_> {
    /// Ends the call.
    pub(super) fn settle<T>(mut self, outcome: &Result<T, SourceError>) {
        let verdict = self.verdict(outcome.as_ref().err());
        self.settled = true;
        self.breaker.settle(&self, verdict, Instant::now());
    }

    fn verdict(&self, error: Option<&SourceError>) -> Verdict {
        match error {
            None | Some(SourceError::Failed { .. } | SourceError::Invalid(_)) => Verdict::Works,
            Some(SourceError::Sandbox(_)) => Verdict::Fails,
            // Where nothing was sent, the supervisor knows that the server is down, and dials.
            Some(
                SourceError::Arguments { .. }
                | SourceError::Unavailable { sent: Sent::Nothing, .. },
            ) => Verdict::Nothing,
            Some(SourceError::Timeout(_)) => self.ran_out(),
            // One crash or one broken message ends many calls; it counts once.
            Some(SourceError::Unavailable { .. } | SourceError::Protocol(_)) => {
                let last = self.breaker.inner.lock().last_failure;
                let counted = last.is_some_and(|last| last >= self.began);
                if counted { Verdict::Nothing } else { Verdict::Fails }
            }
        }
    }

    fn ran_out(&self) -> Verdict {
        let had = self.deadline.at().saturating_duration_since(self.began);
        if had >= SERIOUS_WAIT { Verdict::RanOut } else { Verdict::Nothing }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        // The gate drops a call that was cancelled, or that has run out of time.
        if !self.settled {
            let now = Instant::now();
            let verdict = if now >= self.deadline.at() { self.ran_out() } else { Verdict::Nothing };
            self.breaker.settle(self, verdict, now);
        }
    }
}

fn refusal(failures: u32, until: Instant, now: Instant) -> SourceError {
    let left = until.saturating_duration_since(now).as_secs();
    SourceError::unreachable(if until <= now {
        format!("the server failed {failures} calls in a row; one call tries it at the moment")
    } else {
        format!(
            "the server failed {failures} calls in a row; it is not called for another {} s",
            left + 1
        )
    })
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
