use super::*;

#[test]
fn only_the_value_changes() {
    for (before, after) in [
        (r#"{"id":"a","enabled":false,"tools":[]}"#, r#"{"id":"a","enabled":true,"tools":[]}"#),
        ("{\r\n\t\"enabled\" :\tfalse\r\n}", "{\r\n\t\"enabled\" :\ttrue\r\n}"),
        (r#"{"\u0065nabled":false}"#, r#"{"\u0065nabled":true}"#),
        (r#"{"x":{"enabled":false},"enabled":null}"#, r#"{"x":{"enabled":false},"enabled":true}"#),
        (
            r#"{"x":"\"enabled\":false,}","enabled":[1,{"a":2}] }"#,
            r#"{"x":"\"enabled\":false,}","enabled":true }"#,
        ),
        ("{\n  \"id\": \"ä\"\n}\n", "{\n  \"id\": \"ä\",\n  \"enabled\": true\n}\n"),
        (r#"{"id":"a"}"#, r#"{"id":"a","enabled": true}"#),
        (" {} ", " {\"enabled\": true} "),
        (r#"{"enabled":true}"#, r#"{"enabled":true}"#),
    ] {
        assert_eq!(edit(before, Enabled::On).as_deref(), Some(after), "{before}");
        let value: Value = serde_json::from_str(after).unwrap();
        assert_eq!(value["enabled"], true);
        let off = edit(after, Enabled::Off).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&off).unwrap()["enabled"], false);
        assert_eq!(edit(&off, Enabled::On).as_deref(), Some(after), "there and back");
    }
}

#[test]
fn what_is_no_object_stays() {
    for text in ["", "[]", "{", "{\"a\":1}}", "{\"enabled\":true,\"enabled\":false}", "true"] {
        assert_eq!(edit(text, Enabled::On), None, "{text}");
    }
}
