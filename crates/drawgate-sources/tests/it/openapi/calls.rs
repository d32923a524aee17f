//! What becomes of calls: retries, redirects, reach, limits, and where documents come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use drawgate_core::model::ErrorCode;
use drawgate_core::source::ToolSource;
use drawgate_sources::openapi::OpenApiSource;
use serde_json::{Value, json};

use super::{Api, Echo, api, call, document, gate, host, said, seen, serve};
use crate::support::{code, id};

fn operations() -> Value {
    json!({ "/a": {
        "get": { "operationId": "get" }, "post": { "operationId": "post" },
        "delete": { "operationId": "delete", "deprecated": true, "summary": "Deletes it",
            "description": "For good." },
    } })
}

/// Fails some times before it works.
fn flaky(failures: usize, status: StatusCode, count: &Arc<AtomicUsize>) -> String {
    let count = Arc::clone(count);
    let answer = move || async move {
        if count.fetch_add(1, Ordering::SeqCst) < failures {
            return (status, [(header::RETRY_AFTER, "0")], "busy").into_response();
        }
        "fine".into_response()
    };
    serve(Router::new().fallback(answer))
}

#[tokio::test]
async fn only_what_can_be_repeated_is() {
    for (tool, failures, status, retries, expected) in [
        ("get", 2, 503, 2, (true, 3)),
        ("delete", 1, 429, 2, (true, 2)),
        ("get", 2, 502, 1, (false, 2)),
        ("get", 1, 500, 2, (false, 1)),
        ("post", 1, 503, 2, (false, 1)),
        ("get", 1, 503, 0, (false, 1)),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let server = flaky(failures, StatusCode::from_u16(status).unwrap(), &count);
        let api = api(&document(&server, operations()), json!({ "retries": retries }), &[]);
        let result = call(&gate(&api).await, tool, json!({})).await;
        let found = (result.success, count.load(Ordering::SeqCst));
        assert_eq!(found, expected, "{tool} {status} {}", said(&result));
        if !result.success {
            assert!(said(&result).contains(&format!("HTTP {status}")), "{}", said(&result));
            assert!(said(&result).contains("busy"));
        }
    }
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_server_and_to_read() {
    let other = Echo::start();
    let away = format!("{}/away", other.url);
    let to =
        |place: String| move || async move { (StatusCode::FOUND, [(header::LOCATION, place)]) };
    let router = Router::new()
        .route(
            "/a",
            get(to("/b?x=1".to_owned())).post(to("/b".to_owned())).delete(to(away.clone())),
        )
        .route("/b", get(|| async { "there" }).post(|| async { "wrong" }));
    let server = serve(router);
    let api = api(&document(&server, operations()), json!({ "headers": { "X-Key": "k" } }), &[]);
    let gate = gate(&api).await;
    assert!(said(&call(&gate, "get", json!({})).await).contains("there"));
    for tool in ["post", "delete"] {
        let result = call(&gate, tool, json!({})).await;
        assert!(!result.success && said(&result).contains("HTTP 302"), "{}", said(&result));
    }
    assert_eq!(other.take(), [] as [Value; 0]);
}

#[tokio::test]
async fn only_admitted_hosts_are_reached() {
    let echo = Echo::start();
    let unlisted = api(&document(&echo.url, operations()), json!({ "hosts": ["a.example"] }), &[]);
    let unsaid = api(&document(&echo.url, operations()), json!({ "hosts": null }), &[]);
    for refused in [unlisted, unsaid] {
        let result = call(&gate(&refused).await, "get", json!({})).await;
        assert!(said(&result).contains("was refused"), "{}", said(&result));
    }
    assert_eq!(echo.take(), [] as [Value; 0]);
    // An operator who writes the address means it.
    let more = json!({ "hosts": null, "base_url": echo.url });
    let written = api(&document("https://a.example", operations()), more, &[]);
    assert_eq!(seen(&gate(&written).await, &echo, "get", json!({})).await["target"], "/a");
}

#[tokio::test]
async fn an_api_that_is_down_or_silent_is_named_so() {
    let down = api(&document("http://127.0.0.1:1", operations()), json!({}), &[]);
    let result = call(&gate(&down).await, "get", json!({})).await;
    assert_eq!(code(&result), Some(ErrorCode::Unavailable));
    let silent = serve(Router::new().fallback(std::future::pending::<String>));
    let api = api(&document(&silent, operations()), json!({ "timeout_seconds": 1 }), &[]);
    let result = call(&gate(&api).await, "get", json!({})).await;
    assert_eq!(code(&result), Some(ErrorCode::Timeout));
    assert!(said(&result).contains("within 1 s"), "{}", said(&result));
}

#[tokio::test]
async fn requests_under_way_are_bounded() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (at_once, highest) = (Arc::clone(&now), Arc::clone(&most));
    let answer = move || async move {
        highest.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        at_once.fetch_sub(1, Ordering::SeqCst);
        "fine"
    };
    let server = serve(Router::new().fallback(answer));
    let api = api(&document(&server, operations()), json!({ "concurrency": 2 }), &[]);
    let gate = gate(&api).await;
    let calls = (0..12).map(|_| call(&gate, "get", json!({})));
    for result in futures_util::future::join_all(calls).await {
        assert!(result.success, "{}", said(&result));
    }
    assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
}

async fn names(api: &Api) -> Result<Vec<String>, String> {
    let manifest = api.source.manifest().await.map_err(|error| error.to_string())?;
    Ok(manifest.tools.into_iter().map(|tool| tool.name).collect())
}

#[tokio::test]
async fn operations_are_chosen_and_named() {
    let paths = json!({
        "/pets": { "get": { "operationId": "listPets", "tags": ["read"] }, "post": { "operationId": "makePet" } },
        "/pets/{id}": { "get": { "tags": ["read"] }, "delete": { "operationId": "removePet" } },
    });
    for (operations, expected) in [
        (json!({}), Ok(vec!["list_pets", "make_pet", "get_pets_by_id", "remove_pet"])),
        (
            json!({ "include": ["tag:read"], "prefix": "p_" }),
            Ok(vec!["p_list_pets", "p_get_pets_by_id"]),
        ),
        (json!({ "exclude": ["DELETE *", "make*"] }), Ok(vec!["list_pets", "get_pets_by_id"])),
        (json!({ "include": ["GET /pets/*"] }), Ok(vec!["get_pets_by_id"])),
        (json!([{ "name": "mine", "operation_id": "removePet" }]), Ok(vec!["mine"])),
        (
            json!([{ "name": "mine", "operation_id": "removPet" }]),
            Err("unknown operation `removPet`; did you mean `removePet`?"),
        ),
        (json!({ "exclude": ["delte*"] }), Err("no operation matches `delte*`")),
        (json!({ "include": ["makePet"], "exclude": ["*"] }), Err("no operation is left")),
    ] {
        let api = api(
            &document("http://a.example", paths.clone()),
            json!({ "operations": operations }),
            &[],
        );
        match (names(&api).await, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{operations}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{operations}: {found:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn descriptions_and_hints_come_from_the_document() {
    let api = api(&document("http://a.example", operations()), json!({}), &[]);
    let manifest = api.source.manifest().await.unwrap();
    let tool = manifest.tools.iter().find(|tool| tool.name == "delete").unwrap();
    assert_eq!(tool.description, "Deprecated.\n\nDeletes it\n\nFor good.\n\n`DELETE /a`");
    let hints = tool.own_annotations().unwrap();
    assert_eq!((hints.read_only, &hints.rest["destructiveHint"]), (None, &json!(true)));
    let tool = manifest.tools.iter().find(|tool| tool.name == "get").unwrap();
    assert_eq!(tool.own_annotations().unwrap().read_only, Some(true));
}

#[tokio::test]
async fn a_document_comes_by_address_too() {
    let echo = Echo::start();
    let mut text = document("/v2", operations());
    text["info"]["title"] = json!("By address");
    let yaml = "openapi: 3.1.0\npaths:\n  /y: {get: {operationId: yaml}}\n";
    let json_text = text.to_string();
    let api_server = serve(
        Router::new()
            .route("/docs/api.json", get(move || async move { json_text }))
            .route("/docs/api.yaml", get(move || async move { yaml }))
            .route("/v2/a", get(|| async { "from v2" })),
    );
    let source = |config: Value| {
        let host = host(&[("SPEC", &format!("{api_server}/docs/api.json"))]);
        OpenApiSource::new(id(), serde_json::from_value(config).unwrap(), &host).unwrap()
    };
    let by_address = Arc::new(source(json!({ "spec_url": "env:SPEC" })));
    let gate = crate::support::gate(&by_address).await;
    assert!(said(&call(&gate, "get", json!({})).await).contains("from v2"));
    let yaml =
        source(json!({ "spec_url": format!("{api_server}/docs/api.yaml"), "base_url": echo.url }));
    assert_eq!(yaml.manifest().await.unwrap().tools[0].name, "yaml");
    let absent = source(json!({ "spec_url": format!("{api_server}/absent") }));
    let error = absent.manifest().await.unwrap_err().to_string();
    assert!(error.contains("`spec_url` answered with HTTP 404"), "{error}");
}

#[tokio::test]
async fn a_server_must_be_known_when_the_document_is_read() {
    for (servers, expected) in [
        (
            json!([{ "url": "/v1" }]),
            "the server address `/v1` of the OpenAPI document is not absolute; set `base_url`",
        ),
        (json!([]), "names no server; set `base_url`"),
    ] {
        let mut document = document("", operations());
        document["servers"] = servers;
        let error = names(&api(&document, json!({}), &[])).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
        let with_base = api(&document, json!({ "base_url": "http://a.example" }), &[]);
        assert_eq!(names(&with_base).await.unwrap().len(), 3);
    }
}
