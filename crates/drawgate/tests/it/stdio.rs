//! MCP over standard input and output, through the bridge.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::Place;

/// Sends the messages as lines, and returns as many answers as there are requests.
fn talk(place: &Place, messages: &[Value]) -> Vec<Value> {
    let mut command = place.command(&["mcp"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: Vec<String> = messages.iter().map(|message| format!("{message}\n")).collect();
    let writer = std::thread::spawn(move || {
        for line in lines {
            input.write_all(line.as_bytes()).unwrap();
        }
        input
    });
    let requests = messages.iter().filter(|message| message.get("id").is_some()).count();
    let output = BufReader::new(child.stdout.take().unwrap());
    let answers = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
        .filter(|message| message.get("id").is_some())
        .take(requests)
        .collect();
    drop(writer.join().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(0), "the end of input ends it in order");
    answers
}

#[test]
fn every_request_is_answered_even_one_that_is_too_large() {
    let place = Place::new("");
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let large = json!({ "path": "a.txt", "content": "x".repeat(5 << 20) });
    let answers = talk(
        &place,
        &[
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "vfs_write", "arguments": large } }),
            json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/list" }),
        ],
    );
    let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answer(1)["result"]["serverInfo"]["name"], "drawgate");
    let refusal = answer(2)["error"]["message"].as_str().unwrap();
    assert!(refusal.contains("larger than 4194304 bytes"), "{refusal}");
    assert_eq!(answer(3)["result"]["tools"].as_array().map(Vec::len), Some(4));
}
