//! What a caller says about its own call, on every surface: it takes away and never adds.

use std::time::Duration;

use drawgate_core::model::Narrowing;
use drawgate_sdk::Agent;
use serde_json::{Value, json};

use crate::load::{events, fixture, offers};
use crate::peers::{Peers, key, key_line};
use crate::support::text;

/// In arguments and outputs, under a key that no vocabulary knows.
const HIDDEN: &str = "4711-0815";

#[derive(Debug, Clone, Copy)]
enum Surface {
    Mcp,
    Grpc,
    CommandLine,
}

const ALL: [Surface; 3] = [Surface::Mcp, Surface::Grpc, Surface::CommandLine];

/// Callers who hold nothing but what every caller does.
struct Callers {
    peers: Peers,
    token: String,
    agent: Agent,
}

impl Callers {
    async fn start() -> Self {
        let config = format!("{}timeout_seconds = 1\nmax_output_bytes = 1000\n", fixture());
        let line = key_line(r#"agent="over-grpc",capabilities="nothing""#, &key(1));
        let peers = Peers::start_with(&config, &[line]);
        let token = peers.place.ok(&["agents", "add", "over-mcp", "--quiet"]).trim().to_owned();
        let agent = peers.join("over-grpc", &key(1)).await;
        offers(&peers.gateway, "fixture__echo").await;
        Self { peers, token, agent }
    }

    fn grant(&self, capability: &str, scope: &str) -> String {
        let added = ["grants", "add", capability, "--scope", scope, "--quiet"];
        self.peers.place.ok(&added).trim().to_owned()
    }

    /// Makes a call, and returns its outcome as the audit log has it.
    async fn call(&self, surface: Surface, tool: &str, arguments: &Value, how: &Value) -> Value {
        let narrowing: Narrowing = serde_json::from_value(how.clone()).unwrap();
        match surface {
            Surface::Mcp => {
                let meta = json!({ "drawgate/call": how });
                let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
                self.peers.gateway.rpc(&self.token, "tools/call", params).await;
            }
            Surface::Grpc => self.over_grpc(tool, arguments, narrowing).await,
            Surface::CommandLine => {
                let args = command(tool, arguments, narrowing);
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                self.peers.place.run(&args);
            }
        }
        let outcome =
            events(&self.peers.place).into_iter().rfind(|event| event["kind"] == "outcome");
        outcome.unwrap()
    }

    async fn over_grpc(&self, tool: &str, arguments: &Value, narrowing: Narrowing) {
        let mut call = self.agent.call(tool, arguments);
        if let Some(ids) = narrowing.grant_ids {
            call = call.grants(ids.iter().map(ToString::to_string));
        }
        for key in narrowing.redact_keys {
            call = call.redact(key);
        }
        if let Some(run) = narrowing.run_id {
            call = call.run(run);
        }
        if let Some(limit) = narrowing.timeout_ms {
            call = call.timeout(Duration::from_millis(limit));
        }
        let _outcome = call.await;
    }
}

fn command(tool: &str, arguments: &Value, narrowing: Narrowing) -> Vec<String> {
    let input = arguments.to_string();
    let mut args: Vec<String> =
        ["tools", "call", tool, "--agent", "over-mcp", "--input", &input].map(str::to_owned).into();
    let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
    for id in narrowing.grant_ids.into_iter().flatten() {
        option("--grant", id.to_string());
    }
    for key in narrowing.redact_keys {
        option("--redact", key);
    }
    if let Some(run) = narrowing.run_id {
        option("--run", run);
    }
    if let Some(limit) = narrowing.timeout_ms {
        option("--timeout", limit.to_string());
    }
    args
}

#[tokio::test]
async fn a_caller_narrows_its_call_on_every_surface_and_widens_it_on_none() {
    let callers = Callers::start().await;
    let own = callers.grant("source.fixture", "workspace");
    let other = callers.grant("other", "workspace");
    let foreign = callers.grant("source.fixture", "user:local");
    let forever = callers.peers.place.path().join("never").display().to_string();
    let begun = callers.peers.place.path().join("begun").display().to_string();
    let wait = json!({ "begun": begun, "until": forever });
    let echo = json!({ "locker": HIDDEN, "deep": [{ "locker": HIDDEN }] });
    let (echo_tool, wait_tool) = ("fixture__echo", "fixture__wait");
    let denied = "PERMISSION_DENIED";
    let invalid = "INVALID_ARGUMENTS";
    let cases = [
        (echo_tool, &echo, json!({}), "OK"),
        (echo_tool, &echo, json!({ "grantIds": [own] }), "OK"),
        (echo_tool, &echo, json!({ "grantIds": [other] }), denied),
        (echo_tool, &echo, json!({ "grantIds": [foreign] }), denied),
        (echo_tool, &echo, json!({ "grantIds": [foreign, own] }), "OK"),
        (echo_tool, &echo, json!({ "grantIds": ["standing:local:*"] }), denied),
        (echo_tool, &echo, json!({ "redactKeys": ["Locker"] }), "OK"),
        (echo_tool, &echo, json!({ "redactKeys": ["Locker"], "runId": "r-7" }), "OK"),
        (echo_tool, &echo, json!({ "redactKeys": vec!["k"; 33] }), invalid),
        (echo_tool, &echo, json!({ "redactKeys": ["--"] }), invalid),
        (echo_tool, &echo, json!({ "runId": "r".repeat(257) }), invalid),
        (echo_tool, &echo, json!({ "grantIds": vec!["g"; 257] }), invalid),
        (wait_tool, &wait, json!({ "timeoutMs": 20 }), "TIMEOUT"),
        (wait_tool, &wait, json!({ "timeoutMs": 3_600_000 }), "TIMEOUT"),
    ];
    for (tool, arguments, how, expected) in cases {
        let mut hashes = Vec::new();
        for surface in ALL {
            let outcome = callers.call(surface, tool, arguments, &how).await;
            let code = outcome["code"].as_str().unwrap_or("OK");
            assert_eq!(code, expected, "{surface:?} {how}: {outcome}");
            let covering =
                if [denied, invalid].contains(&expected) { json!([]) } else { json!([own]) };
            assert_eq!(outcome["grantIds"], covering, "{surface:?} {how}: {outcome}");
            if expected != invalid {
                let run = how.get("runId").unwrap_or(&Value::Null);
                assert_eq!(&outcome["runId"], run, "{surface:?} {how}: {outcome}");
            }
            hashes.push(outcome["inputHash"].clone());
        }
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{how}: {hashes:?}");
        assert_eq!(hashes[0].is_null(), expected == invalid, "{how}: {hashes:?}");
    }
    // A list without ids can't be said on the command line.
    for surface in [Surface::Mcp, Surface::Grpc] {
        let outcome = callers.call(surface, echo_tool, &echo, &json!({ "grantIds": [] })).await;
        assert_eq!(outcome["code"], denied, "{surface:?}");
    }
    // Who narrowed the call knows the tool, and hears what it lacks.
    let meta = json!({ "drawgate/call": { "grantIds": [] } });
    let params = json!({ "name": echo_tool, "arguments": echo, "_meta": meta });
    let answer = callers.peers.gateway.rpc(&callers.token, "tools/call", params).await;
    assert_eq!(answer["result"]["_meta"]["drawgate/error"]["code"], denied, "{answer}");
}

#[tokio::test]
async fn what_a_caller_has_redacted_is_kept_nowhere() {
    let callers = Callers::start().await;
    callers.grant("source.fixture", "workspace");
    let place = &callers.peers.place;
    let arguments = json!({ "locker": HIDDEN, "pad": "x".repeat(2000) });
    for surface in ALL {
        let how = json!({ "redactKeys": ["locker"] });
        let outcome = callers.call(surface, "fixture__echo", &arguments, &how).await;
        let artifact = place.ok(&["artifacts", "get", outcome["artifact"].as_str().unwrap()]);
        assert!(artifact.contains("xxx") && !artifact.contains(HIDDEN), "{surface:?}: {artifact}");
    }
    assert!(!format!("{:?}", events(place)).contains(HIDDEN));
    assert!(!place.log().contains(HIDDEN));
    let Peers { place, gateway } = callers.peers;
    drop(gateway);
    let mut folders = vec![place.data()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if let Ok(bytes) = std::fs::read(&entry) {
                let found = bytes.windows(HIDDEN.len()).any(|part| part == HIDDEN.as_bytes());
                assert!(!found, "{}", entry.display());
            }
        }
    }
}

#[tokio::test]
async fn over_mcp_what_is_malformed_is_named_and_nothing_goes_on_to_the_server() {
    let callers = Callers::start().await;
    callers.grant("source.fixture", "workspace");
    let gateway = &callers.peers.gateway;
    let ask = async |method: &str, meta: Value| {
        let params = json!({ "name": "fixture__metadata", "arguments": {}, "_meta": meta });
        gateway.rpc(&callers.token, method, params).await
    };
    let call = |members: Value| json!({ "drawgate/call": members });
    let wrong = [
        ("tools/call", call(json!([])), "`drawgate/call`"),
        ("tools/call", call(json!({ "grantIds": "g" })), "`grantIds`"),
        ("tools/call", call(json!({ "grantIds": [7] })), "`grantIds`"),
        ("tools/call", call(json!({ "redactKeys": "k" })), "`redactKeys`"),
        ("tools/call", call(json!({ "runId": 7 })), "`runId`"),
        ("tools/call", call(json!({ "timeoutMs": "soon" })), "`timeoutMs`"),
        ("tools/call", call(json!({ "timeoutMs": -1 })), "`timeoutMs`"),
        ("tools/call", call(json!({ "grantId": ["g"] })), "`grantId`"),
        ("tools/call", json!({ "drawgate/calls": {} }), "`drawgate/calls`"),
        ("tools/list", call(json!({ "grantIds": [] })), "`drawgate/call`"),
    ];
    for (method, meta, named) in wrong {
        let answer = ask(method, meta.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{meta}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(named), "{meta}: {message}");
    }
    let meta = json!({ "drawgate/call": { "runId": "r" }, "vendor/own": 1 });
    let answer = ask("tools/call", meta).await;
    let passed = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(passed.contains("vendor/own") && !passed.contains("drawgate/"), "{passed}");
}

#[tokio::test]
async fn the_command_line_says_what_to_do_about_its_options() {
    let callers = Callers::start().await;
    let place = &callers.peers.place;
    let cases = [
        (["--redact", "--"], "`redactKeys`", "tools call --help"),
        (["--grant", "g_none"], "`grantIds`", "--grant"),
    ];
    for (option, named, advice) in cases {
        let [name, value] = option;
        let option = format!("{name}={value}");
        let output = place.run(&["tools", "call", "fixture__echo", "--agent", "over-mcp", &option]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(named) && said.contains(advice), "{said}");
    }
}
