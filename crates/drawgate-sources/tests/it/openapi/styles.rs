//! Every style of the specification, byte for byte.

use drawgate_core::model::ErrorCode;
use serde_json::{Value, json};

use super::{Echo, api, document, gate, seen};
use crate::support::code;

fn list() -> Value {
    json!(["blue", "b ck", "br/n"])
}

fn object() -> Value {
    json!({ "R": 100, "G": 2.5, "B x": "a&b" })
}

/// Place, style, explode, value, and what the server must see: the end of the path, the query, the
/// header or the cookies.
#[expect(clippy::too_many_lines, reason = "a table")]
fn rows() -> Vec<(&'static str, &'static str, bool, Value, &'static str)> {
    vec![
        ("path", "simple", false, json!("a b/ü?#%"), "/a%20b%2F%C3%BC%3F%23%25"),
        ("path", "simple", false, json!(5), "/5"),
        ("path", "simple", false, json!(5.0), "/5"),
        ("path", "simple", false, json!(-0.5), "/-0.5"),
        ("path", "simple", false, json!(true), "/true"),
        ("path", "simple", false, json!("...a/.b/c.."), "/...a%2F.b%2Fc.."),
        ("path", "simple", false, json!("a\\b"), "/a%5Cb"),
        ("path", "simple", false, json!("100%25"), "/100%2525"),
        ("path", "simple", false, list(), "/blue,b%20ck,br%2Fn"),
        ("path", "simple", true, list(), "/blue,b%20ck,br%2Fn"),
        ("path", "simple", false, object(), "/R,100,G,2.5,B%20x,a%26b"),
        ("path", "simple", true, object(), "/R=100,G=2.5,B%20x=a%26b"),
        ("path", "label", false, json!("blue"), "/.blue"),
        ("path", "label", false, list(), "/.blue,b%20ck,br%2Fn"),
        ("path", "label", true, list(), "/.blue.b%20ck.br%2Fn"),
        ("path", "label", false, object(), "/.R,100,G,2.5,B%20x,a%26b"),
        ("path", "label", true, object(), "/.R=100.G=2.5.B%20x=a%26b"),
        ("path", "matrix", false, json!("blue"), "/;color=blue"),
        ("path", "matrix", false, json!(""), "/;color"),
        ("path", "matrix", false, list(), "/;color=blue,b%20ck,br%2Fn"),
        ("path", "matrix", true, list(), "/;color=blue;color=b%20ck;color=br%2Fn"),
        ("path", "matrix", false, object(), "/;color=R,100,G,2.5,B%20x,a%26b"),
        ("path", "matrix", true, object(), "/;R=100;G=2.5;B%20x=a%26b"),
        ("query", "form", true, json!("a b&c=d+e#'"), "?color=a%20b%26c%3Dd%2Be%23%27"),
        ("query", "form", true, json!(""), "?color="),
        ("query", "form", true, json!("\r\nX: y"), "?color=%0D%0AX%3A%20y"),
        ("query", "form", true, list(), "?color=blue&color=b%20ck&color=br%2Fn"),
        ("query", "form", false, list(), "?color=blue,b%20ck,br%2Fn"),
        ("query", "form", false, json!(["a,b", "c"]), "?color=a%2Cb,c"),
        ("query", "form", true, json!([]), ""),
        ("query", "form", false, json!([]), ""),
        ("query", "form", true, object(), "?R=100&G=2.5&B%20x=a%26b"),
        ("query", "form", false, object(), "?color=R,100,G,2.5,B%20x,a%26b"),
        ("query", "form", false, json!([{ "a": 1 }]), "?color=%7B%22a%22%3A1%7D"),
        ("query", "spaceDelimited", false, list(), "?color=blue%20b%20ck%20br%2Fn"),
        ("query", "spaceDelimited", true, list(), "?color=blue&color=b%20ck&color=br%2Fn"),
        ("query", "spaceDelimited", false, object(), "?color=R%20100%20G%202.5%20B%20x%20a%26b"),
        ("query", "pipeDelimited", false, list(), "?color=blue%7Cb%20ck%7Cbr%2Fn"),
        ("query", "pipeDelimited", true, list(), "?color=blue&color=b%20ck&color=br%2Fn"),
        ("query", "pipeDelimited", false, object(), "?color=R%7C100%7CG%7C2.5%7CB%20x%7Ca%26b"),
        (
            "query",
            "deepObject",
            true,
            object(),
            "?color%5BR%5D=100&color%5BG%5D=2.5&color%5BB%20x%5D=a%26b",
        ),
        (
            "query",
            "deepObject",
            true,
            json!({ "a": { "b": [1, { "c": "d" }] }, "e": null }),
            "?color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B1%5D%5Bc%5D=d",
        ),
        ("header", "simple", false, json!("a b;c"), "a b;c"),
        ("header", "simple", false, list(), "blue,b ck,br/n"),
        ("header", "simple", true, list(), "blue,b ck,br/n"),
        ("header", "simple", false, object(), "R,100,G,2.5,B x,a&b"),
        ("header", "simple", true, object(), "R=100,G=2.5,B x=a&b"),
        ("cookie", "form", true, json!("a b;c=d"), "color=a%20b%3Bc%3Dd"),
        ("cookie", "form", false, list(), "color=blue,b%20ck,br%2Fn"),
        ("cookie", "form", true, list(), "color=blue; color=b%20ck; color=br%2Fn"),
        ("cookie", "form", false, object(), "color=R,100,G,2.5,B%20x,a%26b"),
        ("cookie", "form", true, object(), "R=100; G=2.5; B%20x=a%26b"),
    ]
}

#[tokio::test]
async fn every_style_in_every_place() {
    let rows = rows();
    let paths = rows.iter().enumerate().map(|(index, (place, style, explode, _, _))| {
        let slot = if *place == "path" { "/{color}" } else { "" };
        let parameter = json!({
            "name": "color", "in": place, "style": style, "explode": explode, "required": true, "schema": {},
        });
        let operation = json!({ "operationId": format!("row{index}"), "parameters": [parameter] });
        (format!("/r{index}{slot}"), json!({ "get": operation }))
    });
    let echo = Echo::start();
    let document = document(&format!("{}/v1/", echo.url), paths.collect());
    let api = api(&document, json!({}), &[]);
    let gate = gate(&api).await;
    for (index, (place, style, explode, value, expected)) in rows.iter().enumerate() {
        let seen = seen(&gate, &echo, &format!("row{index}"), json!({ "color": value })).await;
        let found = match *place {
            "header" => seen["headers"]["color"].as_str().unwrap(),
            "cookie" => seen["headers"]["cookie"].as_str().unwrap(),
            _ => {
                let target = seen["target"].as_str().unwrap();
                target.strip_prefix(&format!("/v1/r{index}")).unwrap()
            }
        };
        assert_eq!(found, *expected, "{place} {style} {explode} {value}");
        assert_eq!(seen["method"], "GET");
    }
}

/// What a path, a query and headers can hold, and what no caller may set.
fn mixed() -> Value {
    json!([
        { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
        { "name": "id", "in": "query", "schema": { "type": "array" } },
        { "name": "$filter", "in": "query", "schema": {} },
        { "name": "where", "in": "query", "content": { "application/json": { "schema": { "type": "object" } } } },
        { "name": "X-Where", "in": "header", "content": { "application/json": { "schema": {} } } },
        { "name": "url", "in": "query", "allowReserved": true, "schema": {} },
        { "name": "flag", "in": "query", "allowEmptyValue": true, "schema": {} },
        { "name": "body", "in": "query", "schema": {} },
        { "name": "Host", "in": "header", "schema": {} },
        { "name": "authorization", "in": "header", "schema": {} },
        { "name": "Content-Length", "in": "header", "schema": {} },
        { "name": "Proxy-Authorization", "in": "header", "schema": {} },
        { "name": "unused", "in": "path", "required": true, "schema": {} },
        { "name": "level", "in": "query", "schema": { "type": "integer" } },
    ])
}

#[tokio::test]
async fn defaults_names_and_further_rules() {
    let paths = json!({ "/a/{id}/{forgotten}.{ext}": {
        "parameters": [
            { "name": "level", "in": "query", "schema": { "type": "string" } },
            { "name": "x-PATH", "in": "header", "schema": { "type": "string" } },
        ],
        "get": { "operationId": "get", "parameters": mixed() },
    } });
    let echo = Echo::start();
    let api = api(&document(&echo.url, paths), json!({}), &[]);
    let gate = gate(&api).await;
    let manifest = drawgate_core::source::ToolSource::manifest(&*api.source).await.unwrap();
    let schema = &manifest.tools[0].input_schema;
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "path_id",
            "query_id",
            "filter",
            "where",
            "X-Where",
            "url",
            "flag",
            "query_body",
            "level",
            "x-PATH",
            "forgotten",
            "ext"
        ]
    );
    assert_eq!(schema["required"], json!(["path_id", "forgotten", "ext"]));
    assert_eq!(schema["properties"]["level"]["type"], "integer");
    assert_eq!(schema["properties"]["filter"]["description"], "Sent as `$filter` in the query.");
    let seen = seen(
        &gate,
        &echo,
        "get",
        json!({
            "path_id": "1", "query_id": ["2", "3"], "filter": "a eq 'b'", "where": { "a": "ü b" },
            "X-Where": { "a": "ü" }, "url": "http://h/p?q=[1]&x=y+z#f%20", "flag": "", "query_body": 1,
            "forgotten": "a.b", "ext": "json", "x-PATH": "p",
        }),
    )
    .await;
    assert_eq!(
        seen["target"],
        "/a/1/a.b.json?id=2&id=3&%24filter=a%20eq%20%27b%27&where=%7B%22a%22%3A%22%C3%BC%20b%22%7D\
         &url=http://h/p?q=%5B1%5D%26x=y%2Bz%23f%20&flag=&body=1"
    );
    assert_eq!(seen["headers"]["x-where"], r#"{"a":"\u00fc"}"#);
    assert_eq!(seen["headers"]["x-path"], "p");
}

#[tokio::test]
async fn no_value_leaves_its_place() {
    let paths = json!({
        "/a/{x}/b": { "get": { "operationId": "segment", "parameters": [
            { "name": "H", "in": "header", "schema": {} },
        ] } },
        "/a/{x}{y}": { "get": { "operationId": "two" } },
        "/l/{x}": { "get": { "operationId": "label", "parameters": [
            { "name": "x", "in": "path", "required": true, "style": "label", "schema": {} },
        ] } },
        "/p/%2e{x}/x": { "get": { "operationId": "encoded" } },
        "/q/{x}%2E": { "get": { "operationId": "behind" } },
    });
    let echo = Echo::start();
    let api = api(&document(&echo.url, paths), json!({}), &[]);
    let gate = gate(&api).await;
    for (tool, arguments, reason) in [
        ("segment", json!({ "x": ".." }), "`x`: must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "." }), "`x`: must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "" }), "`x`: must not be empty in a path"),
        ("two", json!({ "x": ".", "y": "." }), "must not make `.` or `..` in a path"),
        ("label", json!({ "x": "." }), "must not make `.` or `..` in a path"),
        ("encoded", json!({ "x": "." }), "must not make `.` or `..` in a path"),
        ("encoded", json!({ "x": "%2e" }), "must not make `.` or `..` in a path"),
        ("behind", json!({ "x": "." }), "must not make `.` or `..` in a path"),
        ("behind", json!({ "x": "a/." }), "must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "../../etc" }), "must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "a/../b" }), "must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "a/./b" }), "must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "a\\..\\b" }), "must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "%2e%2E" }), "must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "a%2f..%2Fb" }), "must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "a%5c%2e%2e" }), "must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "%252e%252e" }), "must not make `.` or `..` in a path"),
        (
            "segment",
            json!({ "x": format!("%{}2e", "25".repeat(20)) }),
            "must not make `.` or `..` in a path",
        ),
        ("segment", json!({ "x": "..;a=b" }), "must not make `.` or `..` in a path"),
        ("label", json!({ "x": ["a/../c", "b"] }), "must not make `.` or `..` in a path"),
        ("segment", json!({ "x": "a", "H": "b\r\nX-Evil: c" }), "`H`: a header takes only"),
        ("segment", json!({ "x": "a", "H": "b\u{0}" }), "`H`: a header takes only"),
        ("segment", json!({ "x": "a", "H": "ü" }), "`H`: a header takes only"),
    ] {
        let result = super::call(&gate, tool, arguments.clone()).await;
        assert_eq!(code(&result), Some(ErrorCode::InvalidArguments), "{tool} {arguments}");
        assert!(super::said(&result).contains(reason), "{arguments}: {}", super::said(&result));
    }
    assert_eq!(echo.take(), [] as [Value; 0]);
}
