//! No secret is found where it must not be: database, log, artifacts, metrics, errors, arguments of
//! processes.

use std::path::{Path, PathBuf};

use http::Method;
use serde_json::{Value, json};

use crate::leaks::{KEEP, ROWS, assert_gone, secret};
use crate::load::{events, fixture, offers};
use crate::support::{Gateway, TestFolder, text, unless_gone};

/// A gateway that knows secrets from its environment, with the log at its loudest.
struct Stage {
    place: TestFolder,
    gateway: Gateway,
    /// In the environment of the fixture.
    known: String,
    /// In a header of a server that does not answer.
    header: String,
    /// In the gateway's environment only.
    undeclared: String,
}

impl Stage {
    async fn new() -> Self {
        let config = format!(
            "[telemetry]\nlog = \"trace\"\n[approvals]\nhold_seconds = 0\n{}\
             env = {{ API_KEY = \"env:STAGE_KEY\" }}\n\
             [servers.fixture.tools.structured]\nmax_output_bytes = 256\n\
             [servers.fixture.tools.metadata]\nrequires_confirmation = true\n\
             [servers.remote]\nurl = \"http://127.0.0.1:9/mcp\"\nheaders = {{ X-Key = \"env:STAGE_HEADER\" }}\n",
            fixture()
        );
        let place = TestFolder::new(&config);
        let [known, header, undeclared] = [100, 107, 115].map(|number| secret("plain", number));
        let gateway = place.serve_with(|command| {
            let values =
                [("STAGE_KEY", &known), ("STAGE_HEADER", &header), ("STAGE_OTHER", &undeclared)];
            command.envs(values);
        });
        offers(&gateway, "fixture__echo").await;
        Self { place, gateway, known, header, undeclared }
    }

    async fn answer(&self, tool: &str, arguments: &Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments });
        text(&self.gateway.stateless(&self.gateway.token, "tools/call", params).await.body)
    }

    /// Everything that the gateway has written or shows to its operator.
    async fn sinks(&self) -> Vec<(String, String)> {
        let mut sinks: Vec<(String, String)> = files(&self.place.data())
            .into_iter()
            .filter(|path| {
                path.extension().is_none_or(|extension| extension != "token" && extension != "sock")
            })
            .filter_map(|path| {
                let content = unless_gone(std::fs::read(&path))?;
                Some((path.display().to_string(), text(&content)))
            })
            .collect();
        sinks.push(("log".to_owned(), self.place.log()));
        let bearer = format!("Bearer {}", self.gateway.token);
        let metrics =
            self.gateway.send(Method::GET, "/metrics", &[("authorization", &bearer)], "").await;
        sinks.push(("metrics".to_owned(), text(&metrics.body)));
        let commands: [&[&str]; 5] = [
            &["config", "show"],
            &["servers", "list", "--json"],
            &["servers", "doctor"],
            &["approvals", "list", "--all", "--json"],
            &["tools", "list", "--json"],
        ];
        for command in commands {
            let output = self.place.run(command);
            sinks.push((command.join(" "), text(&output.stdout) + &text(&output.stderr)));
        }
        sinks
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_of_the_catalogue_is_found_anywhere() {
    let stage = Stage::new().await;
    let mut secrets = vec![stage.known.clone(), stage.header.clone(), stage.undeclared.clone()];
    for (number, row) in ROWS.iter().enumerate() {
        let secret = row.secret(number, &stage.known);
        let mut payload = row.filled(&secret);
        let echoed = stage.answer("fixture__echo", &payload).await;
        if row.known {
            assert_gone(&secret, &echoed, row.name);
        }
        for tool in ["fixture__fail", "fixture__refuse", "vfs_write", "fixture__metadata"] {
            let answer = stage.answer(tool, &payload).await;
            assert!(
                answer.contains("\"error\"") || answer.contains("isError"),
                "{}: {tool}: {answer}",
                row.name
            );
            if row.found_in_text {
                assert_gone(&secret, &answer, &format!("{}: the answer of {tool}", row.name));
            }
        }
        if row.found_in_text {
            stage.answer("fixture__complain", &payload).await;
        }
        // Long enough to become an artifact.
        payload["row"] = row.name.into();
        payload["padding"] = "lorem ipsum ".repeat(50).into();
        let spooled = stage.answer("fixture__structured", &payload).await;
        assert!(spooled.contains("drawgate://artifacts/"), "{}: {spooled}", row.name);
        secrets.push(secret);
    }
    let named = secret("ghp", 5);
    stage.answer(&format!("x{named}"), &json!({})).await;
    secrets.push(named);
    stage.answer("fixture__crash", &json!({ "text": stage.known })).await;
    for secret in [&stage.known, &stage.header] {
        let shown = stage.answer("fixture__environment", &json!({ "unused": secret })).await;
        assert_gone(secret, &shown, "the environment of the server");
    }
    let artifacts = stage.place.json(&["artifacts", "list"]);
    assert_eq!(artifacts.as_array().unwrap().len(), ROWS.len());
    let sinks = stage.sinks().await;
    for secret in &secrets {
        for (place, shown) in &sinks {
            assert_gone(secret, shown, place);
        }
    }
    check_processes(&secrets);
}

/// Arguments of processes can be read by every user of the machine.
fn check_processes(secrets: &[String]) {
    for entry in std::fs::read_dir("/proc").unwrap() {
        // A process may be gone by now.
        let Ok(line) = std::fs::read(entry.unwrap().path().join("cmdline")) else { continue };
        for secret in secrets {
            assert_gone(secret, &text(&line), "the arguments of a process");
        }
    }
}

#[tokio::test]
async fn what_is_no_secret_is_kept() {
    let stage = Stage::new().await;
    for payload in KEEP {
        stage.answer("fixture__echo", &serde_json::from_str(payload).unwrap()).await;
    }
    let decisions = events(&stage.place).into_iter().filter(|event| event["kind"] == "decision");
    let kept: Vec<Value> = decisions.map(|event| event["input"].clone()).collect();
    let expected: Vec<Value> =
        KEEP.iter().map(|payload| serde_json::from_str(payload).unwrap()).collect();
    assert_eq!(kept, expected);
}

#[tokio::test]
async fn a_server_gets_the_secrets_that_it_was_given_and_no_others() {
    let stage = Stage::new().await;
    let answer = stage.gateway.call(&stage.gateway.token, "fixture__environment", json!({})).await;
    let environment: Value =
        serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).unwrap();
    assert!(environment["API_KEY"].is_string(), "{environment}");
    for name in ["STAGE_KEY", "STAGE_HEADER", "STAGE_OTHER"] {
        assert!(environment[name].is_null(), "{name}");
    }
    assert_gone(&stage.known, &answer.to_string(), "the answer");
    let shown = stage.place.ok(&["config", "show"]);
    assert!(shown.contains("env:STAGE_KEY") && shown.contains("env:STAGE_HEADER"), "{shown}");
}
