use serde_json::json;

use super::*;

#[test]
fn absent_and_empty_lists_of_grants_are_told_apart() {
    let base = json!({ "toolId": "s:t", "requestId": "r" });
    let cases = [
        (json!({}), None),
        (json!({ "grantIds": null }), None),
        (json!({ "grantIds": [] }), Some(vec![])),
        (json!({ "grantIds": ["a", "b"] }), Some(vec![GrantId::from("a"), "b".into()])),
    ];
    for (with, expected) in cases {
        let mut call = base.clone();
        call.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        let read: ToolInvocation = serde_json::from_value(call).unwrap();
        assert_eq!(read.grant_ids, expected, "{with}");
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(written.get("grantIds").is_some(), expected.is_some(), "{written}");
        assert_eq!(serde_json::from_value::<ToolInvocation>(written).unwrap(), read, "{with}");
    }
}
