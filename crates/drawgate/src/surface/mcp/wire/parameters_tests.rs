use serde_json::json;

use super::*;

#[test]
fn annotations_count_where_the_specification_allows_them() {
    let schema = json!({ "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
        "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
        "number": { "type": "number", "x-mcp-header": "Number" },
        "list": { "type": "array", "items": { "type": "string", "x-mcp-header": "Items" } },
        "broken": { "type": "string", "x-mcp-header": "a\r\nb: c" },
        "empty": { "type": "string", "x-mcp-header": "" },
        "choice": { "anyOf": [{ "type": "string", "x-mcp-header": "Choice" }] },
    } });
    let found: Vec<(String, String)> = parameters(&schema)
        .into_iter()
        .map(|parameter| (parameter.path.join("."), parameter.header.to_string()))
        .collect();
    let expected = [("region", "mcp-param-region"), ("deep.n", "mcp-param-n")];
    assert_eq!(found, expected.map(|(path, header)| (path.to_owned(), header.to_owned())));
}

#[test]
fn integers_are_compared_as_numbers() {
    for (argument, told, same) in [
        (json!(42), "42", true),
        (json!(42), "42.0", true),
        (json!(42), "0x2a", false),
        (json!(9_007_199_254_740_993_u64), "9007199254740993", true),
        (json!(9_007_199_254_740_993_u64), "9007199254740992", false),
        (json!(true), "True", false),
        (json!("42"), "42.0", false),
    ] {
        assert_eq!(is_same(&argument, told), same, "{argument} {told}");
    }
}
