//! Answers that can't be parsed: the call fails at once and says why, whatever carries the answer.

use std::sync::Arc;

use drawgate_core::model::ErrorCode;
use drawgate_core::source::ToolSource;
use drawgate_sources::mcp::McpSource;
use serde_json::json;

use crate::http_server::{Mode, Server};
use crate::support::{code, echo, gate, mcp, stdio, text};

/// Calls a server whose tool answers with the very message that it is given, `ID` being the id of the
/// request.
pub(crate) async fn check(source: &Arc<McpSource>) {
    let gate = gate(source).await;
    let result =
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"a\ud800b"}]}}"#;
    assert_eq!(text(&echo(&gate, result).await), "a\u{fffd}b");
    let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
    let cases = [
        (
            format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"x":{deep}}}}}"#),
            "nested deeper than 64",
        ),
        (
            format!(r#"{{"result":{{"x":{deep}}},"jsonrpc":"2.0","id":ID}}"#),
            "nested deeper than 64",
        ),
        (r#"{"id":ID,"result":{"content":[],"content":[]}}"#.to_owned(), "duplicate key `content`"),
        (r#"{"id":ID,"result":{"content":[{"ty"#.to_owned(), "EOF"),
        (r#"{"jsonrpc":"2.0","result":{"content":[{"ty"#.to_owned(), "EOF"),
    ];
    for (answer, expected) in cases {
        let result = echo(&gate, &answer).await;
        assert_eq!(code(&result), Some(ErrorCode::ExecutionFailed), "{answer}: {result:?}");
        let message = result.error.unwrap().message;
        assert!(message.starts_with("`up`: the server's answer can't be read"), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    source.close().await;
}

#[tokio::test]
async fn over_standard_output() {
    check(&stdio("verbatim")).await;
}

#[tokio::test]
async fn over_http() {
    for mode in [Mode::VerbatimJson, Mode::VerbatimEvents] {
        let server = Server::start(mode).await;
        check(&mcp(json!({ "url": server.url }))).await;
    }
}
