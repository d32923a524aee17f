//! What becomes of a tool.

use clap::Parser as _;
use serde_json::json;

use super::*;

fn options(arguments: &[&str]) -> Options {
    let fixed = ["bridge", "--pack-id", "p", "--key", "k"];
    Options::try_parse_from([&fixed, arguments, &["--", "server"]].concat()).unwrap()
}

fn mcp(name: &str) -> McpTool {
    serde_json::from_value(json!({
        "name": name,
        "title": "A title",
        "description": "Does it.",
        "inputSchema": { "type": "object", "properties": { "a": { "type": "string" } } },
        "outputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true },
    }))
    .unwrap()
}

struct Defined(Definition);

impl Tool for Defined {
    fn definition(&self) -> Definition {
        self.0.clone()
    }

    async fn call(&self, _: Call) -> Result<Answer, ToolError> {
        Ok(Answer::text(""))
    }
}

/// What the gateway would be told.
fn told(options: &Options, name: &str) -> drawgate_sdk::proto::ToolDefinition {
    let pack = Pack::new("p", "1").tool(Defined(definition(options, &mcp(name))));
    pack.manifest().tools.remove(0)
}

#[test]
fn a_tool_keeps_all_but_its_name() {
    let tool = told(&options(&["--prefix", "fs_", "--timeout", "7"]), "read");
    assert_eq!(tool.name, "fs_read");
    assert_eq!(tool.title, "A title");
    assert_eq!(tool.description, "Does it.");
    assert_eq!(tool.timeout_seconds, 7);
    assert!(tool.input_schema_json.contains(r#""a":{"type":"string"}"#));
    assert_eq!(tool.output_schema_json, r#"{"type":"object"}"#);
    assert_eq!(tool.annotations_json, r#"{"readOnlyHint":true}"#);
}

#[test]
fn capabilities_of_its_own_take_the_place_of_the_default() {
    let options = options(&[
        "--capability",
        "files",
        "--capability",
        "local",
        "--tool-capability",
        "write=danger",
        "--tool-capability",
        "ping=",
    ]);
    assert_eq!(told(&options, "read").required_capabilities, ["files", "local"]);
    assert_eq!(told(&options, "write").required_capabilities, ["danger"]);
    assert_eq!(told(&options, "ping").required_capabilities, [""; 0]);
}

#[test]
fn a_capability_for_a_tool_that_is_not_there_is_refused() {
    let tools = [mcp("read"), mcp("write")];
    assert!(check_names(&options(&["--tool-capability", "read=x"]), &tools).is_ok());
    let error = check_names(&options(&["--tool-capability", "raed=x"]), &tools).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("`raed`") && error.contains("`read`, `write`"), "{error}");
}

#[test]
fn a_servers_words_are_passed_on_and_a_lost_server_is_named() {
    let refused = rmcp::ErrorData::invalid_params("as the server said", None);
    let cases = [
        (ServiceError::McpError(refused), "as the server said"),
        (ServiceError::TransportClosed, "the MCP server behind this pack is gone; try again"),
    ];
    for (error, words) in cases {
        assert_eq!(answer(Err(error)).unwrap_err().to_string(), words);
    }
}
