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
            null,
            { "name": "injected", "inputSchema": header(json!("A\r\nB")) },
            { "name": "headed", "inputSchema": header(json!("Region")) },
    ])));
    assert!(added.is_continue());
    let names: Vec<&str> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good", "foreign", "headed"]);
    assert_eq!(listing.tools[0].rest["title"], "Kept");
    let left_out = left_out(&listing);
    let (injected, unread) = left_out.split_last().unwrap();
    assert_eq!(
        unread,
        [
            ("no_schema", "the definition has no `inputSchema`"),
            ("", "the definition has no `name`"),
            ("", "the definition must be an object"),
            ("", "the definition must be an object"),
        ]
    );
    assert_eq!(injected.0, "injected");
    let said: Vec<(&str, &str)> =
        listing.omissions.misfits.iter().map(|it| (it.tool.as_str(), it.reason.as_str())).collect();
    assert_eq!(said, [("foreign", "`description` must be a text")]);
    assert_eq!(listing.headers.keys().collect::<Vec<_>>(), ["headed"]);
}

fn left_out(listing: &Listing) -> Vec<(&str, &str)> {
    let all = listing.omissions.left_out.iter();
    all.map(|left| (left.tool.as_str(), left.reason.as_str())).collect()
}

#[test]
fn a_tool_that_is_listed_twice_is_offered_as_it_came_first() {
    let mut listing = Listing::default();
    let tool =
        |title: &str| json!({ "name": "t", "title": title, "inputSchema": { "type": "object" } });
    for title in ["first", "first", "other"] {
        assert!(listing.add(vec![tool(title)]).is_continue());
    }
    assert_eq!(listing.tools.len(), 1);
    assert_eq!(listing.tools[0].rest["title"], "first");
    assert_eq!(
        left_out(&listing),
        [
            ("t", "the server lists this tool again; the first one is offered"),
            (
                "t",
                "the server lists this tool again, with another definition; the first one is offered"
            ),
        ]
    );
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
