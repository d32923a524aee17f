//! Whole packs: commands, an MCP server and an API of their own, run for real without a sandbox.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::Path as Segment;
use axum::http::HeaderMap;
use axum::routing::get;
use drawgate_core::model::ErrorCode;
use drawgate_core::source::{SourceError, ToolSource};
use drawgate_core::testing::TestGate;
use drawgate_core::testing::conformance::Instances;
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use drawgate_sources::toolpack::{Finding, ToolpackConfig, ToolpackSource, examine};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http_server::{Mode, Server};
use crate::openapi::serve;
use crate::support::{PATIENCE, code, fixture, gate, id, text};

const PATH: (&str, &str) = ("PATH", "/usr/local/bin:/usr/bin:/bin");

/// A folder with a manifest, and where its programs work.
struct Pack {
    root: TempDir,
}

impl Pack {
    #[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
    fn new(connectors: Value, tools: Value, permissions: Value) -> Self {
        let pack = Self { root: tempfile::tempdir().unwrap() };
        let manifest = json!({
            "id": "pack", "name": "Pack", "version": "1.0.0", "enabled": true,
            "connectors": connectors, "tools": tools, "permissions": permissions,
        });
        pack.file("toolpack.json", &manifest.to_string())
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("toolpacks/pack")
    }

    fn workspace(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn file(self, name: &str, content: &str) -> Self {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// The operator lets these run without a sandbox: the tests have none.
    fn config(&self, tools: &[&str], connectors: &[&str]) -> ToolpackConfig {
        let open = |names: &[&str]| -> BTreeMap<String, Value> {
            names.iter().map(|name| ((*name).to_owned(), json!({ "sandbox": "none" }))).collect()
        };
        let config = json!({
            "folder": self.folder(), "workspace": self.workspace(),
            "tools": open(tools), "connectors": open(connectors),
        });
        serde_json::from_value(config).unwrap()
    }

    fn source(&self, tools: &[&str], connectors: &[&str], host: &Arc<Host>) -> Arc<ToolpackSource> {
        Arc::new(ToolpackSource::new(id(), &self.config(tools, connectors), host).unwrap())
    }
}

fn host(variables: &[(&str, &str)]) -> Arc<Host> {
    let all = variables.iter().chain([&PATH]);
    let all: BTreeMap<String, String> =
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Arc::new(Host::new(Secrets::new(all), None).unwrap())
}

fn message() -> Value {
    let message = json!({ "type": "string", "pattern": "(?s).*" });
    json!({ "type": "object", "properties": { "message": message }, "required": ["message"] })
}

fn say() -> Value {
    json!({ "name": "say_it", "type": "command", "command_template": "printf %s {{message}}", "parameters": message() })
}

fn echo(name: &str, connector: &str) -> Value {
    json!({ "name": name, "type": "mcp", "connector_id": connector, "remote_tool": "echo" })
}

/// The misbehaving server, as a file of the pack.
fn server(mode: &str, args: &[&str]) -> Value {
    let args: Vec<&str> = ["mcp_server.py", mode].iter().chain(args).copied().collect();
    json!({ "transport": "stdio", "command": "python3", "args": args, "working_dir": "server" })
}

fn script() -> String {
    fs::read_to_string(fixture("mcp_server.py")).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
fn connector(id: &str, mcp: Value) -> Value {
    json!({ "id": id, "type": "mcp", "mcp": mcp })
}

const SPEC: &str = r#"{ "openapi": "3.0.3", "info": { "title": "Pets", "version": "1" },
    "servers": [{ "url": "https://pets.example.com" }],
    "paths": { "/pets/{id}": { "get": { "operationId": "getPetById", "summary": "One pet", "responses": {},
        "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }] } } } }"#;

fn pets() -> String {
    let pet = |headers: HeaderMap, Segment(id): Segment<String>| async move {
        let key = headers.get("x-api-key").map(|value| value.to_str().unwrap().to_owned());
        format!("pet {id} for {}", key.unwrap_or_default())
    };
    serve(Router::new().route("/pets/{id}", get(pet)))
}

fn api(url: &str) -> Value {
    json!({ "id": "api", "type": "openapi", "openapi": {
        "spec_path": "spec/pets.json", "base_url": url, "headers": { "X-API-Key": "env:PETS_KEY" } } })
}

fn names(manifest: &drawgate_core::model::McpManifest) -> Vec<&str> {
    manifest.tools.iter().map(|tool| tool.name.as_str()).collect()
}

async fn manifest(source: &ToolpackSource) -> drawgate_core::model::McpManifest {
    tokio::time::timeout(PATIENCE, source.manifest()).await.expect("an answer").unwrap()
}

fn left_out(source: &ToolpackSource) -> String {
    source.diagnostics()["leftOut"].to_string()
}

/// What the shared suite needs.
pub(crate) fn instances(folder: &TempDir) -> Instances {
    let pack = |mode: &str| {
        let path = folder.path().join(mode);
        fs::create_dir_all(path.join("server")).unwrap();
        fs::write(path.join("server/mcp_server.py"), script()).unwrap();
        let manifest = json!({
            "id": "pack", "name": "Pack", "version": "1", "connectors": [connector("main", server(mode, &[]))],
            "tools": [echo("repeat_it", "main")],
        });
        fs::write(path.join("toolpack.json"), manifest.to_string()).unwrap();
        let config = json!({
            "folder": path, "workspace": folder.path().join(format!("{mode}-work")), "connectors": { "main": { "sandbox": "none" } },
        });
        let config: ToolpackConfig = serde_json::from_value(config).unwrap();
        Arc::new(ToolpackSource::new(id(), &config, &host(&[])).unwrap())
    };
    Instances {
        tool: "repeat_it",
        arguments: |message| json!({ "message": message }),
        working: pack("echo"),
        slow: Some(pack("slow") as Arc<dyn ToolSource>),
        broken: pack("error_and_result"),
    }
}

#[tokio::test]
async fn tools_of_every_type_work_under_the_packs_names() {
    let url = pets();
    let tools = json!([
        say(),
        { "name": "repeat_it", "type": "mcp", "connector_id": "main", "remote_tool": "echo", "description": "says it again" },
        { "name": "one_pet", "type": "openapi", "connector_id": "api", "operation_id": "getPetById" },
        { "name": "count_lines", "type": "command", "command_template": "sh ./scripts/count.sh" },
        { "type": "openapi", "connector_id": "api", "operations": "*", "prefix": "all_" },
    ]);
    let address = url.strip_prefix("http://").unwrap();
    let pack = Pack::new(
        json!([connector("main", server("echo", &[])), api(&url)]),
        tools,
        json!({ "hosts": [address] }),
    )
    .file("server/mcp_server.py", &script())
    .file("spec/pets.json", SPEC)
    .file("scripts/count.sh", "pwd; cat \"$(dirname \"$0\")/lines.txt\" | wc -l")
    .file("scripts/lines.txt", "a\nb\n");
    let host = host(&[("PETS_KEY", "hunter2-key")]);
    let source = pack.source(&["say_it", "count_lines"], &["main"], &host);
    let described = manifest(&source).await;
    assert_eq!(
        names(&described),
        ["say_it", "repeat_it", "one_pet", "count_lines", "all_get_pet_by_id"]
    );
    assert_eq!((described.name.as_str(), described.version.as_str()), ("Pack", "1.0.0"));
    assert_eq!(described.tools[1].description, "says it again");
    assert_eq!(described.offer, drawgate_core::model::Offer::default());
    assert_eq!(left_out(&source), "[]");
    let gate = gate(&source).await;
    let call = async |tool: &str, arguments: Value| {
        gate.call("ann", &format!("up:{tool}"), arguments).await
    };
    assert!(text(&call("say_it", json!({ "message": "a; b" })).await).contains("a; b"));
    assert_eq!(text(&call("repeat_it", json!({ "message": "again" })).await), "again");
    for tool in ["one_pet", "all_get_pet_by_id"] {
        let result = call(tool, json!({ "id": "7" })).await;
        assert_eq!(text(&result), "pet 7 for hunter2-key", "{tool}: {result:?}");
    }
    let counted = call("count_lines", json!({})).await;
    let workspace = pack.workspace().canonicalize().unwrap();
    assert!(
        text(&counted).contains(workspace.to_str().unwrap()) && text(&counted).contains('2'),
        "{counted:?}"
    );
    assert_eq!(source.confinement("say_it"), Some("none"));
    assert_eq!(source.confinement("repeat_it"), Some("none"));
    assert_eq!(source.confinement("one_pet"), None);
    assert!(!source.diagnostics().to_string().contains("hunter2"));
    source.close().await;
}

#[tokio::test]
async fn what_a_server_does_not_have_is_left_out_alone() {
    let tools = json!([
        say(),
        echo("repeat_it", "main"),
        { "name": "shout_it", "type": "mcp", "connector_id": "main", "remote_tool": "ecoh" },
    ]);
    let pack = Pack::new(json!([connector("main", server("echo", &[]))]), tools, json!({}))
        .file("server/mcp_server.py", &script());
    let source = pack.source(&["say_it"], &["main"], &host(&[]));
    assert_eq!(names(&manifest(&source).await), ["say_it", "repeat_it"]);
    let left_out = left_out(&source);
    assert!(
        left_out.contains("shout_it") && left_out.contains("did you mean `echo`?"),
        "{left_out}"
    );
    source.close().await;
}

#[tokio::test]
async fn a_connector_that_is_down_comes_back_by_itself() {
    let state = tempfile::tempdir().unwrap();
    let starts = state.path().join("starts").display().to_string();
    let pack = Pack::new(
        json!([connector("main", server("thrice_started", &[&starts]))]),
        json!([say(), echo("repeat_it", "main")]),
        json!({}),
    )
    .file("server/mcp_server.py", &script());
    let source = pack.source(&["say_it"], &["main"], &host(&[]));
    let mut changes = source.changes().unwrap();
    let first = manifest(&source).await;
    assert_eq!(names(&first), ["say_it"], "{}", left_out(&source));
    assert!(left_out(&source).contains("exited with code 1"), "{}", left_out(&source));
    let gate = TestGate::new().await;
    gate.grant("ann", "*", None).await;
    gate.register(Arc::clone(&source) as Arc<dyn ToolSource>).await.unwrap();
    let result = gate.call("ann", "up:say_it", json!({ "message": "still here" })).await;
    assert!(text(&result).contains("still here"), "{result:?}");
    let back = async {
        loop {
            changes.changed().await.unwrap();
            let now = manifest(&source).await;
            if names(&now) == ["say_it", "repeat_it"] {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, back).await.expect("it comes back");
    assert_eq!(left_out(&source), "[]");
    source.close().await;
}

#[tokio::test]
async fn a_missing_variable_is_named_and_harms_nobody_else() {
    let mut missing = server("echo", &[]);
    missing["env"] = json!({ "TOKEN": "env:ABSENT_TOKEN" });
    let pack = Pack::new(
        json!([connector("main", missing), connector("other", server("echo", &[]))]),
        json!([echo("repeat_it", "main"), echo("repeat_too", "other")]),
        json!({}),
    )
    .file("server/mcp_server.py", &script());
    let source = pack.source(&[], &["main", "other"], &host(&[]));
    assert_eq!(names(&manifest(&source).await), ["repeat_too"]);
    let left_out = left_out(&source);
    assert!(
        left_out.contains("`ABSENT_TOKEN` is not set") && left_out.contains("repeat_it"),
        "{left_out}"
    );
    source.close().await;
}

#[tokio::test]
async fn commands_get_the_declared_variables_and_no_others() {
    let tool = json!({ "name": "show_env", "type": "command", "command_template": "sh ./show.sh" });
    let pack =
        Pack::new(json!([]), json!([tool]), json!({ "env": ["WANTED"] })).file("show.sh", "env");
    let host = host(&[("WANTED", "wanted-value"), ("OTHER", "other-value")]);
    let source = pack.source(&["show_env"], &[], &host);
    let gate = gate(&source).await;
    let result = gate.call("ann", "up:show_env", json!({})).await;
    assert!(text(&result).contains("WANTED="), "{result:?}");
    assert!(!text(&result).contains("OTHER"), "{result:?}");
    let absent = pack.source(&["show_env"], &[], &self::host(&[]));
    let error = absent.manifest().await.unwrap_err().to_string();
    assert!(error.contains("`WANTED` is not set"), "{error}");
}

#[tokio::test]
async fn a_python_program_without_a_sandbox_leaves_its_own_pack_as_it_was() {
    let imports = "import sys\nsys.path.insert(0, sys.path[0] + '/lib')\nimport part\n";
    let greet =
        json!({ "name": "greet", "type": "command", "command_template": "python3 ./greet.py" });
    let connectors = json!([connector("main", server("echo", &[]))]);
    let pack = Pack::new(connectors, json!([greet, echo("repeat", "main")]), json!({}))
        .file("greet.py", &format!("{imports}print(part.WORD)\n"))
        .file("lib/part.py", "WORD = 'hello'\n")
        .file("server/lib/part.py", "")
        .file("server/mcp_server.py", &format!("{imports}{}", script()));
    let source = pack.source(&["greet"], &["main"], &host(&[]));
    let gate = gate(&source).await;
    for _ in 0..2 {
        let said = gate.call("ann", "up:greet", json!({})).await;
        assert!(text(&said).contains("hello"), "{said:?}");
    }
    let said = gate.call("ann", "up:repeat", json!({ "message": "hi" })).await;
    assert!(text(&said).contains("hi"), "{said:?}");
    assert!(!source.is_changed());
    for folder in ["lib", "server/lib"] {
        assert!(!pack.folder().join(folder).join("__pycache__").exists(), "{folder}");
    }
    // What somebody else puts there would be loaded, and counts.
    fs::create_dir(pack.folder().join("lib/__pycache__")).unwrap();
    let refused = gate.call("ann", "up:greet", json!({})).await;
    assert!(format!("{refused:?}").contains("`lib/__pycache__` is new"), "{refused:?}");
    source.close().await;
}

#[tokio::test]
async fn a_pack_with_nothing_left_is_down() {
    let dead = connector("main", json!({ "command": "no-such-program-here" }));
    let pack = Pack::new(json!([dead]), json!([echo("repeat_it", "main")]), json!({}));
    let source = pack.source(&[], &["main"], &host(&[]));
    let error = source.manifest().await.unwrap_err();
    assert!(matches!(error, SourceError::Unavailable { .. }));
    assert!(error.to_string().contains("no program `no-such-program-here`"), "{error}");
    source.close().await;
}

#[tokio::test]
async fn servers_on_the_network_are_reached_only_where_declared() {
    let server = Server::start(Mode::SessionsJson).await;
    let address = server.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let remote = json!({
        "transport": "streamable_http", "url": "env:MCP_URL", "headers": { "Authorization": "env:MCP_TOKEN" },
    });
    let host = host(&[("MCP_URL", &server.url), ("MCP_TOKEN", "Bearer hunter2")]);
    let pack = |hosts: Value| {
        Pack::new(
            json!([connector("main", remote.clone())]),
            json!([echo("repeat_it", "main")]),
            json!({ "hosts": hosts }),
        )
    };
    let open = pack(json!([address]));
    let source = open.source(&[], &[], &host);
    let gate = gate(&source).await;
    let result = gate.call("ann", "up:repeat_it", json!({ "message": "over http" })).await;
    assert_eq!(text(&result), "over http", "{result:?}");
    assert_eq!(source.confinement("repeat_it"), None);
    let sent = server.seen("tools/call");
    assert_eq!(sent[0].headers["authorization"], "Bearer hunter2");
    assert_eq!(sent[0].body["params"]["name"], "echo");
    source.close().await;
    let before = server.seen("initialize").len() + server.seen("server/discover").len();
    let closed = pack(json!(["elsewhere.example"]));
    let source = closed.source(&[], &[], &host);
    let error = source.manifest().await.unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
    assert_eq!(
        server.seen("initialize").len() + server.seen("server/discover").len(),
        before,
        "{error}"
    );
    source.close().await;
}

#[tokio::test]
async fn a_tools_own_time_ends_it() {
    let mut slow = echo("repeat_it", "main");
    slow["timeout_seconds"] = json!(1);
    let pack = Pack::new(json!([connector("main", server("slow", &[]))]), json!([slow]), json!({}))
        .file("server/mcp_server.py", &script());
    let source = pack.source(&[], &["main"], &host(&[]));
    let gate = gate(&source).await;
    let result = gate.call("ann", "up:repeat_it", json!({ "message": "x" })).await;
    assert_eq!(code(&result), Some(ErrorCode::Timeout), "{result:?}");
    source.close().await;
}

#[tokio::test]
async fn the_operator_is_told_of_names_that_do_not_exist() {
    let pack = Pack::new(json!([]), json!([say()]), json!({}));
    let error = ToolpackSource::new(id(), &pack.config(&["say_ti"], &[]), &host(&[]));
    let error = error.err().unwrap().to_string();
    assert_eq!(error, "`tools`: the pack has no `say_ti`; did you mean `say_it`?");
}

#[tokio::test]
async fn paths_that_hold_a_home_or_the_gateway_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let inside = |name: &str| home.path().join(name).display().to_string();
    fs::create_dir_all(home.path().join("data/keys")).unwrap();
    fs::create_dir_all(home.path().join("notes")).unwrap();
    std::os::unix::fs::symlink(home.path(), home.path().join("notes/home")).unwrap();
    let host = host(&[("HOME", home.path().to_str().unwrap())]);
    let build = |list: &str, path: &str| {
        let pack = Pack::new(json!([]), json!([say()]), json!({ "paths": { list: [path] } }));
        let mut config = pack.config(&["say_it"], &[]);
        config.keep_out.push(home.path().join("data"));
        ToolpackSource::new(id(), &config, &host).map(drop).map_err(|error| error.to_string())
    };
    let whole = home.path().display().to_string();
    for path in [
        whole.as_str(),
        &inside("data"),
        "~/data",
        "~/data/keys",
        "~/notes/home",
        &inside("notes/home"),
    ] {
        for list in ["read", "write"] {
            let error = build(list, path).expect_err(path);
            assert!(error.contains("no pack may have"), "{path}: {error}");
        }
    }
    for path in ["~/notes", "~/absent", "inside/the/workspace", &inside("notes")] {
        for list in ["read", "write"] {
            build(list, path).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
    // A link that another program could have made leads no pack anywhere.
    fs::create_dir(home.path().join("private")).unwrap();
    std::os::unix::fs::symlink(home.path().join("private"), home.path().join("notes/link"))
        .unwrap();
    build("write", "~/notes/link").unwrap();
    host.processes.trusted().add_writable(&home.path().join("notes")).unwrap();
    for list in ["read", "write"] {
        let error = build(list, "~/notes/link").expect_err(list);
        assert!(error.contains("the link"), "{error}");
    }
}

async fn findings(config: ToolpackConfig, host: &Arc<Host>) -> Vec<Finding> {
    tokio::time::timeout(PATIENCE, examine(config, host)).await.expect("an end")
}

fn of<'a>(findings: &'a [Finding], subject: &str) -> &'a Finding {
    findings
        .iter()
        .find(|finding| finding.subject == subject)
        .unwrap_or_else(|| panic!("{subject}: {findings:#?}"))
}

#[tokio::test]
async fn an_examination_of_a_good_pack_finds_nothing_wrong() {
    let url = pets();
    let address = url.strip_prefix("http://").unwrap();
    let tools = json!([
        say(), echo("repeat_it", "main"),
        { "name": "one_pet", "type": "openapi", "connector_id": "api", "operation_id": "getPetById" },
    ]);
    let pack = Pack::new(
        json!([connector("main", server("echo", &[])), api(&url)]),
        tools,
        json!({ "hosts": [address] }),
    )
    .file("server/mcp_server.py", &script())
    .file("spec/pets.json", SPEC);
    let all =
        findings(pack.config(&["say_it"], &["main"]), &host(&[("PETS_KEY", "hunter2-key")])).await;
    assert!(all.iter().all(|finding| finding.ok), "{all:#?}");
    for subject in [
        "manifest",
        "variable PETS_KEY",
        "program printf",
        "sandbox none",
        "connector main",
        "connector api",
        "commands",
    ] {
        of(&all, subject);
    }
    assert!(of(&all, "connector main").message.contains("misbehaving 1.2.3, 1 tool"), "{all:#?}");
    assert!(!format!("{all:?}").contains("hunter2"));
}

#[tokio::test]
async fn an_examination_names_everything_that_is_wrong() {
    let mut absent = server("echo", &[]);
    absent["env"] = json!({ "TOKEN": "env:ABSENT_TOKEN" });
    let tools = json!([
        { "name": "lost_one", "type": "command", "command_template": "no-such-program-here" },
        echo("repeat_it", "dead"),
        echo("repeat_too", "unset"),
        { "name": "shout_it", "type": "mcp", "connector_id": "live", "remote_tool": "shout" },
    ]);
    let connectors = json!([
        connector("dead", server("exit_at_start", &[])),
        connector("unset", absent),
        connector("live", server("echo", &[])),
    ]);
    let pack = Pack::new(connectors, tools, json!({})).file("server/mcp_server.py", &script());
    let config = pack.config(&["lost_one"], &["dead", "unset", "live"]);
    let all = findings(config, &host(&[])).await;
    for (subject, expected) in [
        ("variable ABSENT_TOKEN", "it is not set"),
        ("program no-such-program-here", "it is not there"),
        ("connector dead", "last lines of stderr: cannot find my database"),
        ("connector unset", "`ABSENT_TOKEN` is not set"),
        ("tool shout_it", "offers no `shout`"),
    ] {
        let finding = of(&all, subject);
        assert!(!finding.ok && finding.message.contains(expected), "{finding:?}");
        assert!(finding.advice.is_some(), "{finding:?}");
    }
    assert!(of(&all, "connector live").ok);
}

#[tokio::test]
async fn an_examination_of_an_unknown_operation_says_which_was_meant() {
    let tool = json!({ "name": "one_pet", "type": "openapi", "connector_id": "api", "operation_id": "getPetByld" });
    let pack = Pack::new(json!([api("https://pets.example.com")]), json!([tool]), json!({}))
        .file("spec/pets.json", SPEC);
    let all = findings(pack.config(&[], &[]), &host(&[])).await;
    let finding = of(&all, "manifest $.tools[0].operation_id");
    assert_eq!(finding.advice.as_deref(), Some("did you mean `getPetById`?"));
    assert!(!finding.ok);
}
