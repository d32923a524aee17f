use super::*;

fn path(runs: &[&str]) -> Vec<Arc<str>> {
    runs.iter().map(|run| Arc::from(*run)).collect()
}

fn tokens(limit: u64) -> Budget {
    Budget { tokens: Some(limit), ..Budget::default() }
}

const PLAIN: TurnEstimate<'_> = TurnEstimate { input: 100, max_output: 1_000, prices: None };

#[test]
fn output_is_clamped_to_what_the_scarcest_pool_above_has_left() {
    let pools = Pools::default();
    let chain = path(&["child", "root"]);
    pools.open(&chain[0], tokens(100_000), Amount::default());
    pools.open(&chain[1], tokens(1_500), Amount::default());
    let (first, output) = pools.reserve_turn(&chain, &PLAIN).unwrap();
    assert_eq!((first.tokens, output), (1_100, 1_000));
    let (second, output) = pools.reserve_turn(&chain, &PLAIN).unwrap();
    assert_eq!((second.tokens, output), (400, 300));
    let error = pools.reserve_turn(&chain, &PLAIN).unwrap_err();
    let message = "the budget of tokens is used up: 1500 of 1500 (run `root`)";
    assert_eq!(error.to_string(), message);
}

#[test]
fn what_was_reserved_and_not_used_can_be_used_again() {
    let pools = Pools::default();
    let chain = path(&["root"]);
    pools.open(&chain[0], tokens(1_200), Amount::default());
    let (reserved, _) = pools.reserve_turn(&chain, &PLAIN).unwrap();
    pools.settle(&chain, reserved, Amount { tokens: 150, ..Amount::default() });
    assert_eq!(pools.spent("root").tokens, 150);
    let (_, output) = pools.reserve_turn(&chain, &PLAIN).unwrap();
    assert_eq!(output, 950);
}

#[test]
fn nothing_is_reserved_anywhere_where_one_pool_refuses() {
    let pools = Pools::default();
    let chain = path(&["child", "root"]);
    let calls = |limit| Budget { tool_calls: Some(limit), ..Budget::default() };
    pools.open(&chain[0], calls(5), Amount::default());
    pools.open(&chain[1], calls(2), Amount::default());
    pools.reserve(&chain, Amount::calls(3)).unwrap_err();
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
    let (reserved, output) = pools.reserve_turn(&chain, &turn).unwrap();
    assert_eq!(output, 466);
    assert!(reserved.micro_usd <= 10_000, "{reserved:?}");
    let error = pools.reserve_turn(&chain, &turn).unwrap_err();
    assert_eq!(error.what, "US dollars");
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
