//! What servers offer beside tools, and what they ask of callers, over a duplex transport.

use std::sync::Arc;

use drawgate_core::model::{
    Caller, Client, ErrorCode, InputGiven, Operation, ToolInvocation, ToolResult,
};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::{ProgressSink, SourceEvent, ToolSource};
use drawgate_core::testing::{TestGate, caller};
use drawgate_sources::mcp::McpSource;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::support::{PATIENCE, code, fixture, gate, invocation, mcp, text};

pub(crate) fn features(mode: &str) -> Arc<McpSource> {
    mcp(json!({ "command": "python3", "args": [fixture("mcp_features.py"), mode] }))
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("not an object: {value}") };
    map
}

/// A client that can answer.
pub(crate) fn client(capabilities: Value) -> CallOptions {
    let client = Client { capabilities: object(capabilities), ..Client::default() };
    CallOptions { client: Arc::new(client), ..CallOptions::default() }
}

pub(crate) fn can_elicit() -> CallOptions {
    client(json!({ "elicitation": {} }))
}

pub(crate) async fn call_as(
    gate: &TestGate,
    who: &Caller,
    call: ToolInvocation,
    options: CallOptions,
) -> ToolResult {
    tokio::time::timeout(PATIENCE, gate.gateway.call(who, call, options)).await.expect("it ends")
}

pub(crate) async fn say(gate: &TestGate, message: &str, options: CallOptions) -> ToolResult {
    call_as(gate, &caller("ann"), invocation(message, None), options).await
}

/// The same call with answers.
pub(crate) fn answered(message: &str, question: &ToolResult, responses: Value) -> ToolInvocation {
    let state = question.input_required.as_ref().expect("a question").state.clone();
    let input = InputGiven { responses: object(responses), state };
    ToolInvocation { input: Some(input), ..invocation(message, None) }
}

pub(crate) fn questions(result: &ToolResult) -> Value {
    let required = result.input_required.as_ref();
    Value::Object(required.unwrap_or_else(|| panic!("no question: {result:?}")).requests.clone())
}

pub(crate) async fn ask(gate: &TestGate, operation: Operation, arguments: Value) -> ToolResult {
    let call = ToolInvocation {
        tool_id: "up".to_owned(),
        operation,
        arguments: object(arguments),
        ..ToolInvocation::default()
    };
    call_as(gate, &caller("ann"), call, can_elicit()).await
}

pub(crate) fn said(result: &ToolResult) -> Value {
    serde_json::from_str(text(result)).unwrap_or_else(|_| panic!("no answer: {result:?}"))
}

#[derive(Default)]
pub(crate) struct Log(pub(crate) Mutex<Vec<Value>>);

impl ProgressSink for Log {
    fn report(&self, _: Map<String, Value>) {}

    fn log(&self, message: Map<String, Value>) {
        self.0.lock().push(Value::Object(message));
    }
}

const MODES: [&str; 2] = ["sessions", "stateless"];

#[tokio::test]
async fn everything_is_listed_page_by_page() {
    for mode in MODES {
        let source = features(mode);
        let manifest = source.manifest().await.unwrap();
        let offer = manifest.offer;
        let uris: Vec<&Value> = offer.resources.iter().map(|item| &item["uri"]).collect();
        assert_eq!(uris, ["mem://a", "mem://b"], "{mode}");
        assert_eq!(offer.resources[1]["size"], 3, "definitions stay as they are");
        assert_eq!(offer.templates[0]["uriTemplate"], "mem://{x}");
        assert_eq!(offer.prompts[0]["name"], "greet");
        let mut operations = Operation::BESIDE_TOOLS.to_vec();
        operations.retain(|operation| mode == "sessions" || *operation != Operation::SetLogLevel);
        assert_eq!(offer.operations.into_keys().collect::<Vec<_>>(), operations, "{mode}");
        let left_out = source.report().left_out;
        assert_eq!(left_out.len(), 1, "{left_out:?}");
        assert_eq!(left_out[0].tool, "resources/list");
        source.close().await;
    }
}

#[tokio::test]
async fn a_list_that_fails_leaves_the_others() {
    let source = features("bad_lists");
    let manifest = source.manifest().await.unwrap();
    assert_eq!((manifest.tools.len(), manifest.offer.prompts.len()), (1, 1));
    assert_eq!(manifest.offer.resources, Vec::<Value>::new());
    assert_eq!(source.report().left_out[0].reason, "the disk is full");
    source.close().await;
}

#[tokio::test]
async fn a_server_is_asked_only_for_what_it_declares() {
    let source = features("tools_only");
    let manifest = source.manifest().await.unwrap();
    assert_eq!(manifest.tools.len(), 1);
    assert_eq!(manifest.offer, drawgate_core::model::Offer::default());
    let gate = gate(&source).await;
    assert_eq!(said(&say(&gate, "x", CallOptions::default()).await), "x");
    assert_eq!(source.report().stderr_tail, Vec::<String>::new());
    source.close().await;
}

#[tokio::test]
async fn resources_prompts_and_completions_are_passed_on() {
    for mode in MODES {
        let source = features(mode);
        let gate = gate(&source).await;
        let read = ask(&gate, Operation::ReadResource, json!({ "uri": "mem://a" })).await;
        assert_eq!(
            Value::Object(read.rest),
            json!({ "contents": [{ "uri": "mem://a", "text": "hello" }], "ttlMs": 5, "cacheScope": "private" }),
            "{mode}"
        );
        let arguments = json!({ "name": "greet", "arguments": { "who": "ann" } });
        let prompt = ask(&gate, Operation::GetPrompt, arguments).await;
        assert_eq!(prompt.rest["messages"][0]["content"]["text"], "hello ann");
        let arguments = json!({
            "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "who", "value": "a" },
        });
        let completed = ask(&gate, Operation::Complete, arguments).await;
        assert_eq!(completed.rest["completion"]["values"], json!(["ann"]));
        let missing = ask(&gate, Operation::ReadResource, json!({ "uri": "mem://none" })).await;
        let details = missing.error.unwrap().details.unwrap();
        assert_eq!(details["data"]["uri"], "mem://none");
        source.close().await;
    }
}

#[tokio::test]
async fn a_level_for_the_log_reaches_the_server() {
    let source = features("sessions");
    let gate = gate(&source).await;
    assert!(ask(&gate, Operation::SetLogLevel, json!({ "level": "debug" })).await.success);
    assert_eq!(said(&say(&gate, "level", CallOptions::default()).await), "debug");
    source.close().await;
}

#[tokio::test]
async fn updates_of_a_watched_resource_are_told() {
    for mode in MODES {
        let source = features(mode);
        let gate = gate(&source).await;
        let mut events = source.events().unwrap();
        let uri = json!({ "uri": "mem://a" });
        assert!(ask(&gate, Operation::Subscribe, uri.clone()).await.success, "{mode}");
        say(&gate, "touch", CallOptions::default()).await;
        let event = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
        assert_eq!(event, SourceEvent::ResourceUpdated { uri: "mem://a".to_owned() }, "{mode}");
        assert!(ask(&gate, Operation::Unsubscribe, uri).await.success);
        let mut left = json!(["not asked yet"]);
        // In the era without sessions the server hears of it by another listening request.
        while left != json!([]) {
            left = said(&say(&gate, "subscribed", CallOptions::default()).await);
        }
        source.close().await;
    }
}

#[tokio::test]
async fn announced_prompts_are_asked_for_again() {
    for mode in MODES {
        let source = features(mode);
        let gate = gate(&source).await;
        let mut changes = source.changes().unwrap();
        say(&gate, "more", CallOptions::default()).await;
        tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
        assert_eq!(source.manifest().await.unwrap().offer.prompts.len(), 2, "{mode}");
        source.close().await;
    }
}

/// The fixture server, which may also send people to pages.
fn with_pages(mode: &str) -> Arc<McpSource> {
    let kinds = json!(["elicitation", "elicitation_url", "roots"]);
    let args = [fixture("mcp_features.py"), mode.to_owned()];
    mcp(json!({ "command": "python3", "args": args, "client_requests": kinds }))
}

#[tokio::test]
async fn pages_are_opened_only_where_the_operator_allows_it() {
    let able = || client(json!({ "elicitation": { "form": {}, "url": {} } }));
    let source = features("sessions");
    let gate_without = gate(&source).await;
    let refused = said(&say(&gate_without, "url", able()).await);
    assert_eq!(refused["error"]["code"], -32602);
    source.close().await;
    let source = with_pages("sessions");
    let gate = gate(&source).await;
    let declared = said(&say(&gate, "capabilities", CallOptions::default()).await);
    assert_eq!(declared["elicitation"], json!({ "form": {}, "url": {} }));
    assert_eq!(questions(&say(&gate, "url", able()).await)["q1"]["params"]["mode"], "url");
    source.close().await;
}

#[tokio::test]
async fn a_question_waits_for_its_answer() {
    let source = with_pages("sessions");
    let gate = gate(&source).await;
    for (message, method, options) in [
        ("elicit", "elicitation/create", can_elicit()),
        ("url", "elicitation/create", client(json!({ "elicitation": { "url": {} } }))),
        ("roots", "roots/list", client(json!({ "roots": {} }))),
    ] {
        let asked = say(&gate, message, options.clone()).await;
        assert_eq!(questions(&asked)["q1"]["method"], method);
        let answer = json!({ "action": "accept", "content": { "n": 7 } });
        let call = answered(message, &asked, json!({ "q1": answer }));
        let done = call_as(&gate, &caller("ann"), call, options).await;
        assert_eq!(said(&done), answer, "{message}");
    }
    source.close().await;
}

#[tokio::test]
async fn a_call_may_ask_twice() {
    let source = features("sessions");
    let gate = gate(&source).await;
    let first = say(&gate, "twice", can_elicit()).await;
    assert_eq!(questions(&first)["q1"]["params"]["message"], "[up] first?");
    let call = answered("twice", &first, json!({ "q1": { "action": "decline" } }));
    let second = call_as(&gate, &caller("ann"), call, can_elicit()).await;
    assert_eq!(questions(&second)["q2"]["params"]["message"], "[up] and?");
    let call = answered("twice", &second, json!({}));
    let done = call_as(&gate, &caller("ann"), call, can_elicit()).await;
    assert_eq!(said(&done), json!([{ "action": "decline" }, { "action": "cancel" }]));
    source.close().await;
}

#[tokio::test]
async fn an_abandoned_call_is_cancelled_at_the_server() {
    let source = features("sessions");
    let gate = gate(&source).await;
    let asked = say(&gate, "elicit", can_elicit()).await;
    let state = asked.input_required.as_ref().unwrap().state.clone().unwrap();
    gate.gateway.abandon(&state);
    let mut cancelled = json!([]);
    while cancelled == json!([]) {
        cancelled = said(&say(&gate, "cancelled", CallOptions::default()).await);
    }
    let call = answered("elicit", &asked, json!({ "q1": { "action": "accept" } }));
    let late = call_as(&gate, &caller("ann"), call, can_elicit()).await;
    assert_eq!(late.error.unwrap().details, Some(json!({ "requestState": "invalid" })));
    source.close().await;
}

#[tokio::test]
async fn a_question_that_nobody_answers_expires_at_the_server() {
    let source = features("sessions");
    let gate = gate(&source).await;
    let asked = say(&gate, "elicit", can_elicit()).await;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_mins(16)).await;
    tokio::time::resume();
    let mut cancelled = json!([]);
    while cancelled == json!([]) {
        cancelled = said(&say(&gate, "cancelled", CallOptions::default()).await);
    }
    let call = answered("elicit", &asked, json!({ "q1": { "action": "accept" } }));
    let late = call_as(&gate, &caller("ann"), call, can_elicit()).await;
    assert!(!late.success && late.input_required.is_none(), "{late:?}");
    source.close().await;
}

#[tokio::test]
async fn an_answer_counts_once_and_for_its_own_call_only() {
    let source = features("sessions");
    let gate = gate(&source).await;
    gate.grant("bob", "*", None).await;
    let asked = say(&gate, "elicit", can_elicit()).await;
    let answer = || answered("elicit", &asked, json!({ "q1": { "action": "accept" } }));
    let stolen = call_as(&gate, &caller("bob"), answer(), can_elicit()).await;
    assert_eq!(code(&stolen), Some(ErrorCode::Conflict));
    let mut other = answer();
    other.arguments.insert("message".to_owned(), "roots".into());
    let other = call_as(&gate, &caller("ann"), other, can_elicit()).await;
    assert_eq!(code(&other), Some(ErrorCode::Conflict));
    let elsewhere = Caller { session: Some("another".into()), ..caller("ann") };
    let elsewhere = call_as(&gate, &elsewhere, answer(), can_elicit()).await;
    assert!(!elsewhere.success, "another session of the same principal");
    assert!(call_as(&gate, &caller("ann"), answer(), can_elicit()).await.success);
    assert!(!call_as(&gate, &caller("ann"), answer(), can_elicit()).await.success);
    source.close().await;
}

#[tokio::test]
async fn with_two_clients_a_question_has_no_owner() {
    let source = features("sessions");
    let gate = gate(&source).await;
    gate.grant("bob", "*", None).await;
    let bob = caller("bob");
    let parked = call_as(&gate, &bob, invocation("elicit", None), can_elicit()).await;
    assert!(parked.input_required.is_some());
    let refused = said(&say(&gate, "elicit", can_elicit()).await);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("`sessions = \"per_client\"`"), "{message}");
    source.close().await;
}

#[tokio::test]
async fn with_a_connection_for_each_client_a_question_has_an_owner() {
    let args = [fixture("mcp_features.py"), "sessions".to_owned()];
    let source = mcp(json!({ "command": "python3", "args": args, "sessions": "per_client" }));
    let gate = gate(&source).await;
    gate.grant("bob", "*", None).await;
    let bob = caller("bob");
    let bobs = call_as(&gate, &bob, invocation("elicit", None), can_elicit()).await;
    let anns = say(&gate, "elicit", can_elicit()).await;
    for (who, asked) in [(bob, bobs), (caller("ann"), anns)] {
        let call = answered("elicit", &asked, json!({ "q1": { "action": "decline" } }));
        let done = call_as(&gate, &who, call, can_elicit()).await;
        assert_eq!(said(&done), json!({ "action": "decline" }));
    }
    source.close().await;
}

#[tokio::test]
async fn sampling_is_refused_unless_the_operator_allows_it() {
    let can_sample = || client(json!({ "sampling": {} }));
    let source = features("sessions");
    let gate_without = gate(&source).await;
    let refused = said(&say(&gate_without, "sample", can_sample()).await);
    assert_eq!(refused["error"]["code"], -32601);
    let declared = said(&say(&gate_without, "capabilities", CallOptions::default()).await);
    assert_eq!(declared["elicitation"], json!({ "form": {} }));
    assert_eq!(declared.get("sampling"), None);
    source.close().await;
    let args = [fixture("mcp_features.py"), "sessions".to_owned()];
    let source =
        mcp(json!({ "command": "python3", "args": args, "client_requests": ["sampling"] }));
    let gate = gate(&source).await;
    let asked = say(&gate, "sample", can_sample()).await;
    let answer =
        json!({ "role": "assistant", "content": { "type": "text", "text": "hm" }, "model": "m" });
    let call = answered("sample", &asked, json!({ "q1": answer }));
    assert_eq!(said(&call_as(&gate, &caller("ann"), call, can_sample()).await), answer);
    let refused = said(&say(&gate, "elicit", can_elicit()).await);
    assert_eq!(refused["error"]["code"], -32601, "only what is listed");
    source.close().await;
}

#[tokio::test]
async fn who_can_not_answer_is_not_asked() {
    let source = features("sessions");
    let gate = gate(&source).await;
    let refused = said(&say(&gate, "elicit", CallOptions::default()).await);
    assert_eq!(refused["error"]["code"], -32601);
    let refused = said(&say(&gate, "url", can_elicit()).await);
    assert_eq!(refused["error"]["code"], -32602, "the client offers forms only");
    source.close().await;
}

#[tokio::test]
async fn errors_keep_their_code_and_data() {
    let source = with_pages("sessions");
    let gate = gate(&source).await;
    let able = client(json!({ "elicitation": { "url": {} } }));
    let error = say(&gate, "forbidden", able).await.error.unwrap();
    let data = json!({ "elicitations": [{ "url": "https://example.org" }] });
    assert_eq!(error.details, Some(json!({ "code": -32042, "data": data })));
    let error = say(&gate, "forbidden", can_elicit()).await.error.unwrap();
    assert_eq!(error.details, None, "this client opens no pages");
    source.close().await;
}

#[tokio::test]
async fn a_server_without_sessions_asks_by_its_result() {
    let source = features("stateless");
    let gate = gate(&source).await;
    assert_eq!(source.report().protocol_version.as_deref(), Some("2026-07-28"));
    let asked = say(&gate, "elicit", can_elicit()).await;
    assert_eq!(questions(&asked)["k"]["params"]["message"], "[up] sure?");
    let answer = json!({ "k": { "action": "accept", "content": {} } });
    let call = answered("elicit", &asked, answer.clone());
    let done = call_as(&gate, &caller("ann"), call, can_elicit()).await;
    assert_eq!(said(&done), json!([answer, "stäte=="]));
    let read = ask(&gate, Operation::ReadResource, json!({ "uri": "mem://ask" })).await;
    assert!(read.input_required.is_some(), "{read:?}");
    assert_eq!(said(&say(&gate, "again", can_elicit()).await), 3, "called again by itself");
    source.close().await;
}

#[tokio::test]
async fn a_server_without_sessions_hears_what_each_caller_can() {
    let source = features("stateless");
    let gate = gate(&source).await;
    let mine = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "experimental": { "x": {} } });
    let seen = said(&say(&gate, "capabilities", client(mine)).await);
    assert_eq!(seen, json!({ "elicitation": { "form": {} } }));
    assert_eq!(said(&say(&gate, "capabilities", CallOptions::default()).await), json!({}));
    let refused = say(&gate, "sample", can_elicit()).await;
    assert!(!refused.success && refused.input_required.is_none(), "it must not ask this");
    source.close().await;
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_in_both_eras() {
    for mode in MODES {
        let source = features(mode);
        let gate = gate(&source).await;
        let call = invocation("hang", Some(2000));
        let late = call_as(&gate, &caller("ann"), call, CallOptions::default()).await;
        assert_eq!(code(&late), Some(ErrorCode::Timeout), "{mode}");
        let mut cancelled = json!([]);
        while cancelled == json!([]) {
            cancelled = said(&say(&gate, "cancelled", CallOptions::default()).await);
        }
        source.close().await;
    }
}

#[tokio::test]
async fn log_messages_reach_the_caller() {
    for (mode, level) in [("sessions", "info"), ("stateless", "warning")] {
        let source = features(mode);
        let gate = gate(&source).await;
        let log = Arc::new(Log::default());
        let client = Client { log_level: Some("warning".to_owned()), ..Client::default() };
        let options = CallOptions {
            progress: Some(log.clone()),
            client: Arc::new(client),
            ..CallOptions::default()
        };
        say(&gate, "log", options).await;
        let expected = format!("about this call at {level}");
        assert_eq!(
            *log.0.lock(),
            [json!({ "level": "error", "logger": "x", "data": expected })],
            "{mode}"
        );
        source.close().await;
    }
}

#[tokio::test]
async fn servers_of_the_older_era_survive_the_newer_question() {
    for mode in ["touchy", "silent"] {
        let source = features(mode);
        let gate = gate(&source).await;
        assert_eq!(said(&say(&gate, "x", CallOptions::default()).await), "x", "{mode}");
        assert_eq!(source.report().protocol_version.as_deref(), Some("2025-11-25"));
        assert_eq!(source.report().restarts, 0, "{mode}");
        source.close().await;
    }
}

#[tokio::test]
async fn subscriptions_are_renewed_after_a_loss() {
    for mode in MODES {
        let source = features(mode);
        let gate = gate(&source).await;
        assert!(ask(&gate, Operation::Subscribe, json!({ "uri": "mem://a" })).await.success);
        let died = say(&gate, "die", CallOptions::default()).await;
        assert_eq!(code(&died), Some(ErrorCode::Unavailable));
        let mut subscribed = json!([]);
        while subscribed != json!(["mem://a"]) {
            let result = say(&gate, "subscribed", CallOptions::default()).await;
            subscribed = serde_json::from_str(text(&result)).unwrap_or_default();
            tokio::task::yield_now().await;
        }
        source.close().await;
    }
}
