use std::time::Instant;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;

fn context(meta: Value) -> CallContext {
    let Value::Object(meta) = meta else { panic!("not an object") };
    CallContext {
        deadline: Instant::now(),
        cancel: CancellationToken::new(),
        progress: None,
        trace: TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        meta,
    }
}

fn written(era: Era, cx: &CallContext) -> Value {
    let arguments = Map::new();
    let params = CallParams { name: "t", arguments: &arguments, meta: Meta::of_call(era, cx, 7) };
    serde_json::from_slice(&Request::new(7, "tools/call", &params).to_bytes().unwrap()).unwrap()
}

#[test]
fn metadata_of_the_caller_is_passed_on_without_what_belongs_to_its_own_hop() {
    let cx = context(json!({
        "vendor/key": 1,
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
        json!({ "id": "1", "result": {} }),
        json!({ "id": -1, "result": {} }),
        json!({ "method": 1 }),
    ] {
        assert!(matches!(sort(bad.clone()), Incoming::Nonsense), "{bad}");
    }
}

#[test]
fn a_server_may_ping_and_nothing_else() {
    let reply = |method: &str| match sort(json!({ "id": "x", "method": method, "params": {} })) {
        Incoming::Request { reply } => reply,
        other => panic!("{other:?}"),
    };
    assert_eq!(reply("ping"), json!({ "jsonrpc": "2.0", "id": "x", "result": {} }));
    for method in ["sampling/createMessage", "roots/list", "elicitation/create", "tools/call"] {
        assert_eq!(reply(method)["error"]["code"], -32601, "{method}");
    }
}

#[test]
fn requests_with_other_ids_than_numbers_and_short_strings_are_nonsense() {
    let ping = |id: Value| sort(json!({ "id": id, "method": "ping" }));
    for good in [json!(-3), json!(u64::MAX), json!(""), json!("x".repeat(256))] {
        assert!(matches!(ping(good.clone()), Incoming::Request { .. }), "{good}");
    }
    let long = json!("x".repeat(257));
    for bad in [long, json!(1.5), json!(null), json!(true), json!([1]), json!({ "a": 1 })] {
        assert!(matches!(ping(bad.clone()), Incoming::Nonsense), "{bad}");
    }
}

#[test]
fn results_keep_the_order_of_their_members() {
    let text = r#"{"content":[],"a":1,"isError":true,"b":2,"_meta":{"io.modelcontextprotocol/serverInfo":{},"x":1,"y":2},"c":3}"#;
    let rest = output(serde_json::from_str(text).unwrap()).unwrap().rest;
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
    let output = output(result).unwrap();
    assert_eq!(output.content, [json!({ "type": "hologram", "x": 1 })]);
    assert_eq!(output.structured, Some(json!({ "a": 1 })));
    assert!(output.is_error);
    assert_eq!(Value::Object(output.rest), json!({ "_meta": { "vendor": 1 }, "later": 2 }));
}

#[test]
fn requests_for_input_are_failures() {
    let Value::Object(result) = json!({ "resultType": "input_required", "inputRequests": {} })
    else {
        unreachable!()
    };
    assert!(matches!(output(result), Err(SourceError::Failed { .. })));
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
