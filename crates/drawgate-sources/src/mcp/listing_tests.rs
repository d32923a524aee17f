use serde_json::json;

use super::*;

fn items(items: Value) -> Vec<Value> {
    let Value::Array(items) = items else { panic!("not a list") };
    items
}

#[test]
fn bad_tools_are_left_out_and_the_others_stay() {
    let mut listing = Listing::default();
    let schema = json!({ "type": "object" });
    let header = |value: Value| json!({ "type": "object", "properties": { "a": { "type": "string", "x-mcp-header": value } } });
    let added = listing.add(items(json!([
            { "name": "good", "inputSchema": schema, "title": "Kept", "annotations": { "readOnlyHint": true } },
            { "name": "foreign", "inputSchema": schema, "annotations": { "category": "input" }, "description": 5 },
            { "name": "no_schema" },
            { "inputSchema": schema },
            "nonsense",
            { "name": "injected", "inputSchema": header(json!("A\r\nB")) },
            { "name": "headed", "inputSchema": header(json!("Region")) },
    ])));
    assert!(added.is_continue());
    let names: Vec<&str> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good", "foreign", "headed"]);
    assert_eq!(listing.tools[0].rest["title"], "Kept");
    let left_out: Vec<&str> =
        listing.omissions.left_out.iter().map(|left| left.tool.as_str()).collect();
    assert_eq!(left_out, ["no_schema", "", "", "injected"]);
    let said: Vec<(&str, &str)> =
        listing.omissions.misfits.iter().map(|it| (it.tool.as_str(), it.reason.as_str())).collect();
    assert_eq!(said, [("foreign", "`description` must be a text")]);
    assert_eq!(listing.headers.keys().collect::<Vec<_>>(), ["headed"]);
}

#[test]
fn a_list_that_is_too_long_is_cut() {
    let mut listing = Listing::default();
    let tool = |n: usize| json!({ "name": format!("t{n}"), "inputSchema": { "type": "object" } });
    let many: Vec<Value> = (0..MAX_ITEMS + 10).map(tool).collect();
    assert!(listing.add(many).is_break());
    assert_eq!(listing.tools.len(), MAX_ITEMS);
    assert!(listing.add(vec![json!({})]).is_break());
    assert_eq!(listing.omissions.left_out.len(), 0);
}
