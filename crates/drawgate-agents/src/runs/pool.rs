//! Budgets. Each run has a pool; what it uses is drawn from its own and from those of all runs above it,
//! in one step, so that children together never use more than their parent may.
//!
//! A request to a model reserves the most that it may use. One that finds too little because of what other
//! requests have reserved waits until those are settled; only one that would not fit alone is refused.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::model::{Prices, Usage};
use crate::profile::Budget;

/// Millionths of a US dollar in a dollar.
const MICRO: f64 = 1_000_000.0;

/// Tokens below which it makes no sense to ask a model.
const LEAST_OUTPUT: u64 = 16;

/// An amount of everything that a budget limits, but for time; and how much of it was cached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Amount {
    /// Tokens, in both directions.
    pub tokens: u64,
    /// Tokens among them that were read from a provider's cache.
    pub cached_tokens: u64,
    /// Millionths of a US dollar.
    pub micro_usd: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Runs.
    pub runs: u64,
}

impl Amount {
    /// One run.
    pub const RUN: Self =
        Self { tokens: 0, cached_tokens: 0, micro_usd: 0, tool_calls: 0, runs: 1 };

    /// Calls of tools.
    #[must_use]
    pub fn calls(count: usize) -> Self {
        Self { tool_calls: count as u64, ..Self::default() }
    }

    /// What a request to a model cost.
    #[must_use]
    pub fn of(usage: &Usage, prices: Option<&Prices>) -> Self {
        let micro_usd = prices.map_or(0, |prices| micro(prices.cost(usage)));
        let cached_tokens = usage.cache_read;
        Self { tokens: usage.total(), cached_tokens, micro_usd, ..Self::default() }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            runs: self.runs.saturating_add(other.runs),
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            cached_tokens: self.cached_tokens.saturating_sub(other.cached_tokens),
            micro_usd: self.micro_usd.saturating_sub(other.micro_usd),
            tool_calls: self.tool_calls.saturating_sub(other.tool_calls),
            runs: self.runs.saturating_sub(other.runs),
        }
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// US dollars.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display; dollars have few digits")]
    pub fn usd(&self) -> f64 {
        self.micro_usd as f64 / MICRO
    }
}

/// Rounded up, so that many small amounts are not nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and prices are not negative"
)]
fn micro(usd: f64) -> u64 {
    (usd * MICRO).ceil() as u64
}

/// A budget that has too little left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the budget of {what} has no room for {more} more: {used} of {limit} are used{}", .of.as_ref().map(|run| format!(" (the budget of run `{run}`)")).unwrap_or_default())]
pub struct Exhausted {
    /// What is limited.
    pub what: &'static str,
    /// What was asked for, as text.
    pub more: String,
    /// What has been used, as text.
    pub used: String,
    /// The limit, as text.
    pub limit: String,
    /// The run above that the budget belongs to, unless it is the run's own.
    pub of: Option<Arc<str>>,
}

/// What a request to a model may use.
#[derive(Debug, Clone, Copy)]
pub struct TurnEstimate<'a> {
    /// Tokens that will be read.
    pub input: u64,
    /// Tokens that may be written, if the budget allows.
    pub max_output: u64,
    /// The model's prices.
    pub prices: Option<&'a Prices>,
}

impl TurnEstimate<'_> {
    fn with_output(&self, output: u64) -> Amount {
        let micro_usd =
            self.prices.map_or(0, |prices| micro(prices.worst_cost(self.input, output)));
        Amount { tokens: self.input.saturating_add(output), micro_usd, ..Amount::default() }
    }
}

#[derive(Debug, Clone, Default)]
struct Pool {
    limit: Budget,
    reserved: Amount,
    spent: Amount,
    /// Requests to models wait here in the order of their arrival; that of the root counts for its tree.
    queue: Arc<tokio::sync::Mutex<()>>,
}

impl Pool {
    fn used(&self) -> Amount {
        self.reserved.plus(self.spent)
    }

    /// Tokens that may still be written after so many are read, as far as this pool goes and if so much
    /// is used.
    fn output_left(&self, turn: &TurnEstimate<'_>, used: Amount) -> u64 {
        let tokens = self
            .limit
            .tokens
            .map_or(u64::MAX, |limit| limit.saturating_sub(used.tokens).saturating_sub(turn.input));
        let (Some(limit), Some(prices)) = (self.limit.cost_usd, turn.prices) else {
            return tokens;
        };
        let left = micro(limit).saturating_sub(used.micro_usd);
        let left = left.saturating_sub(turn.with_output(0).micro_usd);
        tokens.min(affordable(left, prices.output))
    }

    /// What has no room in this pool if so much is used.
    fn refuses(&self, more: Amount, used: Amount) -> Option<Exhausted> {
        let limit = &self.limit;
        let count = |what, limit: Option<u64>, used: u64, more: u64| {
            let limit = limit.filter(|limit| more > 0 && used.saturating_add(more) > *limit)?;
            let (more, used, limit) = (more.to_string(), used.to_string(), limit.to_string());
            Some(Exhausted { what, more, used, limit, of: None })
        };
        count("tokens", limit.tokens, used.tokens, more.tokens)
            .or_else(|| count("tool calls", limit.tool_calls, used.tool_calls, more.tool_calls))
            .or_else(|| count("runs", limit.runs, used.runs, more.runs))
            .or_else(|| {
                let limit = limit.cost_usd?;
                let over = used.micro_usd.saturating_add(more.micro_usd) > micro(limit);
                (over && more.micro_usd > 0).then(|| Exhausted {
                    what: "US dollars",
                    more: format!("{:.4}", more.usd()),
                    used: format!("{:.4}", used.usd()),
                    limit: limit.to_string(),
                    of: None,
                })
            })
    }
}

/// Tokens that an amount pays for.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the cast saturates, and rounding down errs on the side of the budget"
)]
fn affordable(micro_usd: u64, price: f64) -> u64 {
    if price <= 0.0 { u64::MAX } else { (micro_usd as f64 / price).floor() as u64 }
}

/// The pools of all runs whose tree is at work.
#[derive(Debug, Default)]
pub struct Pools {
    pools: Mutex<HashMap<Arc<str>, Pool>>,
    /// Told when a reservation is settled.
    settled: Notify,
}

/// What is reserved for a request to a model. It is given back when this is dropped, unless the request
/// has become a step, by which it is settled.
#[derive(Debug)]
pub struct Reservation<'a> {
    pools: &'a Pools,
    path: &'a [Arc<str>],
    /// What is reserved.
    pub amount: Amount,
    /// The tokens that may be written.
    pub output: u64,
}

impl Reservation<'_> {
    /// A step has the reservation from now on.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.pools.settle(self.path, self.amount, Amount::default());
    }
}

impl Pools {
    /// Opens the pool of a run, with what it and its children have used before.
    pub fn open(&self, run: &Arc<str>, limit: Budget, spent: Amount) {
        self.pools.lock().insert(Arc::clone(run), Pool { limit, spent, ..Pool::default() });
    }

    /// Forgets the pool of a run.
    pub fn close(&self, run: &str) {
        self.pools.lock().remove(run);
    }

    /// What a run and its children have used.
    #[must_use]
    pub fn spent(&self, run: &str) -> Amount {
        self.pools.lock().get(run).map(|pool| pool.spent).unwrap_or_default()
    }

    /// Whether any of these runs has a budget in dollars.
    #[must_use]
    pub fn has_price_limit(&self, path: &[Arc<str>]) -> bool {
        let pools = self.pools.lock();
        path.iter().filter_map(|run| pools.get(run)).any(|pool| pool.limit.cost_usd.is_some())
    }

    /// Reserves an amount in the pools of a run and of all above it, or in none.
    pub fn reserve(&self, path: &[Arc<str>], more: Amount) -> Result<(), Exhausted> {
        let mut pools = self.pools.lock();
        refused(&pools, path, more, Pool::used)?;
        add(&mut pools, path, more);
        Ok(())
    }

    /// Reserves a request to a model, with as much output as all pools allow. Where other requests have
    /// reserved what this one could use, it waits until they are settled.
    pub async fn reserve_turn<'a>(
        &'a self,
        path: &'a [Arc<str>],
        turn: &TurnEstimate<'_>,
    ) -> Result<Reservation<'a>, Exhausted> {
        let queue = path.last().and_then(|root| self.queue(root)).unwrap_or_default();
        // One after the other, so that small requests don't overtake a large one for ever.
        let _turn = queue.lock().await;
        loop {
            let settled = self.settled.notified();
            if let Some((amount, output)) = self.try_turn(path, turn)? {
                return Ok(Reservation { pools: self, path, amount, output });
            }
            settled.await;
        }
    }

    /// Replaces a reservation by what was really used.
    pub fn settle(&self, path: &[Arc<str>], reserved: Amount, spent: Amount) {
        let mut pools = self.pools.lock();
        for run in path {
            if let Some(pool) = pools.get_mut(run) {
                pool.reserved = pool.reserved.minus(reserved);
                pool.spent = pool.spent.plus(spent);
            }
        }
        drop(pools);
        self.settled.notify_waiters();
    }

    fn queue(&self, root: &str) -> Option<Arc<tokio::sync::Mutex<()>>> {
        self.pools.lock().get(root).map(|pool| Arc::clone(&pool.queue))
    }

    /// Reserves a request to a model; `None` if more output could be had once others are settled.
    fn try_turn(
        &self,
        path: &[Arc<str>],
        turn: &TurnEstimate<'_>,
    ) -> Result<Option<(Amount, u64)>, Exhausted> {
        let mut pools = self.pools.lock();
        let least = LEAST_OUTPUT.min(turn.max_output);
        refused(&pools, path, turn.with_output(least), |pool| pool.spent)?;
        let own = || path.iter().filter_map(|run| pools.get(run));
        let now = own().map(|pool| pool.output_left(turn, pool.used())).min();
        let alone = own().map(|pool| pool.output_left(turn, pool.spent)).min();
        let [now, alone] =
            [now, alone].map(|left| left.map_or(turn.max_output, |left| left.min(turn.max_output)));
        if now < alone {
            return Ok(None);
        }
        let amount = turn.with_output(now);
        add(&mut pools, path, amount);
        Ok(Some((amount, now)))
    }
}

/// Refuses what has no room in one of these pools, by what counts as used there.
fn refused(
    pools: &HashMap<Arc<str>, Pool>,
    path: &[Arc<str>],
    more: Amount,
    used: impl Fn(&Pool) -> Amount,
) -> Result<(), Exhausted> {
    for (level, run) in path.iter().enumerate() {
        let refusal = pools.get(run).and_then(|pool| pool.refuses(more, used(pool)));
        if let Some(refusal) = refusal {
            let of = (level > 0).then(|| Arc::clone(run));
            return Err(Exhausted { of, ..refusal });
        }
    }
    Ok(())
}

fn add(pools: &mut HashMap<Arc<str>, Pool>, path: &[Arc<str>], more: Amount) {
    for run in path {
        if let Some(pool) = pools.get_mut(run) {
            pool.reserved = pool.reserved.plus(more);
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
