//! Documents that name servers inside: what somebody else wrote opens nothing, and nobody is knocked
//! at.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::http::Uri;
use axum::routing::get;
use drawgate_core::source::ToolSource;
use drawgate_host::Host;
use drawgate_host::egress::Egress;
use drawgate_host::egress::network::Network;
use drawgate_host::secrets::Secrets;
use drawgate_sources::openapi::OpenApiSource;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{call, document, said, serve};
use crate::support::{gate, id};

/// The operating system's, on this machine only, and a list of who was connected to.
#[derive(Default)]
struct Roads(Mutex<Vec<String>>);

#[async_trait]
impl Network for Roads {
    async fn resolve(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![([10, 0, 0, 9], port).into()])
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.0.lock().unwrap().push(format!("http://{address}"));
        if !address.ip().is_loopback() {
            return Err(io::Error::other("nobody goes there"));
        }
        TcpStream::connect(address).await
    }
}

const INNER: [&str; 18] = [
    "http://127.0.0.1:8500/v1",
    "http://127.0.0.1/",
    "http://localhost:8500/v1",
    "http://[::1]:8500/v1",
    "http://0.0.0.0:8500/",
    "http://2130706433:8500/",
    "http://0x7f.1:8500/",
    "http://10.0.0.1/",
    "http://169.254.169.254/latest",
    "http://[fd00:ec2::254]/",
    "http://metadata.google.internal/",
    // A public name of an inner address.
    "https://inner.example/v1",
    "//127.0.0.1:8500/v1",
    "https://api.example@127.0.0.1:8500/",
    "http://api.example\\@127.0.0.1/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
    "@127.0.0.1:8500/",
];

/// A document at an address, and what its source and its server have done.
struct Fetched {
    source: Arc<OpenApiSource>,
    roads: Arc<Roads>,
    origin: String,
}

/// The document is served by the one server that the operator has written down.
fn fetched(document: &Value, more: Value) -> Fetched {
    let text = document.to_string();
    let router = Router::new()
        .route("/api.json", get(move || async move { text }))
        .fallback(async |uri: Uri| format!("asked for {uri}"));
    let origin = serve(router);
    let mut config = json!({ "spec_url": format!("{origin}/api.json"), "retries": 0 });
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
    let roads = Arc::new(Roads::default());
    let mut host = Host::new(Secrets::new(BTreeMap::new()), None).unwrap();
    host.egress = Arc::new(Egress::over(roads.clone()));
    let config = serde_json::from_value(config).unwrap();
    let source = Arc::new(OpenApiSource::new(id(), config, &Arc::new(host)).unwrap());
    Fetched { source, roads, origin }
}

impl Fetched {
    /// Calls a tool, if the document is taken and has it; what is said.
    async fn call(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let manifest = self.source.manifest().await.map_err(|error| error.to_string())?;
        if !manifest.tools.iter().any(|known| known.name == tool) {
            return Err("there is no such tool".to_owned());
        }
        let result = call(&gate(&self.source).await, tool, arguments).await;
        if result.success { Ok(said(&result)) } else { Err(said(&result)) }
    }

    fn assert_nobody_else(&self, row: &str) {
        let roads = self.roads.0.lock().unwrap();
        assert!(!roads.is_empty(), "{row}: not even the document was fetched");
        assert!(roads.iter().all(|place| *place == self.origin), "{row}: {roads:?}");
    }
}

fn paths() -> Value {
    json!({ "/a": { "get": { "operationId": "get" } } })
}

/// The same address in each place where a document may name a server.
fn documents(server: &str) -> Vec<Value> {
    let servers = json!([{ "url": server }]);
    let mut of_path = document("/v1", paths());
    of_path["paths"]["/a"]["servers"] = servers.clone();
    let mut of_operation = document("/v1", paths());
    of_operation["paths"]["/a"]["get"]["servers"] = servers;
    let mut by_variable = document("{all}", paths());
    by_variable["servers"][0]["variables"] = json!({ "all": { "default": server } });
    vec![document(server, paths()), of_path, of_operation, by_variable]
}

#[tokio::test]
async fn a_server_inside_is_not_reached() {
    for inner in INNER {
        for (at, document) in documents(inner).iter().enumerate() {
            let fetched = fetched(document, json!({}));
            fetched.call("get", json!({})).await.unwrap_err();
            fetched.assert_nobody_else(&format!("{inner} at {at}"));
        }
    }
    for document in documents("/v1") {
        let fetched = fetched(&document, json!({}));
        let said = fetched.call("get", json!({})).await.unwrap();
        assert!(said.contains("asked for /v1/a"), "{said}");
        fetched.assert_nobody_else("as it should be");
    }
}

#[tokio::test]
async fn a_token_is_not_asked_for_inside() {
    let secured = |url: &str| {
        let mut document = document("/v1", paths());
        document["security"] = json!([{ "machine": [] }]);
        document["components"] = json!({ "securitySchemes": { "machine": {
            "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": url, "scopes": {} } },
        } } });
        document
    };
    let auth = json!({ "auth": { "machine": { "client_id": "me", "client_secret": "s3cret" } } });
    for inner in INNER {
        let fetched = fetched(&secured(inner), auth.clone());
        let error = fetched.call("get", json!({})).await.unwrap_err();
        assert!(!error.contains("s3cret"), "{inner}: {error}");
        fetched.assert_nobody_else(inner);
    }
}

/// What comes behind a server's address stays behind it.
#[tokio::test]
async fn a_path_does_not_change_who_is_asked() {
    let parameter =
        json!([{ "name": "x", "in": "path", "required": true, "schema": { "type": "string" } }]);
    let paths = json!({
        "@127.0.0.1/": { "get": { "operationId": "at" } },
        ":1@127.0.0.1/": { "get": { "operationId": "port" } },
        "/@127.0.0.1/": { "get": { "operationId": "behind" } },
        "//127.0.0.1/": { "get": { "operationId": "slashes" } },
        "/{x}": { "get": { "operationId": "value", "parameters": parameter } },
    });
    for (tool, arguments, target) in [
        ("at", json!({}), None),
        ("port", json!({}), None),
        ("behind", json!({}), Some("/@127.0.0.1/")),
        ("slashes", json!({}), Some("//127.0.0.1/")),
        ("value", json!({ "x": "@127.0.0.1/" }), Some("/%40127.0.0.1%2F")),
        ("value", json!({ "x": "/127.0.0.1/" }), Some("/%2F127.0.0.1%2F")),
    ] {
        let fetched = fetched(&document("/", paths.clone()), json!({}));
        let outcome = fetched.call(tool, arguments).await;
        match target {
            None => assert_eq!(outcome.unwrap_err(), "there is no such tool", "{tool}"),
            Some(target) => {
                let said = outcome.unwrap();
                assert!(said.contains(&format!("asked for {target}\"")), "{tool}: {said}");
            }
        }
        fetched.assert_nobody_else(tool);
    }
}
