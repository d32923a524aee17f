//! The first minutes with the program.

use serde_json::json;

use crate::support::TestFolder;

#[tokio::test]
async fn serves_without_any_configuration() {
    let place = TestFolder::new("");
    std::fs::remove_file(place.path().join("drawgate.toml")).unwrap();
    let gateway = place.serve();
    let names = crate::support::eventually("the built-in tools", async || {
        let names = gateway.tool_names(&gateway.token).await;
        (!names.is_empty()).then_some(names)
    })
    .await;
    assert_eq!(names, ["vfs_delete", "vfs_list", "vfs_read", "vfs_write", "web_fetch"]);
    place.ok(&["tools", "call", "vfs_write", "path=a/hello.txt", "content=hello there"]);
    assert_eq!(place.ok(&["tools", "call", "vfs_read", "path=a/hello.txt"]), "hello there\n");
    let read = gateway.call(&gateway.token, "vfs_read", json!({ "path": "a/hello.txt" })).await;
    assert_eq!(read["content"][0]["text"], "hello there");
    assert_eq!(gateway.terminate(), Some(0));
    // The same commands work on the folder when no gateway runs.
    assert_eq!(place.ok(&["tools", "call", "vfs_read", "path=a/hello.txt"]), "hello there\n");
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
}

#[test]
fn lists_tools_in_the_forms_of_model_providers() {
    let place = TestFolder::new("");
    for (provider, schema) in [
        ("anthropic", "/0/input_schema/type"),
        ("openai", "/0/function/parameters/type"),
        ("gemini", "/0/parametersJsonSchema/type"),
    ] {
        let printed = place.ok(&["tools", "list", "--provider", provider]);
        let tools: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(tools.as_array().map(Vec::len), Some(5), "{provider}: {tools}");
        assert_eq!(tools.pointer(schema), Some(&json!("object")), "{provider}: {tools}");
    }
}

#[test]
fn old_events_can_be_pruned_and_the_rest_still_verifies() {
    let place = TestFolder::new("");
    for number in 0..5 {
        place.ok(&["tools", "call", "vfs_write", "path=a.txt", &format!("content={number}")]);
    }
    let before = place.ok(&["audit", "export", "--json"]).lines().count();
    let removed = place.json(&["audit", "prune", "--before", "10", "--yes"]);
    assert_eq!(removed["removed"], 9);
    let exported = place.ok(&["audit", "export", "--json"]);
    assert!(!exported.contains("\"sequence\":9,"), "{exported}");
    assert!(exported.lines().count() < before, "{exported}");
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
}
