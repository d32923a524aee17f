//! The roles as real processes: a server, a hop before it, and a load through both.

#![expect(clippy::disallowed_methods, reason = "the test starts the program that it tests")]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

/// A role that is killed at the end of its test.
struct Role {
    child: Child,
    address: String,
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_drawgate-bench"))
}

fn start(arguments: &[&str]) -> Role {
    let mut child = program().args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening ").unwrap().to_owned();
    Role { child, address }
}

fn load(to: &str, more: &[&str]) -> Output {
    let common = ["load", "--to", to, "--milliseconds", "500", "--warm-up-milliseconds", "10"];
    program().args(common).args(more).output().unwrap()
}

#[track_caller]
fn measured(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn calls_go_directly_and_through_the_hop() {
    let upstream = start(&["upstream"]);
    let hop = start(&["hop", "--to", &upstream.address]);
    for role in [&upstream, &hop] {
        let pid = role.child.id().to_string();
        let found = measured(&load(&role.address, &["--clients", "4", "--watch", &pid]));
        assert_eq!(found["errors"], 0, "{found}");
        assert!(found["answered"].as_u64().unwrap() > 0, "{found}");
        assert!(found["cpu_us"].is_number(), "{found}");
    }
}

#[test]
fn a_list_that_is_too_short_fails_the_load() {
    let upstream = start(&["upstream", "--tools", "30"]);
    let whole = measured(&load(&upstream.address, &["--list", "30"]));
    assert!(whole["answer_bytes"].as_u64().unwrap() > 10_000, "{whole}");
    let short = load(&upstream.address, &["--list", "31"]);
    assert!(!short.status.success());
    assert!(String::from_utf8_lossy(&short.stderr).contains("30 tools listed"));
}

#[test]
fn the_server_speaks_over_stdio_until_its_input_ends() {
    let mut command = program();
    command.args(["upstream", "--stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for message in [
        json!({ "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25" } }),
        json!({ "method": "notifications/initialized" }),
        json!({ "id": 2, "method": "tools/call",
            "params": { "name": "echo", "arguments": { "message": "hi" } } }),
    ] {
        writeln!(input, "{message}").unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let lines: Vec<Value> = BufReader::new(&*output.stdout)
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(lines[1]["result"]["content"][0]["text"], "hi");
}

#[test]
fn a_missing_program_is_named() {
    let run = ["run", "--quick", "--drawgate", "/nonexistent/drawgate"];
    let output = program().args(run).output().unwrap();
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("there is no `/nonexistent/drawgate`")
    );
}
