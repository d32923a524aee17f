//! Every place of a pack and of a configured server that takes a value from the environment, driven
//! through success and every kind of failure: whom the value is for gets it, and nobody else sees it.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use super::echo::{Echo, TOKEN, escaped};
use super::{command, install, listed, path_with, program};
use crate::leaks::encodings;
use crate::support::{Gateway, TestFolder, reserved_port, text, unless_gone};

/// The variables, one for each place that takes one.
const VARIABLES: [&str; 16] = [
    "CNRY_KEY_HEADER",
    "CNRY_KEY_QUERY",
    "CNRY_BEARER",
    "CNRY_PASSWORD",
    "CNRY_BOTH_PASSWORD",
    "CNRY_CLIENT",
    "CNRY_CLIENT_BODY",
    "CNRY_API_HEADER",
    "CNRY_MCP_HEADER",
    "CNRY_STDIO",
    "CNRY_DYING",
    "CNRY_COMMAND",
    "CNRY_SERVER_HEADER",
    "CNRY_SERVER_ENV",
    "CNRY_CALL_HEADER",
    "CNRY_CALL_ENV",
];

/// A value with everything in it that encodings change. Put together here, so that no scanner takes
/// it for a real one.
fn value(name: &str) -> String {
    let number = VARIABLES.iter().position(|variable| *variable == name).unwrap();
    format!("cnry{number:02}/{}+\"&=%x", "Zq7Rw2".repeat(2))
}

/// How a value may look where it leaked.
fn spellings(secret: &str) -> Vec<String> {
    let inner = |alignment: usize| {
        let text = URL_SAFE_NO_PAD.encode(format!("{}{secret}", "x".repeat(alignment)));
        text[(alignment * 8).div_ceil(6)..(alignment + secret.len()) * 8 / 6].to_owned()
    };
    let mut all = encodings(secret).to_vec();
    all.extend((0..3).map(inner));
    all.extend([escaped(secret), escaped(secret).to_lowercase()]);
    all.push(secret.replace('&', "&amp;").replace('"', "&quot;"));
    all
}

const SCHEMES: [&str; 7] = ["key", "query", "bearer", "basic", "both", "client", "body"];
const ANSWERS: [&str; 6] = ["ok", "fail", "moved", "away", "broken", "slow"];

/// An API whose operations are named by what protects them and how they are answered.
fn document(address: &str) -> Value {
    let mut paths = serde_json::Map::new();
    for scheme in SCHEMES.iter().chain(&["refused"]) {
        for answer in ANSWERS {
            let id = format!("{scheme}_{answer}");
            let operation = json!({ "get": { "operationId": id, "security": [{ *scheme: [] }], "responses": {} } });
            paths.insert(format!("/{id}"), operation);
        }
    }
    let client = |path: &str| json!({ "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": format!("http://{address}{path}"), "scopes": {} } } });
    json!({
        "openapi": "3.0.3", "info": { "title": "Echo", "version": "1" },
        "servers": [{ "url": format!("http://{address}") }],
        "paths": paths,
        "components": { "securitySchemes": {
            "key": { "type": "apiKey", "in": "header", "name": "X-Api-Key" },
            "query": { "type": "apiKey", "in": "query", "name": "key" },
            "bearer": { "type": "http", "scheme": "bearer" },
            "basic": { "type": "http", "scheme": "basic" },
            "both": { "type": "http", "scheme": "basic" },
            "client": client("/token"),
            "body": client("/token"),
            "refused": client("/refused"),
        } },
    })
}

fn auth() -> Value {
    let client = |secret: &str, place: &str| json!({ "client_id": "an-id", "client_secret": secret, "client_authentication": place });
    json!({
        "key": "env:CNRY_KEY_HEADER",
        "query": "env:CNRY_KEY_QUERY",
        "bearer": "env:CNRY_BEARER",
        "basic": { "username": "ann", "password": "env:CNRY_PASSWORD" },
        "both": "env:CNRY_BOTH",
        "client": client("env:CNRY_CLIENT", "basic"),
        "body": client("env:CNRY_CLIENT_BODY", "body"),
        "refused": client("env:CNRY_CLIENT", "basic"),
    })
}

/// A pack with every kind of connector, each of them in good and in bad company.
fn pack(address: &str, dead: &str) -> Value {
    let api = |id: &str, base: &str, seconds: u64| {
        json!({ "id": id, "type": "openapi", "openapi": {
        "spec_path": "spec.json", "base_url": format!("http://{base}"), "retries": 0, "timeout_seconds": seconds,
        "headers": { "X-Extra": "env:CNRY_API_HEADER" }, "auth": auth(),
    } })
    };
    let far = |id: &str, path: &str| {
        json!({ "id": id, "type": "mcp", "mcp": {
        "transport": "streamable_http", "url": format!("http://{address}/{path}"), "timeout_seconds": 5,
        "headers": { "Authorization": "env:CNRY_MCP_HEADER" },
    } })
    };
    let stdio = |id: &str, script: &str, variable: &str| {
        json!({ "id": id, "type": "mcp", "mcp": {
        "command": "python3", "args": [script], "env": { "API_TOKEN": variable }, "timeout_seconds": 30,
    } })
    };
    let whole = |connector: &str, include: &str, exclude: &str, prefix: &str| {
        json!({
            "type": "openapi", "connector_id": connector, "operations": "*",
            "include": [include], "exclude": [exclude], "prefix": prefix,
        })
    };
    let remote = |name: &str, connector: &str, remote: &str| json!({ "name": name, "type": "mcp", "connector_id": connector, "remote_tool": remote });
    json!({
        "id": "canary", "name": "Canary", "version": "1.0.0",
        "permissions": { "hosts": [address, dead], "env": ["CNRY_COMMAND"] },
        "connectors": [
            api("api", address, 60), api("slow", address, 1), api("dead", dead, 60),
            { "id": "invalid", "type": "openapi", "openapi": { "spec_url": "env:CNRY_SPEC_URL" } },
            far("far_fail", "fail"), far("far_asks", "asks"), far("far_rpc", "rpc"), far("far_moved", "moved"),
            stdio("good", "server.py", "env:CNRY_STDIO"), stdio("dying", "dying.py", "env:CNRY_DYING"),
        ],
        "tools": [
            whole("api", "*", "*_slow", "api_"), whole("slow", "*_slow", "*_ok", "late_"), whole("dead", "*_ok", "*_slow", "dead_"),
            { "type": "openapi", "connector_id": "invalid", "operations": "*", "prefix": "invalid_" },
            remote("far_a", "far_fail", "x"), remote("far_b", "far_asks", "x"),
            remote("far_c", "far_rpc", "x"), remote("far_d", "far_moved", "x"),
            remote("own_environment", "good", "environment"), remote("own_complain", "good", "complain"),
            remote("own_fail", "good", "fail"), remote("own_crash", "good", "crash"),
            remote("dying", "dying", "x"),
            command("tell", "teller now"), command("linger", "lingerer now"),
        ],
    })
}

/// Says what it was told in confidence, and ends.
const DYING: &str = "import base64, json, os, sys\nt = os.environ['API_TOKEN']\n\
    print('fatal: ' + t, base64.b64encode(t.encode()).decode(), t.encode().hex(), json.dumps(t), file=sys.stderr, flush=True)\n\
    sys.exit(1)\n";
/// The same, as the result and the complaint of a command.
const TELLER: &str = "#!/bin/sh\necho \"it is $CNRY_COMMAND\"\nprintf %s \"$CNRY_COMMAND\" | od -An -tx1 | tr -d ' \\n'\necho\nprintf %s \"$CNRY_COMMAND\" | base64 -w0\necho\necho \"told $CNRY_COMMAND\" >&2\nexit 3\n";
/// Tells, and then does not end.
const LINGERER: &str =
    "#!/bin/sh\necho \"it is $CNRY_COMMAND\"\necho \"told $CNRY_COMMAND\" >&2\nexec sleep 600\n";

struct Stage {
    place: TestFolder,
    gateway: Gateway,
    echo: Echo,
    /// Keeps a port on which nobody listens.
    _nobody: TcpSocket,
    /// Everything that was shown so far.
    shown: Vec<(String, String)>,
}

impl Stage {
    async fn new() -> Self {
        let echo = Echo::start().await;
        let (nobody, dead) = reserved_port();
        let place = TestFolder::new("");
        let bin = program(&place, "teller", TELLER);
        program(&place, "lingerer", LINGERER);
        let dying = place.path().join("dying.py");
        std::fs::write(&dying, DYING).unwrap();
        place.configure(&config(&echo.address, &dying));
        let folder = super::write(&place, &pack(&echo.address, &dead));
        std::fs::write(folder.join("spec.json"), document(&echo.address).to_string()).unwrap();
        std::fs::write(folder.join("dying.py"), DYING).unwrap();
        let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/server.py");
        std::fs::copy(server, folder.join("server.py")).unwrap();
        let address = echo.address.clone();
        let gateway = place.serve_with(|command| {
            command.env("PATH", path_with(&bin));
            give(command, &address);
        });
        let mut stage = Self { place, gateway, echo, _nobody: nobody, shown: Vec::new() };
        let installed = install(&stage.place, &folder);
        stage.shown.push(("install".to_owned(), installed.to_string()));
        stage.run(&["toolpacks", "enable", "canary"]);
        listed(&stage.gateway, "own_crash").await;
        stage
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.gateway.stateless(&self.gateway.token, "tools/call", params).await;
        let answer = text(&answer.body);
        self.shown.push((tool.to_owned(), answer.clone()));
        answer
    }

    fn run(&mut self, args: &[&str]) -> String {
        let mut command = self.place.command(args);
        give(&mut command, &self.echo.address);
        let output = command.output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        self.shown.push((args.join(" "), said.clone()));
        said
    }

    /// Every file below the folder, and everything that was shown.
    fn sinks(&self) -> Vec<(String, String)> {
        let mut sinks = self.shown.clone();
        files(self.place.path(), &mut sinks);
        sinks
    }
}

fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(data) = unless_gone(path.symlink_metadata()) else { continue };
        if data.is_dir() {
            files(&path, found);
        } else if data.is_file()
            && let Some(content) = unless_gone(std::fs::read(&path))
        {
            found.push((path.display().to_string(), text(&content)));
        }
    }
}

fn give(command: &mut Command, address: &str) {
    command.envs(VARIABLES.map(|name| (name, value(name))));
    command.env("CNRY_BOTH", format!("bob:{}", value("CNRY_BOTH_PASSWORD")));
    command.env("CNRY_MCP_HEADER", format!("Bearer {}", value("CNRY_MCP_HEADER")));
    let key = escaped(&value("CNRY_KEY_QUERY"));
    command.env("CNRY_SPEC_URL", format!("http://{address}/broken?key={key}"));
}

/// Configured servers that have confidences too.
fn config(address: &str, dying: &Path) -> String {
    let manifest = "manifest = [{ name = \"once\", description = \"d\", inputSchema = { type = \"object\" } }]";
    format!(
        "[telemetry]\nlog = \"trace\"\n\
         [servers.conf-far]\nurl = \"http://{address}/rpc\"\nheaders = {{ X-Extra = \"env:CNRY_SERVER_HEADER\" }}\n\
         [servers.conf-dying]\ncommand = \"python3\"\nargs = [\"{dying}\"]\nenv = {{ API_TOKEN = \"env:CNRY_SERVER_ENV\" }}\n\
         [servers.conf-call]\nprotocol = \"call\"\nurl = \"http://{address}/broken\"\nheaders = {{ X-Extra = \"env:CNRY_CALL_HEADER\" }}\n{manifest}\n\
         [servers.conf-once]\nprotocol = \"call\"\ncommand = \"python3\"\nargs = [\"{dying}\"]\nenv = {{ API_TOKEN = \"env:CNRY_CALL_ENV\" }}\n{manifest}\n",
        dying = dying.display(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_value_of_the_environment_is_found_anywhere() {
    let mut stage = Stage::new().await;
    call_everything(&mut stage).await;
    for name in VARIABLES.iter().filter(|name| {
        !["CNRY_STDIO", "CNRY_DYING", "CNRY_COMMAND", "CNRY_SERVER_ENV", "CNRY_CALL_ENV"]
            .contains(name)
    }) {
        assert!(stage.echo.heard(&value(name)), "`{name}` reaches whom it is for");
    }
    assert!(stage.echo.heard(TOKEN), "the token that was given out is used");
    ask_for_everything(&mut stage).await;
    // With nothing in it, nothing can leak.
    assert!(stage.shown.iter().any(|(_, said)| said.contains("fatal: ")), "last words are shown");
    let sinks = stage.sinks();
    let mut leaks = Vec::new();
    for name in VARIABLES.iter().copied().chain(["token"]) {
        let secret = if name == "token" { TOKEN.to_owned() } else { value(name) };
        for spelling in spellings(&secret) {
            for (place, shown) in &sinks {
                if let Some(at) = shown.find(&spelling) {
                    let from = shown[..at].char_indices().rev().nth(160).map_or(0, |(at, _)| at);
                    leaks.push(format!("{name} in {place}: {} >>{spelling}<<", &shown[from..at]));
                }
            }
        }
    }
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n\n"));
}

/// Every tool, whatever becomes of the call.
async fn call_everything(stage: &mut Stage) {
    for scheme in SCHEMES {
        for answer in ["ok", "fail", "moved", "away", "broken"] {
            let said = stage.call(&format!("api_{scheme}_{answer}"), json!({})).await;
            // With nothing in it, nothing can leak.
            assert!(said.contains("[REDACTED]") || answer == "away", "{scheme} {answer}: {said}");
        }
        stage.call(&format!("dead_{scheme}_ok"), json!({})).await;
    }
    for scheme in ["query", "basic"] {
        let said = stage.call(&format!("late_{scheme}_slow"), json!({})).await;
        assert!(said.contains("TIMEOUT") || said.contains("deadline"), "{said}");
    }
    stage.call("api_refused_ok", json!({})).await;
    let told = json!({ "text": value("CNRY_STDIO") });
    stage.call("own_complain", told.clone()).await;
    stage.call("conf-call__once", json!({})).await;
    for (tool, arguments) in [
        ("own_environment", json!({})),
        ("own_fail", told.clone()),
        ("tell", json!({})),
        ("conf-once__once", json!({})),
    ] {
        let said = stage.call(tool, arguments).await;
        assert!(said.contains("[REDACTED]") || said.contains("****"), "{tool}: {said}");
    }
    stage.call("own_crash", told).await;
    let said = stage.run(&["tools", "call", "linger", "--timeout", "2000"]);
    assert!(!said.is_empty());
}

/// Everything that shows something of the gateway.
async fn ask_for_everything(stage: &mut Stage) {
    let commands: [&[&str]; 17] = [
        &["toolpacks", "doctor"],
        &["toolpacks", "doctor", "canary", "--json"],
        &["toolpacks", "validate"],
        &["toolpacks", "validate", "./sources/canary"],
        &["toolpacks", "show", "canary"],
        &["toolpacks", "show", "canary", "--json"],
        &["toolpacks", "list", "--json"],
        &["toolpacks", "lock", "verify"],
        &["servers", "list"],
        &["servers", "list", "--json"],
        &["servers", "doctor"],
        &["servers", "doctor", "--json"],
        &["servers", "review", "canary"],
        &["tools", "list", "--json"],
        &["tools", "show", "own_fail"],
        &["config", "show"],
        &["audit", "export", "--json"],
    ];
    for args in commands {
        let said = stage.run(args);
        assert!(!said.is_empty(), "{args:?}");
    }
    let bearer = format!("Bearer {}", stage.gateway.token);
    for path in ["/metrics", "/healthz", "/readyz"] {
        let answer = stage.gateway.send(Method::GET, path, &[("authorization", &bearer)], "").await;
        stage.shown.push((path.to_owned(), text(&answer.body)));
    }
}
