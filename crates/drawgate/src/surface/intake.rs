//! What callers' requests take up in memory: one budget per caller, and one for all.
//!
//! A request is charged for its bytes as they arrive, and for the values that a parser would make of them, until
//! it is answered. What finds no room is refused at once, so that neither many unfinished requests nor a
//! few of nothing but brackets and commas use up the machine. Small requests are not charged: the number of
//! connections bounds them. Bytes are copied into one buffer: a piece as it
//! came would keep the buffer alive from which it was cut.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use drawgate_core::json;
use drawgate_core::model::Principal;
use http::StatusCode;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;

/// Bytes of all callers' requests.
const MAX_ALL: usize = 512 * 1024 * 1024;
/// Bytes of one caller's requests: some of the largest, or very many usual ones.
const MAX_PER_CALLER: usize = 128 * 1024 * 1024;
/// What a request may take up without being charged.
const FREE: usize = 64 * 1024;
/// What a value of a JSON text takes up when it is parsed.
const VALUE_BYTES: usize = 72;

/// The budgets. Cheap to clone.
#[derive(Clone)]
pub struct Intake(Arc<Budgets>);

struct Budgets {
    max_all: usize,
    max_per_caller: usize,
    free: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    all: usize,
    by_caller: HashMap<Principal, usize>,
}

/// What a request is charged for, until this is dropped.
pub struct Charge {
    intake: Intake,
    /// Who is charged, once the request is not small any more.
    caller: Option<Principal>,
    bytes: usize,
}

/// The body of a request, which is charged for as long as this lives.
pub struct Received {
    bytes: Vec<u8>,
    charge: Charge,
}

impl Received {
    /// The charge alone: the bytes are gone, and what was made of them is not.
    #[must_use]
    pub fn into_charge(self) -> Charge {
        self.charge
    }

    /// The bytes, and the charge for what is made of them.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Charge) {
        (self.bytes, self.charge)
    }
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// It is larger than this many bytes.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The caller has too much under way.
    #[error("too much of yours is under way; try again when some of it is done")]
    CallerFull,
    /// All callers together have too much under way.
    #[error("the gateway has too much under way; try again later")]
    AllFull,
    /// It broke off.
    #[error("the body ended early")]
    Broken,
    /// It did not come in time.
    #[error("the body took too long")]
    Slow,
}

impl Unread {
    /// The status of the answer.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::CallerFull => StatusCode::TOO_MANY_REQUESTS,
            Self::AllFull => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

impl Default for Intake {
    fn default() -> Self {
        Self::new(MAX_ALL, MAX_PER_CALLER, FREE)
    }
}

impl Intake {
    fn new(max_all: usize, max_per_caller: usize, free: usize) -> Self {
        Self(Arc::new(Budgets { max_all, max_per_caller, free, table: Mutex::default() }))
    }

    /// Reads a body of at most `max` bytes, which must have arrived after `time`.
    pub async fn read(
        &self,
        caller: &Principal,
        body: Body,
        (max, time): (usize, Duration),
    ) -> Result<Received, Unread> {
        match tokio::time::timeout(time, self.collect(caller, body, max)).await {
            Ok(read) => read,
            Err(_) => Err(Unread::Slow),
        }
    }

    async fn collect(
        &self,
        caller: &Principal,
        mut body: Body,
        max: usize,
    ) -> Result<Received, Unread> {
        let mut charge = Charge { intake: self.clone(), caller: None, bytes: 0 };
        let (mut bytes, mut parsed) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
            if bytes.len() + data.len() > max {
                return Err(Unread::TooLarge(max));
            }
            // No parser makes more of them: a text with more is refused by it.
            let more = values(&data).min(json::MAX_VALUES - parsed);
            parsed += more;
            charge.grow(caller, data.len() + VALUE_BYTES * more)?;
            bytes.extend_from_slice(&data);
        }
        Ok(Received { bytes, charge })
    }
}

impl std::ops::Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// How many values a JSON text holds at most: each but the first begins with one of these before it.
fn values(text: &[u8]) -> usize {
    text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

impl Charge {
    fn grow(&mut self, caller: &Principal, bytes: usize) -> Result<(), Unread> {
        let Budgets { max_all, max_per_caller, free, table } = &*self.intake.0;
        // Nothing has been charged while the request was small.
        let more = if self.caller.is_some() { bytes } else { self.bytes + bytes };
        if self.caller.is_none() && more <= *free {
            self.bytes = more;
            return Ok(());
        }
        let mut table = table.lock();
        let own = table.by_caller.get(caller).copied().unwrap_or_default();
        let (own, all) = (own.saturating_add(more), table.all.saturating_add(more));
        if own > *max_per_caller {
            return Err(Unread::CallerFull);
        }
        if all > *max_all {
            return Err(Unread::AllFull);
        }
        table.all = all;
        table.by_caller.insert(caller.clone(), own);
        self.bytes += bytes;
        self.caller = Some(caller.clone());
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let Some(caller) = &self.caller else { return };
        let mut table = self.intake.0.table.lock();
        table.all = table.all.saturating_sub(self.bytes);
        if let Some(own) = table.by_caller.get_mut(caller) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                table.by_caller.remove(caller);
            }
        }
    }
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
