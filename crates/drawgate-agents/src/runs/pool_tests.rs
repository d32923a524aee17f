use futures_util::FutureExt as _;

use super::*;

fn path(runs: &[&str]) -> Vec<Arc<str>> {
    runs.iter().map(|run| Arc::from(*run)).collect()
}

fn tokens(limit: u64) -> Budget {
    Budget { tokens: Some(limit), ..Budget::default() }
}

const PLAIN: TurnEstimate<'_> = TurnEstimate { input: 100, max_output: 1_000, prices: None };

/// Reserves a request that need not wait; what is reserved stays so.
fn granted(pools: &Pools, chain: &[Arc<str>], turn: &TurnEstimate<'_>) -> (Amount, u64) {
    let reserved = pools.reserve_turn(chain, turn).now_or_never().unwrap().unwrap();
    let granted = (reserved.amount, reserved.output);
    reserved.keep();
    granted
}

fn used(tokens: u64) -> Amount {
    Amount { tokens, ..Amount::default() }
}

#[test]
fn output_is_clamped_to_what_the_scarcest_pool_above_has_left() {
    let pools = Pools::default();
    let chain = path(&["child", "root"]);
    pools.open(&chain[0], tokens(100_000), Amount::default());
    pools.open(&chain[1], tokens(1_500), Amount::default());
    let (first, output) = granted(&pools, &chain, &PLAIN);
    assert_eq!((first.tokens, output), (1_100, 1_000));
    pools.settle(&chain, first, first);
    let (second, output) = granted(&pools, &chain, &PLAIN);
    assert_eq!((second.tokens, output), (400, 300));
    pools.settle(&chain, second, used(390));
    let error = pools.reserve_turn(&chain, &PLAIN).now_or_never().unwrap().unwrap_err();
    let message = "the budget of tokens has no room for 116 more: 1490 of 1500 are used \
        (the budget of run `root`)";
    assert_eq!(error.to_string(), message);
}

#[tokio::test]
async fn a_request_waits_for_reservations_of_others_and_only_what_fits_nowhere_is_refused() {
    let pools = Pools::default();
    let [one, other, small] = ["one", "other", "small"].map(|child| path(&[child, "root"]));
    pools.open(&one[1], tokens(1_500), Amount::default());
    let (first, _) = granted(&pools, &one, &PLAIN);
    // 400 tokens are left, and there may be more.
    let mut waiting = std::pin::pin!(pools.reserve_turn(&other, &PLAIN));
    assert!(waiting.as_mut().now_or_never().is_none());
    // It would fit, but does not overtake.
    let tiny = TurnEstimate { input: 10, max_output: 20, prices: None };
    let mut behind = std::pin::pin!(pools.reserve_turn(&small, &tiny));
    assert!(behind.as_mut().now_or_never().is_none());
    pools.settle(&one, first, used(150));
    let reserved = waiting.await.unwrap();
    assert_eq!(reserved.output, 1_000);
    let behind = behind.await.unwrap();
    assert_eq!(behind.output, 20);
    // What is dropped without a step is given back.
    drop((reserved, behind));
    assert_eq!(granted(&pools, &one, &PLAIN).1, 1_000);
    // More than the budget has, whatever the others leave.
    let large = TurnEstimate { input: 2_000, ..PLAIN };
    pools.reserve_turn(&other, &large).now_or_never().unwrap().unwrap_err();
}

#[test]
fn what_was_reserved_and_not_used_can_be_used_again() {
    let pools = Pools::default();
    let chain = path(&["root"]);
    pools.open(&chain[0], tokens(1_200), Amount::default());
    let (reserved, _) = granted(&pools, &chain, &PLAIN);
    pools.settle(&chain, reserved, used(150));
    assert_eq!(pools.spent("root").tokens, 150);
    let (_, output) = granted(&pools, &chain, &PLAIN);
    assert_eq!(output, 950);
}

#[test]
fn nothing_is_reserved_anywhere_where_one_pool_refuses() {
    let pools = Pools::default();
    let chain = path(&["child", "root"]);
    let calls = |limit| Budget { tool_calls: Some(limit), ..Budget::default() };
    pools.open(&chain[0], calls(5), Amount::default());
    pools.open(&chain[1], calls(2), Amount::default());
    let error = pools.reserve(&chain, Amount::calls(3)).unwrap_err();
    let message = "the budget of tool calls has no room for 3 more: 0 of 2 are used \
        (the budget of run `root`)";
    assert_eq!(error.to_string(), message);
    pools.reserve(&chain[..1], Amount::calls(5)).unwrap();
    pools.reserve(&chain[..1], Amount::calls(1)).unwrap_err();
}

#[test]
fn dollars_are_kept_by_price() {
    let prices = Prices { input: 3.0, output: 15.0, cache_read: None, cache_write: None };
    let pools = Pools::default();
    let chain = path(&["root"]);
    let budget = Budget { cost_usd: Some(0.01), ..Budget::default() };
    pools.open(&chain[0], budget, Amount::default());
    let turn = TurnEstimate { input: 1_000, max_output: 10_000, prices: Some(&prices) };
    // 1,000 tokens in cost 0.003; the other 0.007 pay for 466 out.
    let (reserved, output) = granted(&pools, &chain, &turn);
    assert_eq!(output, 466);
    assert!(reserved.micro_usd <= 10_000, "{reserved:?}");
    pools.settle(&chain, reserved, reserved);
    let error = pools.reserve_turn(&chain, &turn).now_or_never().unwrap().unwrap_err();
    let message = "the budget of US dollars has no room for 0.0032 more: 0.0100 of 0.01 are used";
    assert_eq!(error.to_string(), message);
}

#[test]
fn runs_are_counted_over_the_whole_tree() {
    let pools = Pools::default();
    let chain = path(&["child", "root"]);
    let budget = Budget { runs: Some(3), ..Budget::default() };
    pools.open(&chain[1], budget, Amount::RUN);
    pools.open(&chain[0], Budget::default(), Amount::default());
    for expected in [true, true, false] {
        assert_eq!(pools.reserve(&chain, Amount::RUN).is_ok(), expected);
    }
}
