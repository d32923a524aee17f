//! Members of objects that become parameters: none passes for a credential or another parameter.

use drawgate_core::model::ErrorCode;
use serde_json::{Value, json};

use super::{Echo, api, call, document, gate, said, seen};
use crate::support::code;

fn described(server: &str) -> Value {
    let object = |name: &str, place: &str, style: &str| json!({ "name": name, "in": place, "style": style, "explode": true, "schema": { "type": "object" } });
    let text =
        |name: &str, place: &str| json!({ "name": name, "in": place, "schema": { "enum": ["a"] } });
    let form = json!({ "application/x-www-form-urlencoded": {
        "schema": { "type": "object", "properties": { "role": { "enum": ["user"] }, "more": {} } },
        "encoding": { "more": { "style": "form", "explode": true } },
    } });
    let paths = json!({
        "/query": { "get": { "operationId": "query", "parameters": [
            object("filter", "query", "form"), text("role", "query"), text("API_KEY", "query"),
        ] } },
        "/deep": { "get": { "operationId": "deep", "parameters": [
            object("filter", "query", "deepObject"), text("filter[role]", "query"),
        ] } },
        "/cookie": { "get": { "operationId": "cookie", "parameters": [
            object("prefs", "cookie", "form"), text("role", "cookie"), text("own", "cookie"),
        ] } },
        "/form": { "post": { "operationId": "form", "requestBody": { "content": form } } },
        "/matrix/{at}{role}": { "get": { "operationId": "matrix", "parameters": [
            { "name": "at", "in": "path", "required": true, "style": "matrix", "explode": true, "schema": {} },
            { "name": "role", "in": "path", "required": true, "style": "matrix", "schema": { "enum": ["a"] } },
        ] } },
    });
    let mut document = document(server, paths);
    document["components"] = json!({ "securitySchemes": {
        "key": { "type": "apiKey", "in": "query", "name": "api_key" },
        "session": { "type": "apiKey", "in": "cookie", "name": "sid" },
    } });
    document["security"] = json!([{ "key": [], "session": [] }]);
    document
}

#[tokio::test]
async fn no_member_of_an_object_passes_for_another_parameter() {
    let echo = Echo::start();
    let more = json!({
        "auth": { "key": "OPERATOR", "session": "OPERATOR" }, "headers": { "Cookie": "own=1; two=2" },
    });
    let api = api(&described(&echo.url), more, &[]);
    let gate = gate(&api).await;
    let mut wrong = Vec::new();
    for (tool, arguments) in [
        ("query", json!({ "filter": { "api_key": "ATTACKER" } })),
        ("query", json!({ "filter": { "a": 1, "API_KEY": "ATTACKER" } })),
        ("query", json!({ "filter": { "api_key[]": "ATTACKER" } })),
        ("query", json!({ "filter": { "api.key": "ATTACKER" } })),
        ("query", json!({ "filter": { "role": "admin" } })),
        ("query", json!({ "filter": { "role": "admin" }, "role": "a" })),
        ("deep", json!({ "filter": { "role": "admin" } })),
        ("cookie", json!({ "prefs": { "sid": "ATTACKER" } })),
        ("cookie", json!({ "prefs": { "two": "ATTACKER" } })),
        ("cookie", json!({ "prefs": { "role": "admin" } })),
        ("form", json!({ "body": { "more": { "role": "admin" } } })),
        ("form", json!({ "body": { "more": { "free": 1 }, "free": 2 } })),
        ("matrix", json!({ "at": { "role": "admin" }, "role": "a" })),
        // The connector sets these, so that they are no arguments at all.
        ("query", json!({ "API_KEY": "a" })),
        ("cookie", json!({ "own": "a" })),
    ] {
        let result = call(&gate, tool, arguments.clone()).await;
        if code(&result) != Some(ErrorCode::InvalidArguments) {
            wrong.push(format!("{tool} {arguments}: {}", said(&result)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(echo.take(), [] as [Value; 0]);
    for (tool, arguments, target) in [
        (
            "query",
            json!({ "filter": { "a": 1 }, "role": "a" }),
            "/query?a=1&role=a&api_key=OPERATOR",
        ),
        ("deep", json!({ "filter": { "a": 1 } }), "/deep?filter%5Ba%5D=1&api_key=OPERATOR"),
        (
            "matrix",
            json!({ "at": { "a": 1 }, "role": "a" }),
            "/matrix/;a=1;role=a?api_key=OPERATOR",
        ),
    ] {
        assert_eq!(seen(&gate, &echo, tool, arguments).await["target"], target);
    }
    let cookie = seen(&gate, &echo, "cookie", json!({ "prefs": { "a": 1 } })).await;
    assert_eq!(cookie["headers"]["cookie"], "own=1; two=2; a=1; sid=OPERATOR");
    let form = json!({ "body": { "more": { "a": 1 }, "role": "user" } });
    assert_eq!(seen(&gate, &echo, "form", form).await["body"], "a=1&role=user");
}
