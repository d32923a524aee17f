//! Credentials: in their place, of the first alternative that is configured, and nowhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use drawgate_core::source::ToolSource;
use serde_json::{Value, json};

use super::{Echo, api, call, document, gate, said, seen, serve};

const VARIABLES: [(&str, &str); 3] =
    [("KEY", "k3y/&=secret"), ("TOKEN", "t0ken-secret"), ("PASSWORD", "pässw0rd:secret")];

fn secured(server: &str, needs: &Value) -> Value {
    let mut paths = serde_json::Map::new();
    for (id, security) in needs.as_object().unwrap() {
        let mut operation = json!({ "operationId": id });
        if !security.is_null() {
            operation["security"] = security.clone();
        }
        paths.insert(format!("/{id}"), json!({ "get": operation }));
    }
    let mut document = document(server, paths.into());
    document["security"] = json!([{ "bearer": [] }]);
    document["components"] = json!({ "securitySchemes": {
        "inHeader": { "type": "apiKey", "in": "header", "name": "X-Key" },
        "inQuery": { "type": "apiKey", "in": "query", "name": "api key" },
        "inCookie": { "type": "apiKey", "in": "cookie", "name": "sid" },
        "bearer": { "type": "http", "scheme": "bearer" },
        "basic": { "type": "http", "scheme": "Basic" },
        "tls": { "type": "mutualTLS" },
        "machine": { "type": "oauth2", "flows": { "clientCredentials": {
            "tokenUrl": format!("{server}/token"), "scopes": {},
        } } },
    } });
    document
}

#[tokio::test]
async fn each_scheme_has_its_place() {
    let echo = Echo::start();
    let needs = json!({
        "header": [{ "inHeader": [] }], "query": [{ "inQuery": [] }], "cookie": [{ "inCookie": [] }],
        "inherited": null, "basic": [{ "basic": [] }], "none": [], "optional": [{}, { "inHeader": [] }],
        "second": [{ "tls": [] }, { "inHeader": [] }], "both": [{ "inHeader": [], "inCookie": [] }],
    });
    let auth = json!({ "auth": {
        "inHeader": "env:KEY", "inQuery": "env:KEY", "inCookie": "env:KEY", "bearer": "env:TOKEN",
        "basic": { "username": "ann", "password": "env:PASSWORD" },
    } });
    let api = api(&secured(&echo.url, &needs), auth, &VARIABLES);
    let gate = gate(&api).await;
    let basic = "Basic YW5uOnDDpHNzdzByZDpzZWNyZXQ=";
    for (tool, target, key, cookie, authorization) in [
        ("header", "/header", Some(VARIABLES[0].1), None, None),
        ("query", "/query?api%20key=k3y%2F%26%3Dsecret", None, None, None),
        ("cookie", "/cookie", None, Some("sid=k3y%2F%26%3Dsecret"), None),
        ("inherited", "/inherited", None, None, Some("Bearer t0ken-secret")),
        ("basic", "/basic", None, None, Some(basic)),
        ("none", "/none", None, None, None),
        ("optional", "/optional", Some(VARIABLES[0].1), None, None),
        ("second", "/second", Some(VARIABLES[0].1), None, None),
        ("both", "/both", Some(VARIABLES[0].1), Some("sid=k3y%2F%26%3Dsecret"), None),
    ] {
        let seen = seen(&gate, &echo, tool, json!({})).await;
        assert_eq!(seen["target"], target);
        let header = |name: &str| seen["headers"].get(name).and_then(Value::as_str);
        assert_eq!(header("x-key"), key, "{tool}");
        assert_eq!(header("cookie"), cookie, "{tool}");
        assert_eq!(header("authorization"), authorization, "{tool}");
    }
    // All forms in which they could come back are known to who masks them.
    let known = api.host.secrets.known_values();
    for form in
        ["k3y/&=secret", "k3y%2F%26%3Dsecret", "t0ken-secret", "YW5uOnDDpHNzdzByZDpzZWNyZXQ="]
    {
        assert!(known.iter().any(|value| value == form), "{form}");
    }
}

#[tokio::test]
async fn what_is_not_configured_is_named_and_nothing_is_sent() {
    let echo = Echo::start();
    let needs = json!({
        "one": [{ "inQuery": [] }, { "basic": [], "tls": [] }], "two": [{ "inHeader": [] }], "three": null,
    });
    let headers = json!({ "headers": { "X-Key": "env:KEY", "Authorization": "Bearer x" } });
    let api = api(&secured(&echo.url, &needs), headers, &VARIABLES);
    let gate = gate(&api).await;
    let result = call(&gate, "one", json!({})).await;
    let expected = "`inQuery` (API key in the query), or `basic` (user name and password) with `tls` (client certificates";
    assert!(!result.success && said(&result).contains(expected), "{}", said(&result));
    assert_eq!(echo.take(), [] as [Value; 0]);
    // The connector's own headers are as good.
    assert_eq!(seen(&gate, &echo, "two", json!({})).await["headers"]["x-key"], VARIABLES[0].1);
    assert_eq!(
        seen(&gate, &echo, "three", json!({})).await["headers"]["authorization"],
        "Bearer x"
    );
}

#[tokio::test]
async fn what_the_connector_sets_no_caller_can() {
    let echo = Echo::start();
    let parameters = json!([
        { "name": "x-key", "in": "header", "schema": {} },
        { "name": "api key", "in": "query", "schema": {} },
        { "name": "X-Own", "in": "header", "schema": {} },
        { "name": "free", "in": "query", "schema": {} },
    ]);
    let mut document = secured(&echo.url, &json!({ "one": [{ "inHeader": [], "inQuery": [] }] }));
    document["paths"]["/one"]["get"]["parameters"] = parameters;
    let more = json!({
        "headers": { "x-own": "mine", "Cookie": "c=1", "Accept": "application/x" },
        "auth": { "inHeader": "env:KEY", "inQuery": "env:KEY" },
    });
    let api = api(&document, more, &VARIABLES);
    let gate = gate(&api).await;
    let manifest = api.source.manifest().await.unwrap();
    let names: Vec<&String> =
        manifest.tools[0].input_schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["free"]);
    let seen = seen(&gate, &echo, "one", json!({ "free": "x" })).await;
    assert_eq!(seen["target"], "/one?free=x&api%20key=k3y%2F%26%3Dsecret");
    for (name, value) in [("x-own", "mine"), ("cookie", "c=1"), ("accept", "application/x")] {
        assert_eq!(seen["headers"][name], value);
    }
}

#[tokio::test]
async fn faults_in_credentials_show_early() {
    let config = |more: Value| {
        let mut config = json!({ "spec_path": "/absent.json" });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let config = serde_json::from_value(config).unwrap();
        let host = super::host(&[]);
        let source = drawgate_sources::openapi::OpenApiSource::new(super::id(), config, &host);
        source.err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (more, expected) in [
        (json!({ "auth": { "a": "env:ABSENT" } }), "that refers to it (in `auth.a`)"),
        (
            json!({ "auth": { "a": { "username": "u", "password": "env:ABSENT" } } }),
            "the environment variable `ABSENT` is not set; set it, or change the `env:ABSENT` that refers to it (in `auth.a.password`)",
        ),
        (json!({ "headers": { "H": "env:ABSENT" } }), "that refers to it (in `headers.H`)"),
        (json!({ "base_url": "env:ABSENT" }), "that refers to it (in `base_url`)"),
        (json!({ "base_url": "http://u:p@h" }), "`base_url`: the address holds a user name"),
        (json!({ "base_url": "/v1" }), "`base_url`: not an address"),
        (json!({ "headers": { "Host": "x" } }), "`headers.Host`: the gateway can't send"),
        (
            json!({ "headers": { "Keep-Alive": "x" } }),
            "`headers.Keep-Alive`: the gateway can't send",
        ),
        (json!({ "headers": { "Content_Length": "9" } }), "the gateway can't send"),
        (json!({ "headers": { "HTTP2-Settings": "x" } }), "the gateway can't send"),
        (json!({ "headers": { "H": "a\nb" } }), "`headers.H`: the value can't stand in a header"),
        (json!({ "spec_url": "http://h/" }), "`spec_url` has no meaning here"),
        (json!({ "spec_path": "api.json" }), "`spec_path`: must be an absolute path"),
        (json!({ "concurrency": 0 }), "`concurrency`: must be from 1 to 256"),
    ] {
        let found = config(more.clone());
        assert!(found.contains(expected), "{more}: {found}");
    }
    let document = secured("http://127.0.0.1:1", &json!({ "one": null }));
    for (auth, expected) in [
        (json!({ "baerer": "x" }), "no security scheme of this name; did you mean `bearer`?"),
        (json!({ "bearer": { "username": "u" } }), "`auth.bearer`: takes one text"),
        (json!({ "tls": "x" }), "`auth.tls`: the scheme is client certificates"),
        (json!({ "inHeader": "a\nb" }), "`auth.inHeader`: the value can't stand in a header"),
    ] {
        let api = api(&document, json!({ "auth": auth }), &[]);
        let found = api.source.manifest().await.unwrap_err().to_string();
        assert!(found.contains(expected), "{auth}: {found}");
    }
}

#[tokio::test]
async fn no_scheme_takes_a_header_that_leads_or_frames_the_request() {
    let echo = Echo::start();
    for name in [
        "Host",
        "host",
        "Content-Length",
        "content_length",
        "Transfer-Encoding",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Proxy-Authorization",
        "Proxy-Connection",
        "Content-Type",
        "HTTP2-Settings",
    ] {
        let mut document = secured(&echo.url, &json!({ "one": [{ "inHeader": [] }] }));
        document["components"]["securitySchemes"]["inHeader"]["name"] = json!(name);
        let api = api(&document, json!({ "auth": { "inHeader": "env:KEY" } }), &VARIABLES);
        let found = api.source.manifest().await.err().map(|error| error.to_string());
        let expected = "`auth.inHeader`: the scheme asks for the header";
        let found = found.unwrap_or_default();
        assert!(found.contains(expected), "{name}: {found}");
    }
}

/// Gives out `token-1`, `token-2` …, and takes only the ones that are not the first.
fn authorization_server(asked: &Arc<AtomicUsize>, life: u64) -> String {
    let asked = Arc::clone(asked);
    let token = move |headers: HeaderMap, body: String| async move {
        let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
        assert_eq!(headers["authorization"], "Basic aWQ6cyUyRmVjcmV0");
        assert_eq!(body, "grant_type=client_credentials&scope=a%20b");
        json!({ "access_token": format!("token-{number}"), "token_type": "Bearer", "expires_in": life })
            .to_string()
    };
    let guarded = |headers: HeaderMap| async move {
        match headers["authorization"].to_str().unwrap() {
            "Bearer token-1" => (StatusCode::UNAUTHORIZED, "stale".to_owned()),
            other => (StatusCode::OK, format!("by {}", other.len())),
        }
    };
    serve(Router::new().route("/token", post(token)).route("/one", get(guarded)))
}

#[tokio::test]
async fn tokens_are_fetched_kept_and_replaced_once_when_refused() {
    let asked = Arc::new(AtomicUsize::new(0));
    let server = authorization_server(&asked, 3600);
    let auth =
        json!({ "auth": { "machine": { "client_id": "id", "client_secret": "env:SECRET" } } });
    let document = secured(&server, &json!({ "one": [{ "machine": ["a", "b"] }] }));
    let api = api(&document, auth, &[("SECRET", "s/ecret")]);
    let gate = gate(&api).await;
    let calls = (0..4).map(|_| call(&gate, "one", json!({})));
    for result in futures_util::future::join_all(calls).await {
        assert!(result.success, "{}", said(&result));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "one that was refused, one for all others");
    assert!(api.host.secrets.known_values().contains(&"token-2".to_owned()));
}

#[tokio::test]
async fn a_token_that_is_about_to_end_is_not_used_again() {
    let asked = Arc::new(AtomicUsize::new(1));
    let server = authorization_server(&asked, 0);
    let auth = json!({ "auth": { "machine": { "client_id": "id", "client_secret": "s/ecret" } } });
    let api = api(&secured(&server, &json!({ "one": [{ "machine": ["a", "b"] }] })), auth, &[]);
    let gate = gate(&api).await;
    for _ in 0..2 {
        assert!(call(&gate, "one", json!({})).await.success);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn no_token_is_an_error_without_secrets() {
    let deny = || async { (StatusCode::BAD_REQUEST, r#"{"error":"invalid_client","x":"s3cret"}"#) };
    let server = serve(Router::new().route("/token", post(deny)));
    let auth =
        json!({ "auth": { "machine": { "client_id": "id", "client_secret": "env:SECRET" } } });
    let document = secured(&server, &json!({ "one": [{ "machine": [] }] }));
    let api = api(&document, auth, &[("SECRET", "s3cret")]);
    let gate = gate(&api).await;
    let result = call(&gate, "one", json!({})).await;
    assert!(said(&result).contains("HTTP 400 (`invalid_client`)"), "{}", said(&result));
    assert!(!said(&result).contains("s3cret"));
}

#[tokio::test]
async fn a_key_in_the_query_is_in_no_message() {
    let document = secured("http://127.0.0.1:1", &json!({ "one": [{ "inQuery": [] }] }));
    let api = api(&document, json!({ "auth": { "inQuery": "env:KEY" } }), &VARIABLES);
    let gate = gate(&api).await;
    let result = call(&gate, "one", json!({})).await;
    assert!(said(&result).contains("no connection"), "{}", said(&result));
    assert!(!said(&result).contains("k3y"), "{}", said(&result));
}
