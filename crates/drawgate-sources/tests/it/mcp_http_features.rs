//! What servers offer beside tools, and what they ask of callers, over HTTP.

use std::sync::Arc;

use drawgate_core::model::Operation;
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::{SourceEvent, ToolSource};
use drawgate_core::testing::caller;
use drawgate_sources::mcp::McpSource;
use serde_json::{Value, json};

use crate::feature_server::{FeatureServer, Manner};
use crate::mcp_features::{Log, answered, ask, call_as, can_elicit, questions, said, say};
use crate::support::{PATIENCE, gate, invocation, mcp, until};

async fn start(manner: Manner) -> (Arc<FeatureServer>, Arc<McpSource>) {
    let server = FeatureServer::start(manner).await;
    let source = mcp(json!({ "url": server.url }));
    (server, source)
}

const SESSIONS: Manner = Manner::Sessions(400);

#[tokio::test]
async fn the_era_is_found_out_whatever_an_older_server_says_to_the_newer_question() {
    for status in [200, 400, 404, 405, 500] {
        let (server, source) = start(Manner::Sessions(status)).await;
        let gate = gate(&source).await;
        assert_eq!(said(&say(&gate, "x", CallOptions::default()).await), "x", "{status}");
        assert_eq!(source.report().protocol_version.as_deref(), Some("2025-11-25"));
        assert_eq!(server.seen("server/discover").len(), 1);
        source.close().await;
    }
    let (server, source) = start(Manner::Stateless).await;
    source.manifest().await.unwrap();
    assert_eq!(source.report().protocol_version.as_deref(), Some("2026-07-28"));
    assert_eq!(server.seen("server/discover").len(), 2, "once more, with a revision in common");
    assert_eq!(server.seen("initialize").len(), 0);
    source.close().await;
}

#[tokio::test]
async fn a_question_on_either_stream_waits_for_its_answer() {
    let (server, source) = start(SESSIONS).await;
    let gate = gate(&source).await;
    until("the gateway listens", || server.is_heard()).await;
    for message in ["elicit", "elicit elsewhere"] {
        let asked = say(&gate, message, can_elicit()).await;
        assert_eq!(questions(&asked)["q1"]["params"]["message"], "[up] sure?", "{message}");
        let answer = json!({ "action": "accept", "content": { "a": 1 } });
        let call = answered(message, &asked, json!({ "q1": answer }));
        assert_eq!(said(&call_as(&gate, &caller("ann"), call, can_elicit()).await), answer);
    }
    assert_eq!(server.seen("notifications/cancelled").len(), 0);
    source.close().await;
}

#[tokio::test]
async fn on_the_stream_of_a_call_two_clients_are_told_apart() {
    let (_server, source) = start(SESSIONS).await;
    let gate = gate(&source).await;
    gate.grant("bob", "*", None).await;
    let anns = say(&gate, "elicit", can_elicit()).await;
    let bobs = call_as(&gate, &caller("bob"), invocation("elicit", None), can_elicit()).await;
    for (who, asked, action) in [("bob", bobs, "accept"), ("ann", anns, "decline")] {
        let answer = json!({ "action": action });
        let call = answered("elicit", &asked, json!({ "q1": answer }));
        assert_eq!(said(&call_as(&gate, &caller(who), call, can_elicit()).await), answer);
    }
    source.close().await;
}

#[tokio::test]
async fn an_abandoned_call_is_cancelled_at_the_server() {
    let (server, source) = start(SESSIONS).await;
    let gate = gate(&source).await;
    let asked = say(&gate, "elicit", can_elicit()).await;
    gate.gateway.abandon(asked.input_required.unwrap().state.as_deref().unwrap());
    until("the server is told", || !server.seen("notifications/cancelled").is_empty()).await;
    let (call, told) = (server.seen("tools/call"), server.seen("notifications/cancelled"));
    assert_eq!(told[0].body["params"]["requestId"], call[0].body["id"]);
    source.close().await;
}

#[tokio::test]
async fn log_messages_reach_the_caller() {
    let (_server, source) = start(SESSIONS).await;
    let gate = gate(&source).await;
    let log = Arc::new(Log::default());
    let options = CallOptions { progress: Some(log.clone()), ..CallOptions::default() };
    assert!(say(&gate, "log", options).await.success);
    assert_eq!(*log.0.lock(), [json!({ "level": "info", "data": "hello" })]);
    source.close().await;
}

#[tokio::test]
async fn batches_are_understood() {
    let (_server, source) = start(SESSIONS).await;
    let gate = gate(&source).await;
    assert_eq!(said(&say(&gate, "batch", CallOptions::default()).await), "batch");
    source.close().await;
}

fn updated(uri: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } })
}

#[tokio::test]
async fn updates_are_told_and_subscriptions_outlive_a_session() {
    let (server, source) = start(SESSIONS).await;
    let gate = gate(&source).await;
    let mut events = source.events().unwrap();
    until("the gateway listens", || server.is_heard()).await;
    assert!(ask(&gate, Operation::Subscribe, json!({ "uri": "mem://a" })).await.success);
    server.tell(updated("mem://a"));
    let expected = SourceEvent::ResourceUpdated { uri: "mem://a".to_owned() };
    let event = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    assert_eq!(event, expected);
    server.forget_session();
    assert!(say(&gate, "x", CallOptions::default()).await.success);
    until("it subscribes again", || server.seen("resources/subscribe").len() == 2).await;
    let again = server.seen("resources/subscribe").remove(1);
    assert_eq!(again.headers["mcp-session-id"], "session-1");
    let event = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    assert_eq!(event, expected, "something may have been missed");
    source.close().await;
}

#[tokio::test]
async fn without_sessions_a_subscription_is_part_of_what_is_listened_to() {
    let (server, source) = start(Manner::Stateless).await;
    let gate = gate(&source).await;
    let mut events = source.events().unwrap();
    assert!(ask(&gate, Operation::Subscribe, json!({ "uri": "mem://a" })).await.success);
    let wanted =
        server.seen("subscriptions/listen").pop().unwrap().body["params"]["notifications"].clone();
    assert_eq!(
        wanted,
        json!({ "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["mem://a"] })
    );
    server.tell(updated("mem://a"));
    let event = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    assert_eq!(event, SourceEvent::ResourceUpdated { uri: "mem://a".to_owned() });
    assert!(ask(&gate, Operation::Unsubscribe, json!({ "uri": "mem://a" })).await.success);
    until("it listens to less", || {
        let last = server.seen("subscriptions/listen").pop().unwrap();
        last.body["params"]["notifications"].get("resourceSubscriptions").is_none()
    })
    .await;
    source.close().await;
}

#[tokio::test]
async fn without_sessions_questions_pass_with_their_source_and_their_state_as_it_is() {
    let (server, source) = start(Manner::Stateless).await;
    let gate = gate(&source).await;
    let asked = say(&gate, "elicit", can_elicit()).await;
    assert_eq!(
        questions(&asked),
        json!({ "k": { "method": "elicitation/create", "params": { "message": "[up] sure?" } } })
    );
    let answer = json!({ "k": { "action": "accept" } });
    let call = answered("elicit", &asked, answer.clone());
    let done = call_as(&gate, &caller("ann"), call, can_elicit()).await;
    assert_eq!(said(&done), json!([answer, "opaque\"state"]));
    let calls = server.seen("tools/call");
    assert_ne!(calls[0].body["id"], calls[1].body["id"]);
    let error = say(&gate, "capability", can_elicit()).await.error.unwrap();
    let required = json!({ "requiredCapabilities": { "sampling": {} } });
    assert_eq!(error.details, Some(json!({ "code": -32021, "data": required })));
    source.close().await;
}

#[tokio::test]
async fn without_sessions_requests_are_repeated_in_headers() {
    let (server, source) = start(Manner::Stateless).await;
    let gate = gate(&source).await;
    let read = ask(&gate, Operation::ReadResource, json!({ "uri": "mem://a" })).await;
    assert_eq!(
        Value::Object(read.rest),
        json!({ "contents": [], "ttlMs": 1, "cacheScope": "private" })
    );
    assert!(ask(&gate, Operation::GetPrompt, json!({ "name": "greet" })).await.success);
    let argument = json!({ "name": "who", "value": "" });
    let complete =
        json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": argument });
    assert!(ask(&gate, Operation::Complete, complete).await.success);
    // By the name that callers see, which is another than the server's.
    let mut call = invocation("x", None);
    call.tool_id = "up__echo".to_owned();
    call.arguments.insert("count".to_owned(), json!(42));
    call.arguments.insert("sure".to_owned(), json!(false));
    assert!(call_as(&gate, &caller("ann"), call.clone(), CallOptions::default()).await.success);
    let seen = server.seen("tools/call").remove(0);
    assert_eq!(seen.headers["mcp-name"], "echo");
    assert_eq!(
        (&seen.headers["mcp-param-count"], &seen.headers["mcp-param-sure"]),
        (&"42".parse().unwrap(), &"false".parse().unwrap())
    );
    source.close().await;
    let (server, source) = start(SESSIONS).await;
    let gate = crate::support::gate(&source).await;
    assert!(call_as(&gate, &caller("ann"), call, CallOptions::default()).await.success);
    let seen = server.seen("tools/call").remove(0);
    assert!(
        !seen.headers.contains_key("mcp-param-count") && !seen.headers.contains_key("mcp-name")
    );
    source.close().await;
}
