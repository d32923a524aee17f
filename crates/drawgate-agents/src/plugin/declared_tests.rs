use serde_json::json;

use super::*;

fn manifest(runtime: &str) -> PluginManifest {
    let main = if runtime == "python" { "main.py" } else { "main.ts" };
    let text = json!({ "name": "p", "version": "1", "main": main, "runtime": runtime });
    PluginManifest::parse(text.to_string().as_bytes()).unwrap()
}

fn declared(runtime: &str, tools: Value) -> Result<Declared, String> {
    let statement = Statement { name: json!("p"), version: json!("1"), hooks: json!([]), tools };
    let id = SourceId::new("p").unwrap();
    check(&manifest(runtime), &id, statement).map_err(|problems| problems.to_string())
}

#[test]
fn fields_are_named_as_authors_write_them() {
    let tool = json!([{ "name": "a", "description": "d" }]);
    for (runtime, field) in [("node", "schema"), ("python", "schema"), ("exec", "inputSchema")] {
        let error = declared(runtime, tool.clone()).unwrap_err();
        assert!(
            error.starts_with(&format!("plugin `p`: tool `a`, `{field}`: it is missing")),
            "{error}"
        );
    }
}

#[test]
fn a_large_schema_is_refused_and_good_tools_are_kept_in_order() {
    let large = json!({ "type": "object", "description": "x".repeat(300_000) });
    let error =
        declared("node", json!([{ "name": "a", "description": "d", "inputSchema": large }]));
    assert!(error.unwrap_err().contains("`schema`: it is larger than 262144 bytes"));
    let schema = json!({ "type": "object" });
    let tools = json!([
        { "name": "b", "description": "d", "inputSchema": schema },
        { "name": "a", "description": "d", "inputSchema": schema, "title": "unknown members do not matter" },
    ]);
    let names: Vec<String> =
        declared("exec", tools).unwrap().tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn names_and_hooks_of_other_kinds_are_refused() {
    let id = SourceId::new("p").unwrap();
    let said = Statement {
        name: json!(7),
        version: Value::Null,
        hooks: json!("onMessage"),
        tools: json!([]),
    };
    let error = check(&manifest("node"), &id, said).unwrap_err();
    let fields: Vec<&str> = error.problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["name", "version", "hooks"]);
}
