//! APIs described by `OpenAPI` documents, against a server that tells exactly what it was sent.

mod bodies;
mod calls;
mod documents;
mod hostile;
mod security;
mod servers;
mod shadows;
mod strays;
mod styles;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Query;
use axum::http::{HeaderMap, Method, Uri};
use axum::routing::get;
use drawgate_core::model::{ToolInvocation, ToolResult};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::ToolSource;
use drawgate_core::testing::conformance::Instances;
use drawgate_core::testing::{TestGate, caller};
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use drawgate_sources::openapi::OpenApiSource;
use serde_json::{Map, Value, json};
use tempfile::{NamedTempFile, TempDir};

use crate::support::id;

/// Serves on a free port, and gives the address.
pub(crate) fn serve(router: Router) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// A server that remembers each request as it was.
#[derive(Clone)]
pub(crate) struct Echo {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Echo {
    pub(crate) fn start() -> Self {
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let log = Arc::clone(&requests);
        let echo = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
            let headers: Map<String, Value> = headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()))
                .collect();
            let target = uri.path_and_query().unwrap().as_str();
            let body = String::from_utf8_lossy(&body);
            log.lock().unwrap().push(json!({
                "method": method.as_str(), "target": target, "headers": headers, "body": body,
            }));
            "ok"
        };
        Self { url: serve(Router::new().fallback(echo)), requests }
    }

    /// The requests since the last time.
    pub(crate) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

/// A source with its document and its machine.
pub(crate) struct Api {
    pub(crate) source: Arc<OpenApiSource>,
    pub(crate) host: Arc<Host>,
    _file: NamedTempFile,
}

pub(crate) fn host(variables: &[(&str, &str)]) -> Arc<Host> {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Arc::new(Host::new(Secrets::new(variables), None).unwrap())
}

/// A source of a document, with more of a configuration.
pub(crate) fn api(document: &Value, more: Value, variables: &[(&str, &str)]) -> Api {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), document.to_string()).unwrap();
    let mut config = json!({ "spec_path": file.path(), "hosts": ["127.0.0.1:*"], "retries": 0 });
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
    let host = host(variables);
    let config = serde_json::from_value(config).unwrap();
    let source = Arc::new(OpenApiSource::new(id(), config, &host).unwrap());
    Api { source, host, _file: file }
}

/// A document with these paths.
#[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
pub(crate) fn document(server: &str, paths: Value) -> Value {
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Test", "version": "1" },
        "servers": [{ "url": server }],
        "paths": paths,
    })
}

/// A gate where `ann` may call all of the source.
pub(crate) async fn gate(api: &Api) -> TestGate {
    let gate = TestGate::new().await;
    gate.grant("ann", "*", None).await;
    let registered = gate.register(Arc::clone(&api.source) as Arc<dyn ToolSource>).await;
    assert_eq!(registered.unwrap(), []);
    gate
}

pub(crate) async fn call(gate: &TestGate, tool: &str, arguments: Value) -> ToolResult {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let call = ToolInvocation {
        tool_id: format!("up:{tool}"),
        request_id: "r".to_owned(),
        arguments,
        ..ToolInvocation::default()
    };
    gate.gateway.call(&caller("ann"), call, CallOptions::default()).await
}

/// What the server saw of a call.
pub(crate) async fn seen(gate: &TestGate, echo: &Echo, tool: &str, arguments: Value) -> Value {
    let result = call(gate, tool, arguments).await;
    assert!(result.success, "{tool}: {:?} {:?}", result.error, result.content);
    let mut requests = echo.take();
    assert_eq!(requests.len(), 1, "{tool}: {requests:?}");
    requests.remove(0)
}

/// Everything that a caller gets to see.
pub(crate) fn said(result: &ToolResult) -> String {
    format!("{:?} {:?} {:?}", result.content, result.structured_content, result.error)
}

/// For the suite that every kind passes.
pub(crate) fn instances(folder: &TempDir) -> Instances {
    let echo = |Query(query): Query<BTreeMap<String, String>>| async move {
        query.get("message").cloned().unwrap_or_default()
    };
    let working = serve(Router::new().route("/echo", get(echo)));
    let slow = serve(Router::new().fallback(std::future::pending::<String>));
    let source = |name: &str, server: &str| {
        let parameter = json!({ "name": "message", "in": "query", "schema": { "type": "string" } });
        let paths =
            json!({ "/echo": { "get": { "operationId": "echo", "parameters": [parameter] } } });
        let path = folder.path().join(name);
        std::fs::write(&path, document(server, paths).to_string()).unwrap();
        let config = json!({
            "spec_path": path, "hosts": ["127.0.0.1:*"], "retries": 0,
        });
        let config = serde_json::from_value(config).unwrap();
        Arc::new(OpenApiSource::new(id(), config, &host(&[])).unwrap()) as Arc<dyn ToolSource>
    };
    Instances {
        tool: "echo",
        arguments: |message| json!({ "message": message }),
        working: source("working.json", &working),
        slow: Some(source("slow.json", &slow)),
        broken: source("broken.json", "http://127.0.0.1:1"),
    }
}
