//! How runs end that do not go well: each clearly, with the last text kept.

use std::time::Duration;

use drawgate_agents::runs::Ending;
use drawgate_agents::runs::record::{ModelOutcome, Step, StepBody};
use drawgate_agents::testing::fake_models::{Answer, Rule};
use drawgate_core::model::ToolOutput;
use drawgate_core::policy::ApprovalState;
use drawgate_core::testing::{FakeSource, TestGate, TestStore, tool};
use serde_json::json;

use super::support::{APIS, Bench, limits, profile};

/// A source with a tool that echoes, and one that always fails.
fn source() -> std::sync::Arc<FakeSource> {
    let tools = ["echo", "fail", "long"].map(|name| tool(name, &json!(null))).to_vec();
    FakeSource::new("t", tools, |name, arguments| match name {
        "echo" => Ok(ToolOutput::text(
            arguments
                .get("text")
                .map_or_else(String::new, |text| text.as_str().unwrap_or_default().to_owned()),
        )),
        "long" => Ok(ToolOutput::text("word ".repeat(2_000))),
        _ => Ok(ToolOutput::failure("no luck")),
    })
}

async fn bench(more: &str, rules: Vec<Rule>) -> Bench {
    let bench = Bench::new(&[&profile("a", more)], rules).await;
    bench.gate.register(source()).await.unwrap();
    bench
}

/// A run that does not go well, by what its model says.
struct Case {
    name: &'static str,
    /// More lines of the profile.
    more: &'static str,
    rules: Vec<Rule>,
    ending: Ending,
    /// A part of the reason.
    reason: &'static str,
}

fn case(name: &'static str, rules: Vec<Rule>, ending: Ending, reason: &'static str) -> Case {
    Case { name, more: "", rules, ending, reason }
}

/// Providers that do not answer as they should.
fn providers() -> Vec<Case> {
    let status = |code, message: &str| {
        let error = json!({ "error": { "message": message, "status": "X" } });
        vec![Rule::status(code, &[("retry-after", "0")], error)]
    };
    let quota = json!({ "error": { "type": "insufficient_quota", "code": "insufficient_quota", "message": "pay" } });
    let garbage = Answer::Raw(vec!["data: {\"nonsense\n\n".to_owned()]);
    vec![
        case("a key that is wrong", status(401, "no"), Ending::Failed, "401"),
        case("a request that is wrong", status(400, "bad tools"), Ending::Failed, "bad tools"),
        case("too many requests", status(429, "slow down"), Ending::Failed, "slow down"),
        case("a provider that is down", status(503, "busy"), Ending::Failed, "busy"),
        case("no money", vec![Rule::status(429, &[], quota)], Ending::Failed, "pay"),
        case("too long", status(413, "too large"), Ending::Context, "too large"),
        case("garbage", vec![Rule::new(garbage)], Ending::Failed, ""),
    ]
}

/// Models that get nowhere.
fn models() -> Vec<Case> {
    let echo = |turn| Rule::calls([("t__echo", json!({ "text": turn }))]).at_turn(turn);
    let forever = |tool| vec![Rule::calls([(tool, json!({}))])];
    let turns = vec![echo(0), echo(1), echo(2), Rule::text("done")];
    let calls = vec![echo(0), echo(1), Rule::text("done")];
    vec![
        Case { more: "max_turns: 3", ..case("many turns", turns, Ending::Stuck, "3 times") },
        case("the same in vain", forever("t__fail"), Ending::Stuck, "t__fail"),
        case("no such tool", forever("nosuch"), Ending::Stuck, "nosuch"),
        Case {
            more: "budget: {tokens: 20}",
            ..case("no tokens", vec![Rule::text("hello")], Ending::Budget, "tokens")
        },
        Case {
            more: "budget: {tool_calls: 1}",
            ..case("no calls", calls, Ending::Budget, "tool calls")
        },
    ]
}

#[tokio::test]
async fn endings_name_their_reason_whoever_the_provider_is() {
    for (_, provider) in APIS {
        for Case { name, more, rules, ending, reason } in providers().into_iter().chain(models()) {
            let bench = bench(&format!("model: {provider}/fake\n{more}"), rules).await;
            let (_, end) = bench.run("a", "go").await;
            assert_eq!(end.ending, ending, "{provider}, {name}: {end:?}");
            let said = end.reason.unwrap_or_default();
            assert!(said.contains(reason), "{provider}, {name}: {said}");
        }
    }
}

#[tokio::test]
async fn a_provider_that_is_busy_is_asked_again() {
    let busy =
        Rule::status(529, &[("retry-after", "0")], json!({ "error": { "message": "busy" } }));
    // The fake server answers by what it reads, so that a model name makes the difference.
    let rules = vec![busy.for_model("busy"), Rule::text("done")];
    let bench = bench("model: anthropic/busy", rules).await;
    let id = bench.start("a", "go").await.unwrap();
    let end = bench.end_of(&id).await;
    assert_eq!(end.ending, Ending::Failed);
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    let failed = |step: &&Step| {
        matches!(&step.body, StepBody::Model { outcome: Some(ModelOutcome::Failed { .. }), .. })
    };
    assert_eq!(shown.steps.iter().filter(failed).count(), 5, "{:?}", shown.steps);
    assert_eq!(shown.run.used.tokens, 0, "nothing was begun, so nothing is spent");
}

#[tokio::test]
async fn a_stream_that_breaks_is_asked_again_once_and_counts_as_spent() {
    let event = |name: &str, data: serde_json::Value| format!("event: {name}\ndata: {data}\n\n");
    let usage = json!({ "input_tokens": 25, "output_tokens": 1 });
    let pieces = vec![
        event("message_start", json!({ "type": "message_start", "message": { "usage": usage } })),
        event(
            "content_block_start",
            json!({
                "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" },
            }),
        ),
        event(
            "content_block_delta",
            json!({
                "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Hel" },
            }),
        ),
    ];
    let rules = vec![Rule::new(Answer::Raw(pieces))];
    let bench = bench("", rules).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Failed, "{end:?}");
    assert_eq!(bench.fake.requests().len(), 2);
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    assert!(shown.run.used.tokens > 0, "what may have been served counts: {shown:?}");
}

#[tokio::test]
async fn errors_of_calls_go_back_to_the_model() {
    let calls =
        [("t__echo", json!({ "text": "one" })), ("t__fail", json!({})), ("nosuch", json!({}))];
    let rules = vec![Rule::calls(calls).at_turn(0), Rule::text("done").after_results(3)];
    let bench = bench("", rules).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!((end.ending, end.text.as_str()), (Ending::Done, "done"));
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    let texts: Vec<String> = shown
        .steps
        .iter()
        .filter_map(|step| match &step.body {
            StepBody::Call { outcome: Some(outcome), .. } => Some(outcome.text.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(texts[0], "one");
    assert!(texts[1].starts_with("EXECUTION_FAILED") && texts[1].contains("no luck"), "{texts:?}");
    assert!(texts[2].starts_with("RESOURCE_NOT_FOUND"), "{texts:?}");
}

#[tokio::test]
async fn an_approval_stops_the_clock_and_the_call_goes_on() {
    let rules = vec![
        Rule::calls([("t__echo", json!({ "text": "approved" }))]).at_turn(0),
        Rule::text("done").after_results(1),
    ];
    let bench = bench("budget: {seconds: 2}", rules).await;
    // The run follows the approval itself, from the moment at which the person is asked.
    bench.gate.hold(Duration::from_hours(1));
    bench.gate.policy(json!({
        "version": "1.0",
        "defaults": { "fallback": "allow" },
        "rules": [{ "id": "ask", "action": "*", "decision": "allow_with_confirm" }],
    }));
    let id = bench.start("a", "go").await.unwrap();
    bench.phase_of(&id, "asking").await;
    let approvals = bench.gate.gateway.approvals();
    let approval = approvals.iter().find(|one| one.state == ApprovalState::Pending).unwrap();
    bench.gate.decide(&approval.id, ApprovalState::Approved).await;
    let end = bench.end_of(&id).await;
    assert_eq!((end.ending, end.text.as_str()), (Ending::Done, "done"), "{end:?}");
}

/// The marks of what was taken out of a conversation.
fn relieved(steps: &[Step]) -> Vec<&'static str> {
    let mark = |step: &Step| match &step.body {
        StepBody::Trimmed { .. } => Some("trimmed"),
        StepBody::Summary { .. } => Some("summary"),
        _ => None,
    };
    steps.iter().filter_map(mark).collect()
}

async fn small_context(rules: Vec<Rule>) -> Bench {
    let gate = TestGate::with(TestStore::default()).await;
    gate.grant("local", "*", None).await;
    let profile = profile("a", "max_turns: 20");
    let bench = Bench::on(gate, &[&profile], rules, limits(12_000, 500)).await;
    bench.gate.register(source()).await.unwrap();
    bench
}

#[tokio::test]
async fn old_results_are_left_out_of_a_long_conversation() {
    let mut rules: Vec<Rule> =
        (0..8).map(|turn| Rule::calls([("t__long", json!({}))]).at_turn(turn)).collect();
    rules.push(Rule::text("done"));
    let bench = small_context(rules).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!((end.ending, end.text.as_str()), (Ending::Done, "done"), "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    let marks = relieved(&shown.steps);
    assert!(marks.len() > 1 && marks.iter().all(|mark| *mark == "trimmed"), "{marks:?}");
}

#[tokio::test]
async fn a_summary_takes_the_place_of_a_conversation_that_can_not_be_trimmed() {
    let long = "word ".repeat(2_000);
    let call = |turn: usize| Rule::calls([("t__echo", json!({ "text": long }))]).at_turn(turn);
    let mut rules = vec![
        Rule::text("echoed a lot").containing("Summarise the work so far"),
        Rule::text("done").containing("Summary of the work so far:\n\nechoed a lot"),
    ];
    rules.extend((0..6).map(call));
    let bench = small_context(rules).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!((end.ending, end.text.as_str()), (Ending::Done, "done"), "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    assert_eq!(relieved(&shown.steps), ["summary"]);
}

#[tokio::test]
async fn a_provider_that_finds_the_conversation_too_long_ends_the_run_when_nothing_can_go() {
    let error = json!({ "error": { "type": "invalid_request_error", "message": "prompt is too long: 300000 tokens" } });
    let bench = bench("", vec![Rule::status(400, &[], error)]).await;
    let (_, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Context, "{end:?}");
}

#[tokio::test]
async fn a_result_that_is_too_long_shows_both_ends_and_can_be_read_whole() {
    let text = format!("BEGIN{}END", "x".repeat(100_000));
    let rules =
        vec![Rule::calls([("t__echo", json!({ "text": text }))]).at_turn(0), Rule::text("done")];
    let bench = bench("", rules).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Done, "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    let result = shown.steps.iter().find_map(|step| match &step.body {
        StepBody::Call { outcome, .. } => outcome.clone(),
        _ => None,
    });
    let result = result.unwrap().text;
    assert!(result.starts_with("BEGIN") && result.ends_with("END") && result.len() < 50_000);
    assert!(result.contains("drawgate://artifacts/"), "the whole is an artifact");
}

#[tokio::test]
async fn a_cancelled_run_ends_with_everything_below_it() {
    let rules = vec![
        Rule::new(Answer::Hang).containing("child"),
        Rule::calls([("spawn_agent", json!({ "prompt": "child" }))]),
    ];
    let bench = bench("", rules).await;
    let id = bench.start("a", "go").await.unwrap();
    let child = bench.child_of(&id).await;
    assert!(bench.runs.cancel(&id, "the test says so"));
    assert_eq!(bench.end_of(&id).await.ending, Ending::Cancelled);
    assert_eq!(bench.end_of(&child).await.ending, Ending::Cancelled);
    assert!(!bench.runs.cancel(&id, "the test says so"), "it is over");
}

#[tokio::test]
async fn an_answer_of_the_wrong_form_is_corrected_twice_and_then_given_up() {
    let custom = "tools:\n  - name: pick\n    description: Picks\n    parameters: {}\n    \
        result_schema: {type: object, properties: {n: {type: integer}}, required: [n]}\n    prompt: Pick.\n    public: true";
    let wrong = vec![Rule::text("seven")];
    let bench = Bench::new(&[&profile("a", custom)], wrong).await;
    let result = bench.gate.call("local", "pick", json!({})).await;
    assert_eq!(result.error.unwrap().code.as_str(), "VALIDATION_ERROR");
    assert_eq!(bench.fake.requests().len(), 3, "it was told twice");
    let right = vec![
        Rule::text("seven").at_turn(0),
        Rule::calls([("return_result", json!({ "n": "x" }))]).at_turn(1),
        Rule::text("```json\n{\"n\": 7}\n```"),
    ];
    let bench = Bench::new(&[&profile("a", custom)], right).await;
    let result = bench.gate.call("local", "pick", json!({})).await;
    assert_eq!(result.structured_content, Some(json!({ "n": 7 })), "{result:?}");
}
