use serde_json::{Value, json};

use super::*;

fn schema(property: &Value) -> Value {
    json!({
        "type": "object",
        "properties": { "x": property },
        "$defs": {
            "count": { "type": "integer", "minimum": 0 },
            "loop": { "$ref": "#/$defs/loop" },
            "fan": { "anyOf": vec![json!({ "$ref": "#/$defs/fan" }); 1000] },
        },
    })
}

fn given(pairs: &[&str], schema: &Value) -> Result<Map<String, Value>, String> {
    let typed = pairs.iter().map(|pair| Typed::parse(pair)).collect::<Result<Vec<_>, _>>();
    typed.and_then(|typed| read(typed, schema)).map_err(|error| error.to_string())
}

#[test]
fn text_becomes_what_the_schema_declares() {
    let integer = json!({ "type": "integer" });
    let number = json!({ "type": "number" });
    let boolean = json!({ "type": "boolean" });
    let string = json!({ "type": "string" });
    let list = json!({ "type": "array", "items": { "type": "string" } });
    let object = json!({ "type": "object" });
    let either = json!({ "type": ["integer", "null"] });
    let rows: &[(&Value, &str, Value)] = &[
        (&integer, "x=7", json!(7)),
        (&integer, "x=-7", json!(-7)),
        (&integer, "x=7.0", json!(7.0)),
        (&integer, "x=18446744073709551615", json!(u64::MAX)),
        (&number, "x=7", json!(7)),
        (&number, "x=0.5", json!(0.5)),
        (&number, "x=1e3", json!(1000.0)),
        (&boolean, "x=true", json!(true)),
        (&boolean, "x=false", json!(false)),
        (&json!({ "type": "null" }), "x=null", json!(null)),
        (&list, "x=[\"a\",\"b\"]", json!(["a", "b"])),
        (&object, "x={\"a\":{\"b\":[1]}}", json!({ "a": { "b": [1] } })),
        (&either, "x=7", json!(7)),
        (&either, "x=null", json!(null)),
        // Text stays text, whatever it looks like.
        (&string, "x=7", json!("7")),
        (&string, "x=true", json!("true")),
        (&string, "x=", json!("")),
        (&string, "x=a=b:=c", json!("a=b:=c")),
        (&string, "x=\"quoted\"", json!("\"quoted\"")),
        (&json!({ "type": ["string", "integer"] }), "x=7", json!("7")),
        (&json!({ "type": ["string", "null"] }), "x=null", json!("null")),
        (&json!({}), "x=7", json!("7")),
        (&json!(true), "x=7", json!("7")),
        (&json!({ "type": "duration" }), "x=7", json!("7")),
        (&json!({ "anyOf": [{ "type": "integer" }, {}] }), "x=7", json!("7")),
        (&json!({ "type": "integer", "enum": ["a"] }), "x=7", json!("7")),
        // The type may be told in other ways.
        (&json!({ "enum": [1, 2] }), "x=2", json!(2)),
        (&json!({ "enum": ["1", "2"] }), "x=2", json!("2")),
        (&json!({ "const": true }), "x=true", json!(true)),
        (&json!({ "$ref": "#/$defs/count" }), "x=7", json!(7)),
        (&json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }), "x=7", json!(7)),
        (&json!({ "oneOf": [{ "type": "number" }, { "type": "boolean" }] }), "x=true", json!(true)),
        (&json!({ "allOf": [{ "$ref": "#/$defs/count" }, { "type": "number" }] }), "x=7", json!(7)),
        // What can't be followed says nothing.
        (&json!({ "$ref": "#/$defs/none" }), "x=7", json!("7")),
        (&json!({ "$ref": "https://example.com/schema" }), "x=7", json!("7")),
        (&json!({ "$ref": "#/$defs/loop" }), "x=7", json!("7")),
        (&json!({ "$ref": "#/$defs/fan" }), "x=7", json!("7")),
        (&json!({ "$ref": "#/$defs/loop", "type": "integer" }), "x=7", json!(7)),
        // The explicit form is taken as it is.
        (&string, "x:=7", json!(7)),
        (&integer, "x:=\"7\"", json!("7")),
        (&json!({}), "x:=null", json!(null)),
        (&json!({}), "x:={\"a\":\"b=c\"}", json!({ "a": "b=c" })),
    ];
    for (property, pair, expected) in rows {
        let read = given(&[pair], &schema(property));
        assert_eq!(read.as_ref().map(|map| &map["x"]), Ok(expected), "{property} {pair}");
    }
}

#[test]
fn what_the_schema_does_not_name_stays_text() {
    for schema in [json!(null), json!({}), json!(false), json!({ "properties": { "y": {} } })] {
        assert_eq!(given(&["x=7"], &schema).unwrap()["x"], "7", "{schema}");
    }
}

#[test]
fn what_does_not_fit_is_named_with_its_type_and_an_example() {
    let rows: &[(Value, &str, &str)] = &[
        (
            json!({ "type": "integer" }),
            "x=seven",
            "`x` takes an integer, which `seven` is not; write it like `x=7`",
        ),
        (
            json!({ "type": "integer" }),
            "x=7.5",
            "`x` takes an integer, which `7.5` is not; write it like `x=7`",
        ),
        (
            json!({ "type": "integer" }),
            "x=",
            "`x` takes an integer, which `` is not; write it like `x=7`",
        ),
        (
            json!({ "type": "number" }),
            "x=1,5",
            "`x` takes a number, which `1,5` is not; write it like `x=0.5`",
        ),
        (
            json!({ "type": "boolean" }),
            "x=yes",
            "`x` takes `true` or `false`, which `yes` is not; write it like `x=true`",
        ),
        (
            json!({ "type": ["integer", "null"] }),
            "x=none",
            "`x` takes an integer or `null`, which `none` is not; write it like `x=7`",
        ),
        (
            json!({ "type": "array" }),
            "x=a,b",
            "`x` takes a list as JSON, which `a,b` is not; write it like `x='[\"a\", \"b\"]'`",
        ),
        (
            json!({ "type": "object" }),
            "x={a:1}",
            "`x` takes an object as JSON, which `{a:1}` is not; write it like `x='{\"a\": 1}'`",
        ),
        (
            json!({ "type": "object" }),
            "x={\"a\":1,\"a\":2}",
            "`x` takes an object as JSON, which `{\"a\":1,\"a\":2}` is not; write it like `x='{\"a\": 1}'`",
        ),
    ];
    for (property, pair, expected) in rows {
        let refused = given(&[pair], &schema(property)).unwrap_err();
        assert_eq!(refused, *expected, "{property} {pair}");
    }
}

#[test]
fn what_can_not_be_read_says_how_to_write_it() {
    let rows: &[(Value, &str, &str)] = &[
        (json!({}), "x", "`x` is not an argument; write `name=text` or `name:=JSON`"),
        (json!({}), "=7", "`=7` is not an argument; write `name=text` or `name:=JSON`"),
        (json!({}), ":=7", "`:=7` is not an argument; write `name=text` or `name:=JSON`"),
        (
            json!({}),
            "x:=[1",
            "what follows `x:=` is not JSON (EOF while parsing a list at line 1 column 2); write text as `x=TEXT`",
        ),
    ];
    for (property, pair, expected) in rows {
        let refused = given(&[pair], &schema(property)).unwrap_err();
        assert_eq!(refused, *expected, "{property} {pair}");
    }
    let twice = given(&["x=a", "y=b", "x:=1"], &json!(null)).unwrap_err();
    assert!(twice.starts_with("`x` is given twice;"), "{twice}");
    let long =
        given(&[&format!("x={}", "é\u{1b}".repeat(10_000))], &schema(&json!({ "type": "null" })));
    let long = long.unwrap_err();
    assert!(long.len() < 1500 && !long.contains('\u{1b}'), "{long}");
}

#[test]
fn one_object_for_all() {
    assert_eq!(read_object(r#"{"a":1}"#).unwrap()["a"], 1);
    for (text, lesson) in [("{", "is not JSON"), ("[1]", "must be a JSON object"), ("", "not JSON")]
    {
        let refused = read_object(text).unwrap_err().to_string();
        assert!(refused.contains(lesson) && refused.contains(r#"{"path": "a.txt"}"#), "{refused}");
    }
}
