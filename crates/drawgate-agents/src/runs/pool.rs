//! Budgets. Each run has a pool; what it uses is drawn from its own and from those of all runs above it,
//! in one step, so that children together never use more than their parent may.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::model::{Prices, Usage};
use crate::profile::Budget;

/// Millionths of a US dollar in a dollar.
const MICRO: f64 = 1_000_000.0;

/// Tokens below which it makes no sense to ask a model.
const LEAST_OUTPUT: u64 = 16;

/// An amount of everything that a budget limits, but for time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Amount {
    /// Tokens, in both directions.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub micro_usd: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Runs.
    pub runs: u64,
}

impl Amount {
    /// One run.
    pub const RUN: Self = Self { tokens: 0, micro_usd: 0, tool_calls: 0, runs: 1 };

    /// Calls of tools.
    #[must_use]
    pub fn calls(count: usize) -> Self {
        Self { tool_calls: count as u64, ..Self::default() }
    }

    /// What a request to a model cost.
    #[must_use]
    pub fn of(usage: &Usage, prices: Option<&Prices>) -> Self {
        let micro_usd = prices.map_or(0, |prices| micro(prices.cost(usage)));
        Self { tokens: usage.total(), micro_usd, ..Self::default() }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            runs: self.runs.saturating_add(other.runs),
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            micro_usd: self.micro_usd.saturating_sub(other.micro_usd),
            tool_calls: self.tool_calls.saturating_sub(other.tool_calls),
            runs: self.runs.saturating_sub(other.runs),
        }
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

/// What a budget says that is used up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the budget of {what} is used up: {used} of {limit}{}", .of.as_ref().map(|run| format!(" (run `{run}`)")).unwrap_or_default())]
pub struct Exhausted {
    /// What is limited.
    pub what: &'static str,
    /// What has been used or reserved, as text.
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
}

impl Pool {
    fn used(&self) -> Amount {
        self.reserved.plus(self.spent)
    }

    /// Tokens that may still be written after so many are read, as far as this pool goes.
    fn output_left(&self, turn: &TurnEstimate<'_>) -> u64 {
        let used = self.used();
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

    fn refuses(&self, more: Amount) -> Option<(&'static str, String, String)> {
        let (used, limit) = (self.used(), &self.limit);
        let count = |what, limit: Option<u64>, used: u64, more: u64| {
            let limit = limit.filter(|limit| more > 0 && used.saturating_add(more) > *limit)?;
            Some((what, used.to_string(), limit.to_string()))
        };
        count("tokens", limit.tokens, used.tokens, more.tokens)
            .or_else(|| count("tool calls", limit.tool_calls, used.tool_calls, more.tool_calls))
            .or_else(|| count("runs", limit.runs, used.runs, more.runs))
            .or_else(|| {
                let limit = limit.cost_usd?;
                let over = used.micro_usd.saturating_add(more.micro_usd) > micro(limit);
                (over && more.micro_usd > 0)
                    .then(|| ("US dollars", format!("{:.4}", used.usd()), format!("{limit}")))
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
pub struct Pools(Mutex<HashMap<Arc<str>, Pool>>);

impl Pools {
    /// Opens the pool of a run, with what it and its children have used before.
    pub fn open(&self, run: &Arc<str>, limit: Budget, spent: Amount) {
        self.0.lock().insert(Arc::clone(run), Pool { limit, reserved: Amount::default(), spent });
    }

    /// Forgets the pool of a run.
    pub fn close(&self, run: &str) {
        self.0.lock().remove(run);
    }

    /// What a run and its children have used.
    #[must_use]
    pub fn spent(&self, run: &str) -> Amount {
        self.0.lock().get(run).map(|pool| pool.spent).unwrap_or_default()
    }

    /// Whether any of these runs has a budget in dollars.
    #[must_use]
    pub fn has_price_limit(&self, path: &[Arc<str>]) -> bool {
        let pools = self.0.lock();
        path.iter().filter_map(|run| pools.get(run)).any(|pool| pool.limit.cost_usd.is_some())
    }

    /// Reserves an amount in the pools of a run and of all above it, or in none.
    pub fn reserve(&self, path: &[Arc<str>], more: Amount) -> Result<(), Exhausted> {
        reserve(&mut self.0.lock(), path, more)
    }

    /// Reserves a request to a model, with as much output as all pools allow. Returns what was reserved,
    /// and the tokens that may be written.
    pub fn reserve_turn(
        &self,
        path: &[Arc<str>],
        turn: &TurnEstimate<'_>,
    ) -> Result<(Amount, u64), Exhausted> {
        let mut pools = self.0.lock();
        let left = path.iter().filter_map(|run| pools.get(run)).map(|pool| pool.output_left(turn));
        let output = left.min().unwrap_or(u64::MAX).min(turn.max_output);
        // Where less is left than makes sense, the reservation of a sensible amount says what is missing.
        let output = output.max(LEAST_OUTPUT.min(turn.max_output));
        let amount = turn.with_output(output);
        reserve(&mut pools, path, amount)?;
        Ok((amount, output))
    }

    /// Replaces a reservation by what was really used.
    pub fn settle(&self, path: &[Arc<str>], reserved: Amount, spent: Amount) {
        let mut pools = self.0.lock();
        for run in path {
            if let Some(pool) = pools.get_mut(run) {
                pool.reserved = pool.reserved.minus(reserved);
                pool.spent = pool.spent.plus(spent);
            }
        }
    }
}

fn reserve(
    pools: &mut HashMap<Arc<str>, Pool>,
    path: &[Arc<str>],
    more: Amount,
) -> Result<(), Exhausted> {
    for (level, run) in path.iter().enumerate() {
        if let Some((what, used, limit)) = pools.get(run).and_then(|pool| pool.refuses(more)) {
            let of = (level > 0).then(|| Arc::clone(run));
            return Err(Exhausted { what, used, limit, of });
        }
    }
    for run in path {
        if let Some(pool) = pools.get_mut(run) {
            pool.reserved = pool.reserved.plus(more);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
