//! One call in, one result out.

use std::sync::Arc;

use axum::routing::post;
use axum::{Json, Router};
use drawgate_core::model::ErrorCode;
use drawgate_core::pipeline::CallOptions;
use drawgate_sources::oneshot::OneshotSource;
use serde_json::{Value, json};

use crate::support::{code, echo, echo_with, fixture, gate, host, id, invocation, text, until};

pub(crate) fn manifest() -> Value {
    let schema = json!({ "type": "object", "properties": { "message": { "type": "string" } } });
    json!({ "tools": [{ "name": "echo", "description": "answers", "inputSchema": schema }] })
}

pub(crate) fn source(config: Value) -> Arc<OneshotSource> {
    Arc::new(OneshotSource::new(id(), serde_json::from_value(config).unwrap(), &host()).unwrap())
}

pub(crate) fn program(mode: &str, extra: &[&str]) -> Value {
    let mut args = vec![fixture("oneshot.py"), mode.to_owned()];
    args.extend(extra.iter().map(|arg| (*arg).to_owned()));
    json!({ "transport": "stdio", "command": "python3", "args": args, "manifest": manifest() })
}

#[tokio::test]
async fn a_program_is_started_for_each_call() {
    let gate = gate(&source(program("echo", &[]))).await;
    for message in ["one", "two"] {
        assert_eq!(text(&echo(&gate, message).await), format!("echo: {message}"));
    }
}

#[tokio::test]
async fn failures_are_the_tools_own() {
    let error = echo(&gate(&source(program("failing", &[]))).await, "x").await.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::ExecutionFailed, "will not"));
    assert_eq!(error.details, Some(json!({ "code": "NOPE" })));
    let silent = echo(&gate(&source(program("silent", &[]))).await, "x").await.error.unwrap();
    assert!(silent.message.contains("without a result; it said: I refuse"), "{}", silent.message);
}

#[tokio::test]
async fn a_deadline_ends_the_program_and_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let gate = gate(&source(program("slow", &[&file.display().to_string()]))).await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let child = || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
    let call = echo_with(&gate, invocation("x", None), options);
    let watch = async {
        until("the grandchild runs", || child().is_some()).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(call, watch);
    assert_eq!(code(&result), Some(ErrorCode::Cancelled));
    let pid = child().unwrap();
    let gone = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_or(true, |stat| stat.contains(") Z "))
    };
    until("the grandchild is gone", gone).await;
}

#[tokio::test]
async fn an_address_gets_the_call_by_post() {
    let answer = |Json(call): Json<Value>| async move {
        let text = format!(
            "{}: {}",
            call["name"].as_str().unwrap(),
            call["arguments"]["message"].as_str().unwrap()
        );
        Json(json!({ "success": true, "content": [{ "type": "text", "text": text }] }))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/call", listener.local_addr().unwrap());
    tokio::spawn(
        async move { axum::serve(listener, Router::new().route("/call", post(answer))).await },
    );
    let gate_for =
        |url: String| source(json!({ "transport": "http", "url": url, "manifest": manifest() }));
    assert_eq!(text(&echo(&gate(&gate_for(url.clone())).await, "hi").await), "echo: hi");
    let missing = echo(&gate(&gate_for(format!("{url}/no"))).await, "hi").await;
    assert_eq!(code(&missing), Some(ErrorCode::Unavailable));
}
