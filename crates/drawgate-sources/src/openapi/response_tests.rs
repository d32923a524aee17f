use bytes::Bytes;
use http::HeaderValue;
use serde_json::json;
use url::Url;

use super::*;

fn answer(status: u16, media: &str, body: impl Into<Bytes>) -> Fetched {
    let mut headers = HeaderMap::new();
    if !media.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(media).unwrap());
    }
    let status = StatusCode::from_u16(status).unwrap();
    Fetched { url: Url::parse("http://a.example/").unwrap(), status, headers, body: body.into() }
}

fn get(status: u16, media: &str, body: impl Into<Bytes>) -> ToolOutput {
    output(&Method::GET, &answer(status, media, body), "openapi://up/tool")
}

fn text_of(output: &ToolOutput) -> &str {
    output.content[0]["text"].as_str().unwrap()
}

#[test]
fn json_is_text_and_structure() {
    for (media, body, structured) in [
        ("application/json", r#"{"a": 1}"#, json!({ "a": 1 })),
        ("application/hal+json; charset=utf-8", r#"{"a":1}"#, json!({ "a": 1 })),
        ("", r#"{"a":1}"#, json!({ "a": 1 })),
        ("application/json", "[1,2]", json!({ "value": [1, 2] })),
        ("application/json", "null", json!({ "value": null })),
        ("application/json", r#""x""#, json!({ "value": "x" })),
    ] {
        let output = get(200, media, body);
        assert_eq!((text_of(&output), &output.structured), (body, &Some(structured)), "{media}");
        assert!(!output.is_error);
    }
    // Parsers disagree about such an object; the text is all that can be passed on.
    let twice = get(200, "application/json", r#"{"a":1,"a":2}"#);
    assert_eq!((text_of(&twice), &twice.structured), (r#"{"a":1,"a":2}"#, &None));
}

#[test]
fn other_content_is_what_it_is() {
    assert_eq!(text_of(&get(200, "text/csv", "a,b")), "a,b");
    assert_eq!(text_of(&get(200, "application/xml", "<a/>")), "<a/>");
    assert_eq!(text_of(&get(200, "text/plain; charset=ISO-8859-1", &b"\xe9"[..])), "é");
    let image = get(200, "image/png", &b"\x89PNG"[..]);
    let block = json!({ "type": "image", "data": "iVBORw==", "mimeType": "image/png" });
    assert_eq!(image.content, [block]);
    let file = get(200, "application/pdf", &b"%PDF"[..]);
    let resource =
        json!({ "uri": "openapi://up/tool", "mimeType": "application/pdf", "blob": "JVBERg==" });
    assert_eq!(file.content, [json!({ "type": "resource", "resource": resource })]);
    assert_eq!(text_of(&get(204, "", "")), "HTTP 204 No Content: no content");
    let mut made = answer(201, "", "");
    made.headers.insert(header::LOCATION, HeaderValue::from_static("/pets/7"));
    let made = output(&Method::POST, &made, "");
    assert_eq!(text_of(&made), "HTTP 201 Created: no content, location `/pets/7`");
}

#[test]
fn failures_carry_status_and_body_within_bounds() {
    let failed = get(404, "application/problem+json", r#"{"title":"gone"}"#);
    assert!(failed.is_error);
    assert_eq!(text_of(&failed), "HTTP 404 Not Found\n{\"title\":\"gone\"}");
    let details = json!({ "status": 404, "body": { "title": "gone" } });
    assert_eq!(failed.structured, Some(details));
    let long = get(500, "text/html", "x".repeat(1_000_000));
    assert!(text_of(&long).len() < MAX_FAILURE + 100);
    assert!(text_of(&long).ends_with("1000000 bytes in all"));
    let binary = get(502, "application/pdf", &b"\0\0"[..]);
    assert_eq!(text_of(&binary), "HTTP 502 Bad Gateway");
    assert!(get(302, "", "").is_error);
}

#[test]
fn a_head_is_told_by_its_headers() {
    let mut head = answer(200, "text/plain", "");
    head.headers.insert(header::ETAG, HeaderValue::from_static("\"a\""));
    head.headers.insert(header::SET_COOKIE, HeaderValue::from_static("session=1"));
    let output = output(&Method::HEAD, &head, "");
    assert_eq!(text_of(&output), "HTTP 200 OK\ncontent-type: text/plain\netag: \"a\"");
}
