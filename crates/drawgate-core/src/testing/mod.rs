//! Fakes for tests: a clock that stands, a store that can be broken, sources made of closures, a whole
//! gate, and the suites that every kind of source and every store must pass.

#![expect(clippy::missing_panics_doc, reason = "a fake that is used wrongly fails its test")]

pub mod conformance;
mod faults;
mod gate;
mod source;
pub mod store_suite;
pub mod structure;

pub use faults::{Faults, Faulty, Operation, TestStore, broken};
pub use gate::{TestGate, caller, run_of};
pub use source::{FakeSource, operation_name, operations, tool};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::acts::{Acts, ActsParts};
use crate::clock::{Clock, Ids};
use crate::redact::Redactor;

/// Acts on a store and a log in memory.
#[must_use]
pub fn acts(store: Arc<TestStore>, log: Arc<TestStore>) -> Acts {
    Acts::new(ActsParts {
        store,
        log,
        clock: Arc::new(TestClock::default()),
        ids: Arc::new(TestIds::default()),
        redactor: Arc::new(ArcSwap::from_pointee(Redactor::new([]))),
    })
}

/// A clock that moves only when told.
#[derive(Debug)]
pub struct TestClock(AtomicU64);

impl Default for TestClock {
    fn default() -> Self {
        Self(AtomicU64::new(1_700_000_000_000))
    }
}

impl TestClock {
    /// Moves the clock on.
    pub fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// A clock that was set back by this much from where the others begin.
    #[must_use]
    pub fn set_back(ms: u64) -> Self {
        Self(AtomicU64::new(Self::default().now_ms().saturating_sub(ms)))
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn resume(&self, newest_ms: u64) {
        self.0.fetch_max(newest_ms, Ordering::SeqCst);
    }
}

/// Ids that count.
#[derive(Debug, Default)]
pub struct TestIds(AtomicU64);

impl Ids for TestIds {
    fn unique(&self) -> String {
        format!("id{}", self.0.fetch_add(1, Ordering::SeqCst))
    }

    fn secret(&self) -> String {
        format!("{:064x}", self.0.fetch_add(1, Ordering::SeqCst) + 0xabc0_0000)
            .chars()
            .rev()
            .collect()
    }
}
