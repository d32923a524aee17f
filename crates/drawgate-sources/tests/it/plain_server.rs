//! What a small MCP server answers, whatever carries the messages.

use serde_json::{Value, json};

/// The messages that answer one of the client's. The tool `echo` answers with its message, but for
/// some words.
pub(crate) fn answers(message: &Value) -> Vec<Value> {
    let id = &message["id"];
    let result = |result: Value| vec![json!({ "jsonrpc": "2.0", "id": id, "result": result })];
    let error = |code: i64, text: &str| {
        vec![json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } })]
    };
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => result(json!({
            "protocolVersion": "2024-11-05",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "plain", "version": "1" },
        })),
        "tools/list" => {
            let schema =
                json!({ "type": "object", "properties": { "message": { "type": "string" } } });
            result(
                json!({ "tools": [{ "name": "echo", "description": "answers", "inputSchema": schema }] }),
            )
        }
        "tools/call" => call(message, &result, &error),
        _ if id.is_null() => Vec::new(),
        _ => error(-32601, "unknown method"),
    }
}

fn call(
    message: &Value,
    result: &dyn Fn(Value) -> Vec<Value>,
    error: &dyn Fn(i64, &str) -> Vec<Value>,
) -> Vec<Value> {
    let text = &message["params"]["arguments"]["message"];
    let said = json!({ "content": [{ "type": "text", "text": text }] });
    match text.as_str().unwrap_or_default() {
        "progress" => {
            let token = &message["params"]["_meta"]["progressToken"];
            let params = json!({ "progressToken": token, "progress": 1, "total": 2 });
            let mut all = vec![
                json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }),
            ];
            all.extend(result(said));
            all
        }
        "refuse" => error(-32602, "no"),
        "fail" => result(json!({ "content": said["content"], "isError": true })),
        _ => result(said),
    }
}
