use std::time::Instant;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use drawgate_core::model::{Client, InputGiven, TraceParent};
use drawgate_core::source::CallContext;

use super::*;
use crate::mcp::requests::{Allowed, ClientRequest};

fn context(meta: Value) -> CallContext {
    let Value::Object(meta) = meta else { panic!("not an object") };
    CallContext {
        deadline: Instant::now().into(),
        cancel: CancellationToken::new(),
        progress: None,
        trace: TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        meta,
        client: std::sync::Arc::default(),
        input: None,
        affinity: "local".into(),
        lineage: None,
        carried: std::sync::Arc::default(),
        resume: None,
    }
}

fn usual() -> Allowed {
    ClientRequest::USUAL.into_iter().collect()
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("not an object") };
    map
}

fn written(era: Era, cx: &CallContext) -> Value {
    let arguments = Map::new();
    let meta = Meta::of_call(era, usual(), cx, 7);
    let params =
        CallParams { tool: Some("t"), arguments: &arguments, form: Form::Plain(None), meta };
    serde_json::from_slice(&Request::new(7, "tools/call", &params).to_bytes().unwrap()).unwrap()
}

#[test]
fn metadata_of_the_caller_is_passed_on_without_what_belongs_to_its_own_hop() {
    let cx = context(json!({
        "vendor/key": 1,
        "drawgate/call": { "runId": "r" },
        "drawgate/step": 7,
        "progressToken": "callers",
        "traceparent": "00-callers",
        "io.modelcontextprotocol/protocolVersion": "1999-01-01",
        "io.modelcontextprotocol/clientInfo": { "name": "caller" },
        "io.modelcontextprotocol/clientCapabilities": { "sampling": {} },
    }));
    assert_eq!(
        written(Era::Sessions, &cx),
        json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            "name": "t", "arguments": {}, "_meta": {
                "vendor/key": 1,
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            },
        } })
    );
    let meta = &written(Era::Stateless, &cx)["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], STATELESS);
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "drawgate");
}

#[test]
fn empty_metadata_is_left_out() {
    let cx = CallContext { trace: None, ..context(json!({ "progressToken": 3 })) };
    assert_eq!(written(Era::Sessions, &cx)["params"], json!({ "name": "t", "arguments": {} }));
}

#[test]
fn answers_are_results_or_errors_and_never_both() {
    let outcome = |message: Value| match sort(message) {
        Incoming::Answer { id: 1, outcome } => outcome,
        other => panic!("{other:?}"),
    };
    assert!(outcome(json!({ "id": 1, "result": {} })).is_ok());
    for bad in [
        json!({ "id": 1, "result": {}, "error": {} }),
        json!({ "id": 1, "result": [] }),
        json!({ "id": 1 }),
    ] {
        assert!(matches!(outcome(bad), Err(SourceError::Protocol(_))));
    }
    let failed = outcome(
        json!({ "id": 1, "error": { "code": -32602, "message": "no", "data": [1], "more": 2 } }),
    );
    let Err(SourceError::Failed { message, details }) = failed else { panic!("{failed:?}") };
    assert_eq!((message.as_str(), details), ("no", Some(json!({ "code": -32602, "data": [1] }))));
}

#[test]
fn what_is_not_a_message_is_nonsense() {
    for bad in [
        json!(1),
        json!({}),
        json!({ "id": "one", "result": {} }),
        json!({ "id": -1, "result": {} }),
        json!({ "method": 1 }),
    ] {
        assert!(matches!(sort(bad.clone()), Incoming::Nonsense), "{bad}");
    }
}

#[test]
fn an_id_may_come_back_as_text() {
    let answer = sort(json!({ "id": "7", "result": {} }));
    assert!(matches!(answer, Incoming::Answer { id: 7, outcome: Ok(_) }), "{answer:?}");
}

#[test]
fn what_a_server_tells_is_sorted() {
    let told = |method: &str, params: Value| sort(json!({ "method": method, "params": params }));
    for list in ["tools", "prompts", "resources"] {
        let changed = told(&format!("notifications/{list}/list_changed"), json!({}));
        assert!(matches!(changed, Incoming::News(News::ListChanged)), "{list}");
    }
    let updated = told("notifications/resources/updated", json!({ "uri": "a:b" }));
    assert!(matches!(updated, Incoming::News(News::ResourceUpdated { uri }) if uri == "a:b"));
    let log = told("notifications/message", json!({ "level": "info", "data": 1, "_meta": {} }));
    let Incoming::Log(message) = log else { panic!("{log:?}") };
    assert_eq!(Value::Object(message), json!({ "level": "info", "data": 1 }));
    for bad in ["notifications/resources/updated", "notifications/message"] {
        assert!(matches!(told(bad, json!([1])), Incoming::Nonsense), "{bad}");
    }
    let other = told("notifications/elicitation/complete", json!({ "elicitationId": "1" }));
    assert!(matches!(other, Incoming::Ignored));
}

#[test]
fn requests_with_other_ids_than_numbers_and_short_strings_are_nonsense() {
    let ping = |id: Value| sort(json!({ "id": id, "method": "ping" }));
    for good in [json!(-3), json!(u64::MAX), json!(""), json!("x".repeat(256))] {
        assert!(matches!(ping(good.clone()), Incoming::Request(_)), "{good}");
    }
    let long = json!("x".repeat(257));
    for bad in [long, json!(1.5), json!(null), json!(true), json!([1]), json!({ "a": 1 })] {
        assert!(matches!(ping(bad.clone()), Incoming::Nonsense), "{bad}");
    }
}

#[test]
fn results_keep_the_order_of_their_members() {
    let text = r#"{"content":[],"a":1,"isError":true,"b":2,"_meta":{"io.modelcontextprotocol/serverInfo":{},"x":1,"y":2},"c":3}"#;
    let settled = settle(serde_json::from_str(text).unwrap()).unwrap();
    let Settled::Complete(result) = settled else { panic!("{settled:?}") };
    let rest = output(result).unwrap().rest;
    let expected = r#"{"a":1,"b":2,"_meta":{"x":1,"y":2},"c":3}"#;
    assert_eq!(Value::Object(rest).to_string(), expected);
}

#[test]
fn results_keep_what_is_not_understood() {
    let Value::Object(result) = json!({
        "resultType": "complete",
        "content": [{ "type": "hologram", "x": 1 }],
        "structuredContent": { "a": 1 },
        "isError": true,
        "_meta": { "io.modelcontextprotocol/serverInfo": {}, "vendor": 1 },
        "later": 2,
    }) else {
        unreachable!()
    };
    let Settled::Complete(result) = settle(result).unwrap() else { panic!("a question") };
    let output = output(result).unwrap();
    assert_eq!(output.content, [json!({ "type": "hologram", "x": 1 })]);
    assert_eq!(output.structured, Some(json!({ "a": 1 })));
    assert!(output.is_error);
    assert_eq!(Value::Object(output.rest), json!({ "_meta": { "vendor": 1 }, "later": 2 }));
}

#[test]
fn requests_for_input_are_questions_as_they_are() {
    let requests = json!({ "k": { "method": "elicitation/create", "params": { "message": "?" } } });
    let asked = settle(object(json!({
        "resultType": "input_required", "inputRequests": requests, "requestState": "opaque=",
    })));
    let Ok(Settled::Asks(asked)) = asked else { panic!("{asked:?}") };
    assert_eq!(Value::Object(asked.requests), requests);
    assert_eq!(asked.state.as_deref(), Some("opaque="));
}

#[test]
fn results_that_can_not_be_understood_are_errors() {
    for bad in [
        json!({ "resultType": "input_required" }),
        json!({ "resultType": "input_required", "inputRequests": [] }),
        json!({ "resultType": "input_required", "inputRequests": {} }),
        json!({ "resultType": "input_required", "requestState": 7 }),
        json!({ "resultType": "input_required", "inputRequests": { "k": { "method": "tools/call" } } }),
        json!({ "resultType": "input_required", "inputRequests": { "k": 1 } }),
        json!({ "resultType": "carrier_pigeon" }),
        json!({ "resultType": 1 }),
    ] {
        assert!(settle(object(bad.clone())).is_err(), "{bad}");
    }
}

#[test]
fn tasks_are_declared_for_a_caller_that_does_not_follow_them_where_the_tool_demands_one() {
    let cx = context(json!({}));
    let declared = |follows: bool| {
        let meta = Meta::of_call(Era::Stateless, usual(), &cx, 7).following_tasks(follows);
        let mut meta = serde_json::to_value(meta).unwrap();
        meta["io.modelcontextprotocol/clientCapabilities"].take()
    };
    assert_eq!(declared(false), json!({}));
    assert_eq!(declared(true), json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }));
}

#[test]
fn odd_members_of_reports_and_log_messages_are_left_out() {
    let heard = |method: &str, params: Value| {
        sort(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    };
    let odd =
        json!({ "progressToken": 7, "progress": 1, "total": null, "message": 5, "later": null });
    let Incoming::Progress { token: 7, report } = heard("notifications/progress", odd) else {
        panic!("no report")
    };
    assert_eq!(Value::Object(report), json!({ "progress": 1, "later": null }));
    let odd = json!({ "level": "info", "logger": null, "data": null });
    let Incoming::Log(message) = heard("notifications/message", odd) else { panic!("no message") };
    assert_eq!(Value::Object(message), json!({ "level": "info", "data": null }));
}

#[test]
fn what_is_not_a_tool_is_asked_with_its_own_members_only() {
    let arguments = object(json!({ "uri": "a:b", "_meta": { "x": 1 }, "requestState": "forged" }));
    let input = InputGiven { responses: object(json!({ "k": {} })), state: Some("s".to_owned()) };
    let cx = context(json!({ "vendor": 1 }));
    let client = Client {
        capabilities: object(json!({ "elicitation": {}, "sampling": {} })),
        log_level: Some("info".to_owned()),
        ..Client::default()
    };
    let cx = CallContext { trace: None, client: client.into(), ..cx };
    let meta = Meta::of_call(Era::Stateless, usual(), &cx, 7);
    let params =
        CallParams { tool: None, arguments: &arguments, form: Form::Plain(Some(&input)), meta };
    let mut params = serde_json::to_value(&params).unwrap();
    let meta = params["_meta"].take();
    assert_eq!(
        params,
        json!({ "uri": "a:b", "inputResponses": { "k": {} }, "requestState": "s", "_meta": null })
    );
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "info");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({ "elicitation": {} }));
    assert_eq!(meta["vendor"], 1);
}

#[test]
fn revisions_are_accepted_or_named() {
    let initialize = |version: &str| {
        let Value::Object(result) =
            json!({ "protocolVersion": version, "serverInfo": { "name": "n", "version": "1" } })
        else {
            unreachable!()
        };
        initialized(&result)
    };
    for version in WITH_SESSIONS {
        assert_eq!(initialize(version).unwrap().protocol, version);
    }
    for version in ["2023-01-01", STATELESS, ""] {
        let error = initialize(version).unwrap_err().to_string();
        assert!(error.contains("supported are `2024-11-05`"), "{error}");
    }
}
