//! The builder, and tools without a gateway.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::proto::execute_tool_response::Result as Wire;

#[derive(Deserialize, JsonSchema)]
struct ReadFile {
    /// Where it is.
    path: String,
    lines: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct Contents {
    text: String,
}

async fn read_file(input: ReadFile, _: Call) -> Result<Contents, ToolError> {
    match input.lines {
        Some(0) => Err(ToolError::new("  as written \n")),
        _ => Ok(Contents { text: std::fs::read_to_string(input.path)? }),
    }
}

fn pack() -> Pack {
    Pack::new("file-tools", "1.2.3")
        .max_concurrent_calls(7)
        .tool(
            tool("read_file", "Reads a file.")
                .title("Read a file")
                .capability("filesystem")
                .capability("local")
                .timeout(Duration::from_millis(1500))
                .annotation("readOnlyHint", true)
                .output::<Contents>()
                .run(read_file),
        )
        .tool(
            tool("now", "Says the time.").run(|_: NoInput, _| async { Ok::<_, ToolError>("noon") }),
        )
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

async fn call(name: &str, arguments: Value) -> Result<Wire, String> {
    let pack = pack();
    let outcome = pack.tools[name].call_any(Call::detached(name, arguments)).await;
    outcome.map(Answer::into_wire).map_err(|error| error.to_string())
}

#[test]
fn a_manifest_says_all_that_was_said() {
    let manifest = pack().manifest();
    assert_eq!(manifest.pack_id, "file-tools");
    assert_eq!(manifest.version, "1.2.3");
    assert_eq!(manifest.max_concurrent_calls, 7);
    assert_eq!(manifest.features, [1, 2, 3]);
    let [read, now] = manifest.tools.as_slice() else { panic!("two tools") };
    assert_eq!(read.name, "read_file");
    assert_eq!(read.title, "Read a file");
    assert_eq!(read.description, "Reads a file.");
    assert_eq!(read.required_capabilities, ["filesystem", "local"]);
    assert_eq!(read.timeout_seconds, 2);
    assert_eq!(json(&read.annotations_json), json!({ "readOnlyHint": true }));
    let input = json(&read.input_schema_json);
    assert_eq!(input["type"], "object");
    assert_eq!(input["required"], json!(["path"]));
    assert_eq!(input["properties"]["path"]["description"], "Where it is.");
    assert_eq!(json(&read.output_schema_json)["properties"]["text"]["type"], "string");
    assert_eq!(now.timeout_seconds, 0);
    assert_eq!(now.annotations_json, "");
    assert_eq!(now.output_schema_json, "");
    assert_eq!(json(&now.input_schema_json)["type"], "object");
}

#[test]
fn a_time_limit_is_never_rounded_to_none() {
    for (time, seconds) in [
        (Duration::ZERO, 1),
        (Duration::from_millis(1), 1),
        (Duration::from_secs(5), 5),
        (Duration::from_millis(5001), 6),
        (Duration::MAX, i32::MAX),
    ] {
        let pack = Pack::new("p", "1").tool(tool("t", "").timeout(time).run(read_file));
        assert_eq!(pack.manifest().tools[0].timeout_seconds, seconds, "{time:?}");
    }
}

#[test]
fn two_tools_of_one_name_are_both_told_so_that_the_gateway_refuses_them() {
    let pack = pack().tool(tool("now", "Again.").run(read_file));
    let names: Vec<_> = pack.manifest().tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["read_file", "now", "now"]);
}

#[tokio::test]
async fn outputs_are_json_and_errors_are_passed_on_as_written() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hello").unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(
        call("read_file", json!({ "path": path })).await,
        Ok(Wire::OutputJson(r#"{"text":"hello"}"#.to_owned()))
    );
    assert_eq!(call("now", json!({})).await, Ok(Wire::OutputJson(r#""noon""#.to_owned())));
    assert_eq!(
        call("read_file", json!({ "path": "", "lines": 0 })).await,
        Err("  as written \n".to_owned())
    );
    let missing = call("read_file", json!({ "path": "/nowhere/at/all" })).await.unwrap_err();
    assert_eq!(missing, "No such file or directory (os error 2)");
    let wrong = call("read_file", json!({ "lines": 1 })).await.unwrap_err();
    assert_eq!(wrong, "invalid arguments: missing field `path`");
}

#[test]
fn an_answer_is_json_text_or_an_mcp_result() {
    let result = json!({ "content": [], "isError": true });
    assert_eq!(Answer::text("a \"b\"").into_wire(), Wire::OutputJson(r#""a \"b\"""#.to_owned()));
    assert_eq!(Answer::json(&[1, 2]).unwrap().into_wire(), Wire::OutputJson("[1,2]".to_owned()));
    assert_eq!(Answer::mcp(&result).into_wire(), Wire::McpResultJson(result.to_string()));
}
