//! Bodies in every format, byte for byte.

use drawgate_core::source::ToolSource;
use drawgate_core::testing::TestGate;
use serde_json::{Value, json};

use super::{Api, Echo, api, call, document, gate, said, seen};

#[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
fn operation(id: &str, content: Value) -> Value {
    json!({ "post": { "operationId": id, "requestBody": { "required": true, "content": content } } })
}

fn paths() -> Value {
    let form = json!({ "application/x-www-form-urlencoded": {
        "schema": { "type": "object" },
        "encoding": {
            "deep": { "style": "deepObject", "explode": true },
            "joined": { "style": "form", "explode": false },
            "piped": { "style": "pipeDelimited" },
            "json": { "contentType": "application/json" },
            "kept": { "allowReserved": true },
        },
    } });
    let multipart = json!({ "multipart/form-data": {
        "schema": { "allOf": [{ "$ref": "#/components/schemas/Upload" }] },
        "encoding": { "picture": { "contentType": "image/png, image/jpeg" }, "any": { "contentType": "image/*" } },
    } });
    json!({
        "/json": operation("json", json!({ "application/json": { "schema": { "type": "object" } } })),
        "/vendor": operation("vendor", json!({ "application/vnd.x+json": { "schema": {} } })),
        "/any": operation("any", json!({ "*/*": { "schema": {} } })),
        "/both": operation("both", json!({ "multipart/form-data": {}, "application/json": {} })),
        "/form": operation("form", form),
        "/multipart": operation("multipart", multipart),
        "/text": operation("text", json!({ "text/plain": { "schema": { "type": "string" } } })),
        "/xml": operation("xml", json!({ "application/xml": { "schema": { "type": "object" } } })),
        "/bytes": operation("bytes", json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } })),
        "/zip": operation("zip", json!({ "application/zip": {} })),
        "/family": operation("family", json!({ "image/*": {} })),
    })
}

async fn ready() -> (Api, Echo, TestGate) {
    let echo = Echo::start();
    let mut document = document(&echo.url, paths());
    document["components"] = json!({ "schemas": { "Upload": { "type": "object", "properties": {
        "picture": { "type": "string", "format": "binary" },
        "files": { "type": "array", "items": { "type": "string", "format": "binary" } },
        "note": { "type": "string" },
        "any": { "type": "string", "format": "binary" },
    } } } });
    let api = api(&document, json!({}), &[]);
    let gate = gate(&api).await;
    (api, echo, gate)
}

#[tokio::test]
async fn every_format() {
    let (_api, echo, gate) = ready().await;
    for (tool, body, media, expected) in [
        (
            "json",
            json!({ "b": [1, null], "a": "ü" }),
            "application/json",
            r#"{"b":[1,null],"a":"ü"}"#,
        ),
        ("vendor", json!([1]), "application/vnd.x+json", "[1]"),
        ("any", json!({}), "application/json", "{}"),
        ("both", json!({ "a": 1 }), "application/json", r#"{"a":1}"#),
        ("text", json!("a\nb ü"), "text/plain", "a\nb ü"),
        ("xml", json!("<a/>"), "application/xml", "<a/>"),
        ("bytes", json!("aGVsbG8="), "application/octet-stream", "hello"),
        ("bytes", json!("aGVs\nbG8"), "application/octet-stream", "hello"),
        ("zip", json!("UEs="), "application/zip", "PK"),
        ("family", json!("UEs="), "application/octet-stream", "PK"),
        (
            "form",
            json!({
                "a": "b c&d=ü", "n": 5, "list": ["x", "y z"], "object": { "k": [1] }, "none": null,
                "deep": { "k": { "l": ["m"] } }, "joined": ["p", "q,"], "piped": ["r", "s"],
                "json": ["t"], "kept": "u/v&w",
            }),
            "application/x-www-form-urlencoded",
            "a=b%20c%26d%3D%C3%BC&n=5&list=x&list=y%20z&object=%7B%22k%22%3A%5B1%5D%7D\
             &deep%5Bk%5D%5Bl%5D%5B0%5D=m&joined=p,q%2C&piped=r%7Cs&json=%5B%22t%22%5D&kept=u/v%26w",
        ),
    ] {
        let seen = seen(&gate, &echo, tool, json!({ "body": body })).await;
        assert_eq!(seen["body"], expected, "{tool}");
        assert_eq!(seen["headers"]["content-type"], media, "{tool}");
        assert_eq!(seen["headers"]["content-length"], expected.len().to_string(), "{tool}");
        assert_eq!(seen["method"], "POST");
    }
}

#[tokio::test]
async fn parts_of_a_multipart_body() {
    let (_api, echo, gate) = ready().await;
    let body = json!({
        "picture": "iVBORw", "files": ["YQ==", "Yg=="], "note": "hi\r\n--x", "object": { "a": 1 },
        "list": [1, 2], "any": "YQ==", "a\"b\r\nX: y": "z",
    });
    let seen = seen(&gate, &echo, "multipart", json!({ "body": body })).await;
    let media = seen["headers"]["content-type"].as_str().unwrap();
    let boundary = media.strip_prefix("multipart/form-data; boundary=").unwrap();
    assert!(boundary.len() > 40, "{boundary}");
    let part = |name: &str, more: &str, content: &str| {
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{content}\r\n"
        )
    };
    let file = |name: &str, media: &str| format!("; filename=\"{name}\"\r\nContent-Type: {media}");
    let expected = [
        part("picture", &file("picture", "image/png"), "\u{fffd}PNG"),
        part("files", &file("files", "application/octet-stream"), "a"),
        part("files", &file("files", "application/octet-stream"), "b"),
        part("note", "", "hi\r\n--x"),
        part("object", "\r\nContent-Type: application/json", r#"{"a":1}"#),
        part("list", "", "1"),
        part("list", "", "2"),
        part("any", &file("any", "application/octet-stream"), "a"),
        part("a%22b%0D%0AX: y", "", "z"),
        format!("--{boundary}--\r\n"),
    ]
    .concat();
    assert_eq!(seen["body"].as_str().unwrap(), expected);
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_the_callers_fault() {
    let (api, _echo, gate) = ready().await;
    for (tool, body, reason) in [
        ("bytes", json!("not base64!"), "`body`: must be text in base64"),
        ("multipart", json!({ "picture": "!" }), "`picture`: must be text in base64"),
    ] {
        let result = call(&gate, tool, json!({ "body": body })).await;
        assert!(!result.success);
        assert!(said(&result).contains(reason), "{}", said(&result));
    }
    let manifest = api.source.manifest().await.unwrap();
    let tool = |name: &str| manifest.tools.iter().find(|tool| tool.name == name).unwrap();
    let body = |name: &str| tool(name).input_schema["properties"]["body"].clone();
    assert_eq!(body("zip")["contentEncoding"], "base64");
    assert_eq!(body("text")["type"], "string");
    assert_eq!(tool("json").input_schema["required"], json!(["body"]));
}
