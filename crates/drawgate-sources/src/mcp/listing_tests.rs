use serde_json::json;

use super::*;

fn page(page: Value) -> Map<String, Value> {
    let Value::Object(page) = page else { panic!("not an object") };
    page
}

#[test]
fn bad_tools_are_left_out_and_the_others_stay() {
    let mut listing = Listing::default();
    let schema = json!({ "type": "object" });
    let header = |value: Value| json!({ "type": "object", "properties": { "a": { "type": "string", "x-mcp-header": value } } });
    let next = listing.add(page(json!({
        "tools": [
            { "name": "good", "inputSchema": schema, "title": "Kept", "annotations": { "readOnlyHint": true } },
            { "name": "no_schema" },
            { "inputSchema": schema },
            "nonsense",
            { "name": "injected", "inputSchema": header(json!("A\r\nB")) },
            { "name": "headed", "inputSchema": header(json!("Region")) },
        ],
        "nextCursor": "2",
    })));
    assert_eq!(next.unwrap(), Some(json!("2")));
    let names: Vec<&str> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good", "headed"]);
    assert_eq!(listing.tools[0].rest["title"], "Kept");
    let left_out: Vec<&str> = listing.left_out.iter().map(|left| left.tool.as_str()).collect();
    assert_eq!(left_out, ["no_schema", "", "", "injected"]);
    assert_eq!(listing.headers.keys().collect::<Vec<_>>(), ["headed"]);
}

#[test]
fn a_list_is_bounded_and_must_be_one() {
    let mut listing = Listing::default();
    assert!(listing.add(page(json!({ "tools": {} }))).is_err());
    let many: Vec<Value> = (0..=MAX_TOOLS).map(|_| json!({})).collect();
    assert!(listing.add(page(json!({ "tools": many }))).is_err());
    assert_eq!(listing.add(page(json!({ "tools": [], "nextCursor": null }))).unwrap(), None);
}
