//! Challenges. A nonce says by itself, under a key of this process, for which connection and when it
//! was made, so that a proof that does not count can be told why.

use std::collections::{HashSet, VecDeque};

use drawgate_core::clock::Ids;
use parking_lot::Mutex;
use ring::hmac;

use super::Refusal;

/// How long a nonce counts.
pub const NONCE_SECONDS: u32 = 60;
/// So many used nonces are remembered, in order to call a replay by its name elsewhere too.
const REMEMBERED: usize = 16_384;
/// Characters of a nonce's random part: 128 bits.
const RANDOM: usize = 32;

/// Makes nonces and judges those that come back.
pub(super) struct Nonces {
    key: hmac::Key,
    used: Mutex<SpentNonces>,
}

#[derive(Default)]
struct SpentNonces {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl Nonces {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key), used: Mutex::default() }
    }

    /// A new one for a connection.
    pub(super) fn make(&self, connection: u64, now: u64, ids: &dyn Ids) -> String {
        let random: String = ids.secret().chars().take(RANDOM).collect();
        let body = format!("{connection:x}.{now:x}.{random}");
        let tag = hmac::sign(&self.key, body.as_bytes());
        format!("{body}.{}", hex::encode(tag))
    }

    /// Whether a nonce that came back on a connection counts. It does so once: `open` has those of
    /// the connection that did not come back yet.
    pub(super) fn spend(
        &self,
        nonce: &str,
        connection: u64,
        now: u64,
        open: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        let own = open.iter().position(|known| known == nonce).map(|at| open.swap_remove(at));
        let (body, tag) = nonce.rsplit_once('.').ok_or(Refusal::Malformed)?;
        let tag = hex::decode(tag).map_err(|_| Refusal::Malformed)?;
        if hmac::verify(&self.key, body.as_bytes(), &tag).is_err() {
            return Err(Refusal::Foreign);
        }
        let (made_for, made_at) = read(body).ok_or(Refusal::Malformed)?;
        let was_used = match &own {
            Some(_) => !self.used.lock().insert(nonce),
            None => self.used.lock().known.contains(nonce),
        };
        if now.saturating_sub(made_at) > u64::from(NONCE_SECONDS) * 1000 {
            return Err(Refusal::Stale);
        }
        match own {
            Some(_) if !was_used => Ok(()),
            None if !was_used && made_for != connection => Err(Refusal::Foreign),
            Some(_) | None => Err(Refusal::Replayed),
        }
    }
}

impl SpentNonces {
    fn insert(&mut self, nonce: &str) -> bool {
        if !self.known.insert(nonce.to_owned()) {
            return false;
        }
        self.order.push_back(nonce.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

/// The connection and the time.
fn read(body: &str) -> Option<(u64, u64)> {
    let mut parts = body.split('.');
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    Some((number()?, number()?))
}

#[cfg(test)]
#[path = "nonce_tests.rs"]
mod tests;
