use super::*;

fn client(capabilities: Value) -> Client {
    let Value::Object(capabilities) = capabilities else { panic!("not an object") };
    Client { capabilities, ..Client::default() }
}

fn all() -> Allowed {
    ClientRequest::ALL.into_iter().collect()
}

#[test]
fn only_what_is_allowed_and_declared_is_asked() {
    let usual: Allowed = ClientRequest::USUAL.into_iter().collect();
    let form = json!({ "message": "?", "requestedSchema": {} });
    let url = json!({ "mode": "url", "url": "https://example.org" });
    let insecure = json!({ "mode": "url", "url": "http://example.org" });
    let odd = json!({ "mode": "URL", "url": "https://example.org" });
    let page_only: Allowed = [ClientRequest::ElicitationUrl].into_iter().collect();
    let both = || json!({ "elicitation": { "form": {}, "url": {} } });
    let with_tools = json!({ "messages": [], "tools": [] });
    let none = Value::Null;
    for (allowed, capabilities, method, params, code) in [
        (usual, json!({ "elicitation": {} }), "elicitation/create", &form, None),
        (usual, json!({ "elicitation": {} }), "elicitation/create", &url, Some(-32602)),
        (usual, both(), "elicitation/create", &url, Some(-32602)),
        (all(), both(), "elicitation/create", &url, None),
        (all(), both(), "elicitation/create", &insecure, Some(-32602)),
        (all(), both(), "elicitation/create", &odd, Some(-32602)),
        (all(), json!({ "elicitation": {} }), "elicitation/create", &url, Some(-32602)),
        (page_only, both(), "elicitation/create", &url, None),
        (page_only, both(), "elicitation/create", &form, Some(-32602)),
        (usual, json!({ "elicitation": { "url": {} } }), "elicitation/create", &form, Some(-32602)),
        (usual, json!({}), "elicitation/create", &form, Some(-32601)),
        (usual, json!({ "roots": {} }), "roots/list", &none, None),
        (usual, json!({ "sampling": {} }), "sampling/createMessage", &none, Some(-32601)),
        (all(), json!({ "sampling": {} }), "sampling/createMessage", &none, None),
        (all(), json!({ "sampling": {} }), "sampling/createMessage", &with_tools, Some(-32602)),
        (
            all(),
            json!({ "sampling": { "tools": {} } }),
            "sampling/createMessage",
            &with_tools,
            None,
        ),
        (Allowed::default(), json!({ "roots": {} }), "roots/list", &none, Some(-32601)),
        (all(), json!({ "tools": {} }), "tools/call", &none, Some(-32601)),
    ] {
        let refusal = allowed.refusal(&client(capabilities.clone()), method, Some(params));
        assert_eq!(refusal.map(|(code, _)| code), code, "{method} of {capabilities}");
    }
}

#[test]
fn servers_hear_of_what_they_may_use_only() {
    let usual: Allowed = ClientRequest::USUAL.into_iter().collect();
    let declared = client(json!({
        "elicitation": { "form": {}, "url": {} },
        "sampling": { "tools": {} },
        "roots": true,
        "experimental": { "x": {} },
        "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": ["a/b"] }, "other": {} },
    }));
    assert_eq!(
        Value::Object(usual.of_client(&declared)),
        json!({
            "elicitation": { "form": {} },
            "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": ["a/b"] } },
        })
    );
    assert_eq!(all().of_client(&declared)["sampling"], json!({ "tools": {} }));
    let own = usual.declared();
    assert_eq!(own["elicitation"], json!({ "form": {} }));
    assert_eq!(all().declared()["elicitation"], json!({ "form": {}, "url": {} }));
    let pages = client(json!({ "elicitation": { "url": {} } }));
    assert!(usual.of_client(&pages).is_empty(), "an empty object would mean forms");
    assert!(!usual.reaches(&pages) && all().reaches(&pages));
    assert_eq!(all().of_client(&pages)["elicitation"], json!({ "url": {} }));
    assert!(own.contains_key("roots") && !own.contains_key("sampling"));
}

#[test]
fn an_answer_that_is_missing_has_a_stand_in() {
    let request =
        |method: &str| ServerRequest { id: json!("s1"), method: method.to_owned(), params: None };
    let given = json!({ "action": "accept", "content": { "a": 1 } });
    let answer = |method: &str, given: Option<&Value>| request(method).answer(given);
    assert_eq!(
        answer("elicitation/create", Some(&given)),
        json!({ "jsonrpc": "2.0", "id": "s1", "result": given })
    );
    assert_eq!(answer("elicitation/create", None)["result"], json!({ "action": "cancel" }));
    assert_eq!(answer("sampling/createMessage", None)["error"]["code"], -1);
    assert_eq!(answer("roots/list", Some(&json!("nonsense")))["error"]["code"], -32603);
    assert_eq!(request("roots/list").question(), json!({ "method": "roots/list" }));
}
