use super::*;

#[track_caller]
fn reply(answers: &Answers, message: &Value) -> Reply {
    let text = message.to_string();
    answers.reply(&serde_json::from_str(&text).unwrap())
}

#[track_caller]
fn body(answers: &Answers, message: &Value) -> Value {
    let Reply::Message(text) = reply(answers, message) else { panic!("no message") };
    serde_json::from_str(&text).unwrap()
}

#[test]
fn echoes_the_message_even_when_it_needs_escapes() {
    let text = "a \"quoted\" line\nand ümlaut \u{1F600}";
    let answer = body(
        &Answers::new(1),
        &json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": { "name": "echo", "arguments": { "message": text } } }),
    );
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["content"], json!([{ "type": "text", "text": text }]));
    assert_eq!(answer["result"]["isError"], false);
}

#[test]
fn keeps_ids_of_every_kind() {
    for id in [json!(0), json!("seven"), json!(-3)] {
        let answer = body(&Answers::new(1), &json!({ "id": id, "method": "ping" }));
        assert_eq!(answer["id"], id);
    }
}

#[test]
fn refuses_what_it_does_not_know() {
    let answers = Answers::new(1);
    let cases = [
        (json!({ "id": 1, "method": "server/discover" }), METHOD_NOT_FOUND),
        (json!({ "id": 1, "method": "tools/call", "params": { "name": "x" } }), INVALID_PARAMS),
        (json!({ "id": 1, "method": "tools/call", "params": { "name": "echo" } }), INVALID_PARAMS),
    ];
    for (message, code) in cases {
        assert_eq!(body(&answers, &message)["error"]["code"], code);
    }
}

#[test]
fn opens_sessions_and_agrees_on_a_revision() {
    let answers = Answers::new(1);
    assert!(!answers.knows(0));
    for (number, wanted, agreed) in [(0, "2025-06-18", "2025-06-18"), (1, "2001-01-01", NEWEST)] {
        let message = json!({ "id": 1, "method": "initialize",
            "params": { "protocolVersion": wanted } });
        let Reply::Opened { session, body } = reply(&answers, &message) else {
            panic!("no session")
        };
        assert_eq!(session, number);
        assert!(answers.knows(session));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["result"]["protocolVersion"], agreed);
    }
}

#[test]
fn says_nothing_to_a_notification() {
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(reply(&Answers::new(1), &message), Reply::Nothing);
}

#[test]
fn lists_as_many_tools_as_asked_for_with_names_of_their_own() {
    let answer = body(&Answers::new(1000), &json!({ "id": 1, "method": "tools/list" }));
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names: std::collections::BTreeSet<_> =
        tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 1000);
    assert!(names.contains("echo"));
    assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"));
}
