//! Documents that want to do harm: no panic, no endless work, and what is sound in them still works.

use drawgate_core::source::ToolSource;
use drawgate_sources::openapi::{Document, Operations};
use serde_json::{Value, json};

use super::{Echo, api, document, gate, seen};

#[tokio::test]
async fn a_fault_in_one_operation_costs_that_one() {
    let echo = Echo::start();
    let broken =
        |id: &str, parameters: Value| json!({ "operationId": id, "parameters": parameters });
    let reference = |to: &str| json!([{ "$ref": to }]);
    let paths = json!({
        "/good": { "get": { "operationId": "good" } },
        "/remote": { "get": broken("remote", reference("https://evil.example/p.json")) },
        "/dangling": { "get": broken("dangling", reference("#/nowhere")) },
        "/circle": { "get": broken("circle", reference("#/components/parameters/Me")) },
        "/style": { "get": broken("style", json!([{ "name": "a", "in": "query", "style": "matrix", "schema": {} }])) },
        "/header": { "get": broken("header", json!([{ "name": "a\r\nb", "in": "header", "schema": {} }])) },
        "/open/{x": { "get": { "operationId": "open" } },
        "/close/x}": { "get": { "operationId": "close" } },
        "/empty/{}": { "get": { "operationId": "empty" } },
        "/nested/{a{b}}": { "get": { "operationId": "nested" } },
        "/body": { "post": { "operationId": "body", "requestBody": { "$ref": "other.yaml#/b" } } },
        "/odd": { "get": { "operationId": "odd", "parameters": [1, null, {}, { "name": 5, "in": "query" }],
            "requestBody": 7, "security": "all", "tags": 3, "servers": "x" } },
        "/null": null, "/list": { "get": [] },
    });
    let mut document = document(&echo.url, paths);
    document["components"] =
        json!({ "parameters": { "Me": { "$ref": "#/components/parameters/Me" } } });
    let api = api(&document, json!({}), &[]);
    let gate = gate(&api).await;
    let manifest = api.source.manifest().await.unwrap();
    let names: Vec<&str> = manifest.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good", "odd"]);
    let told = api.source.diagnostics();
    assert_eq!((&told["operations"], &told["leftOutCount"]), (&json!(2), &json!(10)), "{told}");
    assert_eq!(told["leftOut"][0]["operation"], "remote");
    assert_eq!(seen(&gate, &echo, "odd", json!({})).await["target"], "/odd");
}

#[tokio::test]
async fn text_of_a_path_can_not_become_more_than_a_path() {
    let echo = Echo::start();
    let paths = json!({
        "/a?b=c#d e": { "get": { "operationId": "marks" } },
        "/\r\nX: y": { "get": { "operationId": "lines" } },
        "/@evil.example/": { "get": { "operationId": "at" } },
        "//evil.example/x": { "get": { "operationId": "slashes" } },
    });
    let api = api(&document(&echo.url, paths), json!({}), &[]);
    let gate = gate(&api).await;
    for (tool, expected) in [
        ("marks", "/a%3Fb=c%23d%20e"),
        ("lines", "/%0D%0AX:%20y"),
        ("at", "/@evil.example/"),
        ("slashes", "//evil.example/x"),
    ] {
        assert_eq!(seen(&gate, &echo, tool, json!({})).await["target"], expected);
    }
}

/// Small programs that write large or twisted documents.
fn twisted() -> Vec<(&'static str, Value)> {
    let body = |schema: Value| {
        json!({ "/p": { "post": { "requestBody": {
        "content": { "application/json": { "schema": schema } } } } } })
    };
    let deep = (0..25).fold(json!({ "type": "string" }), |inner, _| json!({ "items": inner }));
    let parameters: Vec<Value> = (0..2_000)
        .map(|number| json!({ "name": format!("p{number}"), "in": "query", "schema": {} }))
        .collect();
    let same: Vec<Value> = ["a b", "a_b", "a+b", "a*b", "body", "\u{0}", "\u{202e}", ""]
        .iter()
        .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }))
        .collect();
    let long = "x".repeat(100_000);
    let forms: Value =
        (0..2_000).map(|number| (format!("f{number}"), json!({ "style": "form" }))).collect();
    vec![
        ("deep", body(deep)),
        ("huge enum", body(json!({ "enum": (0..200_000).collect::<Vec<_>>() }))),
        (
            "many properties",
            body(json!({ "properties": (0..20_000)
            .map(|number| (format!("p{number}"), json!({ "type": "string" }))).collect::<Value>() })),
        ),
        ("many alternatives", body(json!({ "anyOf": vec![json!({ "type": "string" }); 20_000] }))),
        (
            "patterns",
            body(
                json!({ "pattern": "(a{1000}){1000}", "patternProperties": { long.as_str(): {} } }),
            ),
        ),
        ("same names", json!({ "/p": { "get": { "parameters": same } } })),
        (
            "long texts",
            json!({ "/p": { "get": { "operationId": long, "summary": long, "description": long,
            "parameters": [{ "name": long, "in": "query", "description": long, "schema": { "description": long } }] } } }),
        ),
        (
            "many fields",
            json!({ "/p": { "post": { "requestBody": { "content": {
            "application/x-www-form-urlencoded": { "encoding": forms } } } } } }),
        ),
        (
            "many parameters and one that works",
            json!({
            "/p": { "get": { "parameters": parameters } }, "/q": { "get": {} } }),
        ),
    ]
}

#[tokio::test]
async fn twisted_documents_make_tools_that_the_gate_takes() {
    for (name, paths) in twisted() {
        let api = api(&document("http://a.example", paths), json!({}), &[]);
        let gate = gate(&api).await;
        let manifest = api.source.manifest().await.unwrap();
        assert_eq!(manifest.tools.len(), 1, "{name}");
        let size = serde_json::to_string(&manifest.tools).unwrap().len();
        assert!(size < 100_000, "{name}: {size}");
        drop(gate);
    }
}

#[test]
fn broken_pieces_of_a_document_never_panic() {
    let whole = document(
        "https://{a}.example",
        json!({ "/p/{id}": { "get": { "operationId": "a", "parameters": [
            { "name": "id", "in": "path", "schema": { "$ref": "#/components/schemas/A" } },
        ], "requestBody": { "content": { "multipart/form-data": { "schema": { "properties": { "f": {} } } } } },
            "security": [{ "k": ["s"] }] } } }),
    );
    let mut whole = whole;
    whole["components"] = json!({ "schemas": { "A": { "type": "string" } }, "securitySchemes": { "k": { "type": "http" } } });
    let mut places = Vec::new();
    collect(&whole, String::new(), &mut places);
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!("\u{0}{x}#/"),
        json!([[]]),
        json!({ "$ref": "#" }),
    ];
    for place in &places {
        for value in &odd {
            let mut changed = whole.clone();
            *changed.pointer_mut(place).unwrap() = value.clone();
            if let Ok(document) = Document::parse(changed.to_string().as_bytes()) {
                for (name, operation) in document.select(&Operations::default()).unwrap() {
                    let _ = document.definition(operation, &name);
                }
                let _ = (document.base_url(), document.addresses(), document.schemes());
            }
        }
    }
    assert!(places.len() > 30, "{}", places.len());
}

fn collect(value: &Value, place: String, places: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (key, value) in children {
        collect(value, format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")), places);
    }
    places.push(place);
}
