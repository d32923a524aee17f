use serde_json::json;

use super::*;

#[test]
fn only_comments_and_trailing_commas_are_more_than_json() {
    let read = Format::Json.parse("// a\n{ \"a\": [1, /* , */ 2 ,], \"b\": \"//,}\", }").unwrap();
    assert_eq!(read, json!({ "a": [1, 2], "b": "//,}" }));
    for blank in ["", " \n", "// nothing", "/* nothing */\n// here\n"] {
        assert_eq!(Format::Json.parse(blank).unwrap(), json!({}), "{blank:?}");
        assert_eq!(Format::Json.remove(blank, &[vec!["s", "x"]]).unwrap(), blank);
    }
    for (text, expected) in [
        ("{ a: 1 }", "line 1, column 3 is not valid JSON"),
        ("{\n 'a': 1 }", "line 2, column 2 is not valid JSON"),
        ("{ \"a\": 1 \"b\": 2 }", "is not valid JSON: expected comma"),
        ("{ \"a\": 0x1 }", "is not valid JSON"),
        ("{ \"a\": 01 }", "is not valid JSON"),
        ("{ \"a\": 1, /* b", "is not valid JSON"),
        ("{ \"a\": 1, /* b */ \"a\": 2 }", "duplicate key `a`"),
    ] {
        let error = Format::Json.parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(Format::Json.parse(&deep).unwrap_err().to_string().contains("nested deeper"));
}

#[test]
fn what_is_removed_leaves_the_rest_as_it_is() {
    let cases = [
        (Format::Json, r#"{ "s": { "x": 1, "y": 2 } }"#, r#"{ "s": { "y": 2 } }"#),
        (Format::Json, "{\"s\":{\"x\":{}}}", "{\"s\":{}}"),
        (
            Format::Json,
            "{\r\n  \"s\": {\r\n    \"a\": 1, // a\r\n    // x\r\n    \"x\": 1\r\n  }\r\n}",
            "{\r\n  \"s\": {\r\n    \"a\": 1 // a\r\n    // x\r\n  }\r\n}",
        ),
        (Format::Json, "{ \"t\": 1 }", "{ \"t\": 1 }"),
        (Format::Json, "\n", "\n"),
        (Format::Toml, "# a\n[s.x]\ny = 1\n\n# b\n[t]\n", "# a\n\n# b\n[t]\n"),
        (Format::Toml, "a = 1\n# end\n\n[s.x]\ny = 1\n", "a = 1\n# end\n"),
        (Format::Toml, "s = { x = 1, y = 2 }\n", "s = { y = 2 }\n"),
        (Format::Toml, "", ""),
    ];
    for (format, text, expected) in cases {
        assert_eq!(format.remove(text, &[vec!["s", "x"]]).unwrap(), expected, "{text}");
    }
}
