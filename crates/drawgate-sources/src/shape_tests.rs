use serde_json::json;

use super::*;

/// A plain way to speak, in which elements leave or stay.
struct Plain<const STAY: bool>;

impl<const STAY: bool> Voice for Plain<STAY> {
    const OBJECT: &'static str = "an object";
    const MEMBERS: &'static str = "members";
    const NULL: (&'static str, Option<&'static str>) = ("null", Some("leave it out"));
    const ELEMENTS: Elements = if STAY { Elements::Stay } else { Elements::Leave };

    fn member(&self, path: &str, key: &str) -> String {
        format!("{path}.{key}")
    }

    fn element(&self, path: &str, index: usize) -> String {
        format!("{path}[{index}]")
    }

    fn shown(&self, word: &str) -> String {
        word.to_uppercase()
    }

    fn unknown(&self, parent: &str, key: &str, value: &Value) -> (String, Option<String>) {
        let better = value.is_object().then(|| "write it elsewhere".to_owned());
        (format!("unknown `{key}` in {parent}"), better)
    }

    fn missing(&self, parent: &str, key: &str, what: Option<&str>) -> Found {
        let hint = what.map(str::to_owned);
        let message = format!("`{key}` is missing");
        Found { path: self.member(parent, key), spot: Spot::Key, message, hint }
    }

    fn format(&self, format: &str, text: &str) -> Result<(), String> {
        if format == "short" && text.len() > 3 { Err("too long".to_owned()) } else { Ok(()) }
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "format": "short", "description": "What it is." },
            "count": { "type": "integer", "minimum": 1, "maximum": 9 },
            "least": { "type": "integer", "minimum": 1 },
            "most": { "type": "integer", "maximum": 9 },
            "on": { "type": "boolean" },
            "kind": { "oneOf": [{ "const": "red" }, { "enum": ["green", "blue"] }] },
            "only": { "const": "this" },
            "color": { "enum": ["red", "green"] },
            "words": { "type": "array", "items": { "enum": ["a", "b"] } },
            "things": { "type": "array", "items": { "allOf": [{ "$ref": "#/$defs/Thing" }] } },
            "map": { "type": "object", "propertyNames": { "format": "short" }, "additionalProperties": { "type": "integer" } },
            "any": {},
        },
        "$defs": { "Thing": {
            "type": "object", "required": ["id"], "properties": { "id": { "type": "string" } },
            "allOf": [{ "if": {}, "then": {} }],
        } },
    })
}

/// What is found, as `path: message; hint`, and what is left.
fn look<const STAY: bool>(value: Value) -> (Vec<String>, Value) {
    let (schema, mut value) = (schema(), value);
    let found = check(&schema, &Plain::<STAY>, &mut value, "$");
    let line =
        |one: Found| format!("{}: {}; {}", one.path, one.message, one.hint.unwrap_or_default());
    (found.into_iter().map(line).collect(), value)
}

/// One problem of one member, which is removed.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
fn one(key: &str, value: Value, expected: &str) {
    let (found, left) = look::<true>(json!({ "name": "n", key: value }));
    assert_eq!(found, [expected]);
    assert_eq!(left, json!({ "name": "n" }));
}

#[test]
fn what_is_right_stays() {
    let right = json!({
        "name": "n", "count": 9, "least": 1, "most": -5, "on": true, "kind": "blue", "only": "this",
        "color": "red", "words": ["a", "b"], "things": [{ "id": "x", "more": 1 }],
        "map": { "abc": 1 }, "any": [null],
    });
    for (found, left) in [look::<true>(right.clone()), look::<false>(right.clone())] {
        assert_eq!(found, Vec::<String>::new());
        assert_eq!(left, right);
    }
}

#[test]
fn each_fault_has_its_words() {
    one("nam", json!(1), "$.nam: unknown `nam` in $; did you mean `name`?");
    one("zzzz", json!({}), "$.zzzz: unknown `zzzz` in $; write it elsewhere");
    one("count", json!(0), "$.count: `count` can't be 0; use 1 to 9");
    one("least", json!(0), "$.least: `least` can't be 0; use 1 or more");
    one("most", json!(10), "$.most: `most` can't be 10; use at most 9");
    one(
        "count",
        json!("4"),
        "$.count: `count` must be a whole number, not a string; write 4 without quotes",
    );
    one("count", json!(1.5), "$.count: `count` must be a whole number, not a fraction; ");
    one("count", json!(u64::MAX), "$.count: `count` must be a whole number, not a number; ");
    one(
        "on",
        json!("true"),
        "$.on: `on` must be true or false, not a string; write true without quotes",
    );
    one("on", Value::Null, "$.on: `on` must be true or false, not null; leave it out");
    one(
        "words",
        json!("a"),
        "$.words: `words` must be an array, not a string; put it in `[` and `]`",
    );
    one("map", json!([]), "$.map: `map` must be an object, not an array; ");
    one("kind", json!("gren"), "$.kind: unknown kind `GREN`; did you mean `green`?");
    one("kind", json!("violet"), "$.kind: unknown kind `VIOLET`; use `red`, `green` or `blue`");
    one("only", json!("that one"), "$.only: unknown only `THAT ONE`; use `this`");
    one("color", json!(7), "$.color: `color` must be a string, not a number; ");
    let (found, _) = look::<true>(json!({ "name": "n", "xyzxyz": 1 }));
    assert!(found[0].contains("known members are `name`, `count`"), "{found:?}");
}

#[test]
fn formats_of_texts_and_of_names() {
    let (found, left) = look::<true>(json!({ "name": "long", "map": { "long": 1, "abc": "x" } }));
    assert_eq!(
        found,
        [
            "$.name: too long; ",
            "$.map.long: too long; ",
            "$.map.abc: `abc` must be a whole number, not a string; "
        ]
    );
    assert_eq!(left, json!({ "map": {} }));
}

#[test]
fn what_is_missing_is_said_once() {
    let (found, _) = look::<true>(json!({}));
    assert_eq!(found, ["$.name: `name` is missing; What it is."]);
    let (found, _) = look::<true>(json!({ "name": 1 }));
    assert_eq!(found, ["$.name: `name` must be a string, not a number; "]);
}

#[test]
fn elements_stay_or_leave() {
    let wrong = json!({ "name": "n", "words": ["a", "x"], "things": [{}, { "id": "x" }, 7] });
    let (stay, left) = look::<true>(wrong.clone());
    assert_eq!(left, json!({ "name": "n", "things": [{}, { "id": "x" }, 7] }));
    let (leave, left) = look::<false>(wrong);
    assert_eq!(left, json!({ "name": "n", "words": ["a"], "things": [{ "id": "x" }] }));
    assert_eq!(stay, leave);
    let paths: Vec<&str> = stay.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(paths, ["$.words[1]", "$.things[0].id", "$.things[2]"]);
}
