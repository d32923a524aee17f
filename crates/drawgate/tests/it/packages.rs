//! Package runners: fetched by the real npm and pip from a registry of this machine, pinned, and run without it.

mod hostile;

use std::io::Write as _;
use std::process::{Output, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{Gateway, TestFolder, text};

const NPM_NAME: &str = "@drawgate-test/server";
const WHEEL: &str = "reach_server-1.0-py3-none-any.whl";

/// A registry of npm and of Python packages on this machine.
struct Registry {
    address: String,
    state: Arc<Shelf>,
    server: tokio::task::JoinHandle<()>,
}

/// What it has.
struct Shelf {
    address: String,
    newest: Mutex<String>,
    wheel: Vec<u8>,
    asked: Mutex<Vec<String>>,
}

impl Registry {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let newest = Mutex::new("1.0.0".to_owned());
        let asked = Mutex::default();
        let state = Arc::new(Shelf { address: address.clone(), newest, wheel: wheel(), asked });
        let router = Router::new()
            .route("/simple/{name}/", get(index))
            .route("/files/{file}", get(file))
            .route("/{*path}", get(npm))
            .with_state(Arc::clone(&state));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, state, server }
    }

    fn publish(&self, version: &str) {
        version.clone_into(&mut self.state.newest.lock());
    }

    fn asked(&self) -> usize {
        self.state.asked.lock().len()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn npm(State(shelf): State<Arc<Shelf>>, Path(path): Path<String>) -> Response {
    shelf.asked.lock().push(path.clone());
    let newest = shelf.newest.lock().clone();
    if let Some((_, file)) = path.split_once("/-/") {
        let version = file.trim_start_matches("server-").trim_end_matches(".tgz");
        return tarball(version).into_response();
    }
    if path != NPM_NAME {
        return StatusCode::NOT_FOUND.into_response();
    }
    let versions: serde_json::Map<String, Value> = ["1.0.0", newest.as_str()]
        .into_iter()
        .map(|version| {
            use base64::Engine as _;
            let hash = sha2::Digest::finalize(sha2::Digest::chain_update(
                <sha2::Sha512 as sha2::Digest>::new(),
                tarball(version),
            ));
            let integrity =
                format!("sha512-{}", base64::engine::general_purpose::STANDARD.encode(hash));
            let tarball = format!("http://{}/{NPM_NAME}/-/server-{version}.tgz", shelf.address);
            let mut manifest = manifest(version);
            manifest["dist"] = json!({ "tarball": tarball, "integrity": integrity });
            (version.to_owned(), manifest)
        })
        .collect();
    axum::Json(json!({ "name": NPM_NAME, "dist-tags": { "latest": newest }, "versions": versions }))
        .into_response()
}

async fn index(State(shelf): State<Arc<Shelf>>, Path(name): Path<String>) -> Response {
    shelf.asked.lock().push(name.clone());
    if name != "reach-server" {
        return StatusCode::NOT_FOUND.into_response();
    }
    Html(format!("<!doctype html><a href=\"/files/{WHEEL}\">{WHEEL}</a>")).into_response()
}

async fn file(State(shelf): State<Arc<Shelf>>) -> Vec<u8> {
    shelf.wheel.clone()
}

fn manifest(version: &str) -> Value {
    // Its script would leave a trace, if it were run.
    let scripts = json!({ "postinstall": "touch installed" });
    json!({ "name": NPM_NAME, "version": version, "bin": "index.js", "scripts": scripts })
}

fn tarball(version: &str) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let manifest = manifest(version).to_string();
    let script = include_str!("../fixtures/package.js").to_owned();
    for (name, text, mode) in [("package.json", manifest, 0o644), ("index.js", script, 0o755)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(mode);
        header.set_cksum();
        archive.append_data(&mut header, format!("package/{name}"), text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// A built Python package, as Python itself makes the archive.
#[expect(clippy::disallowed_methods, reason = "tests start programs")]
fn wheel() -> Vec<u8> {
    let script = r#"
import io, sys, zipfile
files = {
    "reach_server.py": open(sys.argv[1]).read(),
    "reach_server-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: reach-server\nVersion: 1.0\n",
    "reach_server-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "reach_server-1.0.dist-info/entry_points.txt": "[console_scripts]\nreach-server = reach_server:main\n",
}
files["reach_server-1.0.dist-info/RECORD"] = "".join(name + ",,\n" for name in files)
archive = io.BytesIO()
with zipfile.ZipFile(archive, "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
sys.stdout.buffer.write(archive.getvalue())
"#;
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/reach.py");
    let made = std::process::Command::new("python3").args(["-c", script, source]).output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    made.stdout
}

/// Runs a command as a user whose npm and pip are configured for a registry.
fn run(place: &TestFolder, registry: &str, args: &[&str]) -> Output {
    let mut command = place.command(args);
    command
        .env("npm_config_registry", format!("http://{registry}/"))
        .env("npm_config_cache", place.path().join("npm-cache"))
        .env("npm_config_userconfig", place.path().join("npmrc"))
        .env("npm_config_fetch_retries", "0")
        .env("PIP_INDEX_URL", format!("http://{registry}/simple/"))
        .env("PIP_CONFIG_FILE", "/dev/null")
        .env("PIP_NO_CACHE_DIR", "1")
        .env_remove("PIP_FIND_LINKS");
    command.stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn lock(place: &TestFolder) -> Value {
    let file = std::fs::read(place.path().join("drawgate.lock")).unwrap();
    serde_json::from_slice(&file).unwrap()
}

async fn about(gateway: &Gateway) -> String {
    let result = gateway.call(&gateway.token, "a__about", json!({})).await;
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// An address of this machine that nobody listens at.
const NOBODY: &str = "127.0.0.1:1";

#[tokio::test(flavor = "multi_thread")]
async fn a_package_of_npm_is_fetched_once_and_runs_without_its_registry() {
    let registry = Registry::start().await;
    let place = TestFolder::new("# Ours.\n");
    let gateway = place.serve();
    let add = ["servers", "add", "a", "--", "npx", "-y", NPM_NAME, "--flag"];
    let output = run(&place, &registry.address, &add);
    assert!(output.status.success(), "{}{}", said(&output), place.log());
    assert!(said(&output).contains("pinned @drawgate-test/server 1.0.0"), "{}", said(&output));
    assert_eq!(about(&gateway).await, "version 1.0.0, --flag");
    let pinned = &lock(&place)["servers"]["a"];
    let entry = &pinned["pins"]["npm"]["lock"]["packages"]["node_modules/@drawgate-test/server"];
    assert_eq!(entry["version"], "1.0.0");
    assert!(entry["integrity"].as_str().unwrap().starts_with("sha512-"), "{pinned}");
    assert!(!pinned.to_string().contains(&registry.address), "{pinned}");
    let tree = place.data().join("packages/a").join(pinned["tree"].as_str().unwrap());
    let package = tree.join("node_modules/@drawgate-test/server");
    assert!(package.join("index.js").exists() && !package.join("installed").exists());

    // A newer version changes nothing, and without the registry it still starts.
    registry.publish("1.1.0");
    drop(gateway);
    let asked = registry.asked();
    let gateway = place.serve();
    let list = run(&place, NOBODY, &["servers", "doctor", "a"]);
    assert!(list.status.success(), "{}", said(&list));
    assert_eq!(
        (about(&gateway).await.as_str(), registry.asked()),
        ("version 1.0.0, --flag", asked)
    );
    let again = run(&place, NOBODY, &["servers", "fetch", "a"]);
    assert!(said(&again).contains("`a` has its package already"), "{}", said(&again));

    // What was changed is not started, and the pinned version comes back.
    let mut script =
        std::fs::OpenOptions::new().append(true).open(package.join("index.js")).unwrap();
    script.write_all(b"// changed\n").unwrap();
    let restarted = run(&place, NOBODY, &["servers", "restart", "a"]);
    assert_eq!(restarted.status.code(), Some(1));
    let advice = "its files are not those that were fetched; run `drawgate servers fetch a`";
    assert!(said(&restarted).contains(advice), "{}", said(&restarted));
    let repaired = run(&place, &registry.address, &["servers", "fetch", "a"]);
    assert!(repaired.status.success(), "{}", said(&repaired));
    assert_eq!(about(&gateway).await, "version 1.0.0, --flag");
    assert!(!tree.exists(), "what was changed is gone");

    let updated = run(&place, &registry.address, &["servers", "fetch", "a", "--update", "--json"]);
    let report: Value = serde_json::from_slice(&updated.stdout).unwrap();
    assert_eq!(report[0]["packages"][0]["version"], "1.1.0", "{report}");
    assert_eq!(about(&gateway).await, "version 1.1.0, --flag");
    run(&place, NOBODY, &["servers", "remove", "a"]);
    assert_eq!(lock(&place)["servers"], json!({}));
    assert!(!place.data().join("packages/a").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_package_is_fetched_once_and_runs_without_its_index() {
    let registry = Registry::start().await;
    let place = TestFolder::new("");
    let gateway = place.serve();
    let output = run(
        &place,
        &registry.address,
        &["servers", "add", "a", "--", "pipx", "run", "reach-server"],
    );
    assert!(output.status.success(), "{}{}", said(&output), place.log());
    let requirements = lock(&place)["servers"]["a"]["pins"]["python"]["requirements"].clone();
    assert!(requirements.as_str().unwrap().contains("reach-server==1.0"), "{requirements}");
    assert!(requirements.as_str().unwrap().contains("--hash=sha256:"), "{requirements}");
    drop((gateway, registry));
    let gateway = place.serve();
    let list = run(&place, NOBODY, &["servers", "doctor", "a"]);
    assert!(list.status.success(), "{}", said(&list));
    let result = gateway.call(&gateway.token, "a__variable", json!({ "name": "USER" })).await;
    assert_eq!(result["content"][0]["text"], "sandbox", "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_behind_env_is_fetched_and_its_variables_are_kept() {
    let registry = Registry::start().await;
    let place = TestFolder::new("");
    let _gateway = place.serve();
    let words = ["env", "-u", "HOME", "MODE=fast", "npx", "-y", NPM_NAME, "--flag"];
    let args: Vec<&str> = ["servers", "add", "a", "--"].into_iter().chain(words).collect();
    let output = run(&place, &registry.address, &args);
    assert!(output.status.success(), "{}{}", said(&output), place.log());
    let config = std::fs::read_to_string(place.path().join("drawgate.toml")).unwrap();
    assert!(config.contains("env = { MODE = \"fast\" }"), "{config}");
    assert!(config.contains("command = \"npx\""), "{config}");
    assert!(said(&output).contains("`MODE`: written into"), "{}", said(&output));
    assert_eq!(lock(&place)["servers"]["a"]["request"]["packages"], json!([NPM_NAME]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_fetched_is_said_and_nothing_is_added() {
    let registry = Registry::start().await;
    let place = TestFolder::new("# Ours.\n");
    let config = || std::fs::read_to_string(place.path().join("drawgate.toml")).unwrap();
    for (words, expected) in [
        (
            vec!["npx", "-y", "@drawgate-test/none"],
            "`@drawgate-test/none` can't be fetched for the server `a`: the registry has no such package",
        ),
        (vec!["npx", "-y", "./here"], "is not a package of a registry"),
        (vec!["npx", "-p", NPM_NAME, "none"], "have no program"),
        (vec!["pipx", "run", "--spec", "reach-server", "none"], "`reach-server`"),
    ] {
        let args: Vec<&str> = ["servers", "add", "a", "--"].into_iter().chain(words).collect();
        let output = run(&place, &registry.address, &args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(said(&output).contains(expected), "{args:?}: {}", said(&output));
        assert_eq!(config(), "# Ours.\n");
    }
    let output = run(&place, NOBODY, &["servers", "add", "a", "--", "npx", "-y", NPM_NAME]);
    assert!(
        said(&output).contains("the registry can't be reached; `npm` says:"),
        "{}",
        said(&output)
    );
    assert!(!place.path().join("drawgate.lock").exists());
    let left = std::fs::read_dir(place.data().join("packages/a")).unwrap().count();
    assert_eq!(left, 0, "nothing is left of what failed");

    // What is imported stays behind the gate, and says what it lacks.
    let theirs = json!({ "mcpServers": { "a": { "command": "npx", "args": ["-y", NPM_NAME] } } });
    std::fs::write(place.path().join("theirs.json"), theirs.to_string()).unwrap();
    let gateway = place.serve();
    let output = run(&place, NOBODY, &["import", "theirs.json", "--yes"]);
    assert_eq!(output.status.code(), Some(1));
    let fetch = "its package has not been fetched; run `drawgate servers fetch a`";
    assert!(said(&output).contains(fetch), "{}", said(&output));
    let output = run(&place, &registry.address, &["servers", "fetch"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(about(&gateway).await, "version 1.0.0, ");
    // A lock that can't be read pins nothing.
    std::fs::write(place.path().join("drawgate.lock"), "{").unwrap();
    drop(gateway);
    let _gateway = place.serve();
    let output = run(&place, NOBODY, &["servers", "doctor", "a"]);
    assert!(said(&output).contains("the lock file can't be used"), "{}", said(&output));
}
