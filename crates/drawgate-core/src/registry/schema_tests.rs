//! Schemas from strangers.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;

use super::*;

/// Far more than any of these takes; only a hang gets there.
const GUARD: Duration = Duration::from_mins(1);

/// Runs on a thread with the stack that a server thread has, and fails if it hangs.
fn bounded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || done.send(work()));
    let value = result.recv_timeout(GUARD).expect("it must not hang or overflow");
    thread.unwrap().join().unwrap().unwrap();
    value
}

fn compile(schema: Value) -> Result<CompiledSchema, SchemaError> {
    bounded(move || CompiledSchema::for_object(&schema))
}

fn check(schema: Value, value: Value) -> Result<(), Vec<Fault>> {
    let compiled = compile(schema).unwrap();
    bounded(move || compiled.check(&value))
}

#[track_caller]
fn refused(schema: Value, error: &SchemaError) {
    let shown: String = schema.to_string().chars().take(200).collect();
    assert_eq!(compile(schema).unwrap_err(), *error, "{shown}");
}

fn nested(depth: usize, leaf: Value) -> Value {
    (0..depth).fold(leaf, |inner, _| json!({ "properties": { "x": inner } }))
}

fn deep(depth: usize, key: &str) -> Value {
    (0..depth).fold(json!({}), |inner, _| {
        let mut map = Map::new();
        map.insert(key.to_owned(), inner);
        Value::Object(map)
    })
}

#[test]
fn only_schemas_of_objects() {
    for schema in [json!(true), json!(false), json!(null), json!([]), json!("object"), json!(1)] {
        refused(schema, &SchemaError::NotAnObject);
    }
    for kind in [json!("string"), json!(["string", "null"]), json!("Object"), json!(1)] {
        refused(json!({ "type": kind }), &SchemaError::NotForObjects);
    }
    for schema in [json!({}), json!({ "type": "object" }), json!({ "type": ["object", "null"] })] {
        assert!(compile(schema).is_ok());
    }
}

#[test]
fn references_stay_in_the_document() {
    for target in [
        "http://169.254.169.254/",
        "https://json-schema.org/draft/2020-12/schema",
        "file:///etc/passwd",
        "other.json#/x",
        "urn:x",
        "",
        "/definitions/x",
    ] {
        let error = SchemaError::RemoteReference(target.to_owned());
        refused(json!({ "$ref": target }), &error);
        refused(json!({ "properties": { "a": { "anyOf": [{ "$ref": target }] } } }), &error);
        refused(json!({ "properties": { "enum": { "$ref": target } } }), &error);
        refused(json!({ "properties": { "const": { "$dynamicRef": target } } }), &error);
        refused(json!({ "$defs": { "default": { "items": { "$ref": target } } } }), &error);
    }
    for target in ["#/nowhere", "#nowhere", "#/properties/9", "#/%zz"] {
        refused(json!({ "$ref": target }), &SchemaError::DanglingReference(target.to_owned()));
    }
    // Data that looks like a reference is data.
    let data = json!({ "properties": { "a": { "const": { "$ref": "http://x/" }, "default": { "$ref": 1 } } } });
    assert!(check(data, json!({ "a": { "$ref": "http://x/" } })).is_ok());
}

#[test]
fn references_of_every_form_are_followed() {
    let string = json!({ "type": "string" });
    let cases = [
        json!({ "properties": { "a": { "$ref": "#/$defs/s" } }, "$defs": { "s": string } }),
        json!({ "properties": { "a": { "$ref": "#/definitions/s" } }, "definitions": { "s": string } }),
        json!({ "properties": { "a": { "$ref": "#/%24defs/s" } }, "$defs": { "s": string } }),
        json!({ "properties": { "a": { "$ref": "#/$defs/a~1b" } }, "$defs": { "a/b": string } }),
        json!({ "properties": { "a": { "$ref": "#/$defs/a%20b" } }, "$defs": { "a b": string } }),
        json!({ "properties": { "a": { "$ref": "#here" } },
            "$defs": { "s": { "$anchor": "here", "type": "string" } } }),
        json!({ "properties": { "a": { "$ref": "#/properties/b" }, "b": string } }),
        json!({ "$id": "https://example.com/s.json", "properties": { "a": { "$ref": "#/$defs/s" } },
            "$defs": { "s": string } }),
    ];
    for schema in cases {
        assert!(check(schema.clone(), json!({ "a": "x" })).is_ok(), "{schema}");
        assert!(check(schema.clone(), json!({ "a": 1 })).is_err(), "{schema}");
    }
}

#[test]
fn an_embedded_id_can_not_redirect_references() {
    let schema = json!({
        "$defs": { "x": true },
        "properties": { "a": {
            "$id": "https://evil.example/inner",
            "$defs": { "x": { "type": "string" } },
            "$ref": "#/$defs/x" } } });
    assert!(check(schema, json!({ "a": 1 })).is_ok(), "the document's own `$defs` is meant");
}

#[test]
fn a_schema_that_refers_to_itself_is_bounded() {
    let itself = [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
        json!({ "not": { "$ref": "#" } }),
        json!({ "if": { "$ref": "#" }, "then": { "$ref": "#" }, "else": { "$ref": "#" } }),
        json!({ "allOf": [{ "$ref": "#/allOf/0" }] }),
        json!({ "$anchor": "me", "allOf": [{ "$ref": "#me" }] }),
        json!({ "$dynamicAnchor": "me", "allOf": [{ "$dynamicRef": "#me" }] }),
        // A loop in place that a walk through the parts meets first.
        json!({ "$ref": "#/$defs/a", "$defs": {
            "a": { "properties": { "x": { "$ref": "#/$defs/b" } }, "allOf": [{ "$ref": "#/$defs/b" }] },
            "b": { "allOf": [{ "$ref": "#/$defs/a" }] } } }),
    ];
    for schema in itself {
        let compiled = compile(schema).unwrap();
        bounded(move || {
            for value in [json!({}), json!({ "x": { "x": { "x": 1 } } }), deep(300, "x")] {
                let _ = compiled.check(&value);
            }
        });
    }
}

#[test]
fn recursion_with_many_ways_back_is_bounded() {
    let tree = |alternatives: usize| {
        let kinds: Vec<Value> = (0..alternatives)
            .map(|kind| {
                json!({ "type": "object", "required": ["kind"],
                    "properties": { "x": { "$ref": "#/$defs/n" }, "kind": { "const": kind } } })
            })
            .collect();
        json!({ "$ref": "#/$defs/n", "$defs": { "n": { "anyOf": kinds } } })
    };
    for (alternatives, depth) in [(2, 60), (10, 20), (10, 60), (100, 64), (40, 5)] {
        let compiled = compile(tree(alternatives)).unwrap();
        let result = bounded(move || compiled.check(&deep(depth, "x")));
        assert!(result.is_err(), "{alternatives} {depth}");
    }
    // What fits is found to fit, also deep down.
    let good = (0..18).fold(json!({ "kind": 3 }), |inner, _| json!({ "kind": 7, "x": inner }));
    assert!(check(tree(10), good).is_ok());
}

#[test]
fn references_that_multiply_are_refused() {
    let chain = |levels: usize, keyword: &str, last: Value| {
        let mut defs = Map::new();
        for level in 0..levels {
            let next = json!({ "$ref": format!("#/$defs/n{}", level + 1) });
            defs.insert(format!("n{level}"), json!({ keyword: [next, next] }));
        }
        defs.insert(format!("n{levels}"), last);
        json!({ "$ref": "#/$defs/n0", "$defs": defs })
    };
    for keyword in ["allOf", "anyOf", "oneOf", "prefixItems"] {
        let error = SchemaError::TooLarge(MAX_VISITS);
        refused(chain(30, keyword, json!({ "type": "string" })), &error);
        let hidden = chain(30, keyword, json!({}));
        refused(
            json!({ "properties": { "enum": { "$ref": "#/$defs/n0" } }, "$defs": hidden["$defs"] }),
            &error,
        );
    }
    refused(
        chain(30, "allOf", json!({ "$ref": "#/$defs/n0" })),
        &SchemaError::TooLarge(MAX_VISITS_RECURSIVE),
    );
    let mut anchored = Map::new();
    for level in 0..30 {
        let next = json!({ "$ref": format!("#a{}", level + 1) });
        anchored.insert(
            format!("n{level}"),
            json!({ "$anchor": format!("a{level}"), "allOf": [next, next] }),
        );
    }
    anchored.insert("end".to_owned(), json!({ "$anchor": "a30" }));
    refused(json!({ "$ref": "#a0", "$defs": anchored }), &SchemaError::TooLarge(MAX_VISITS));
    let names: Vec<Value> = (0..2).map(|_| json!({ "$anchor": "twice" })).collect();
    assert!(matches!(compile(json!({ "allOf": names })), Err(SchemaError::Invalid(_))));
}

#[test]
fn unevaluated_is_within_the_same_budget() {
    let nest = |depth: usize, keyword: &str| {
        (0..depth).fold(
            json!({ "properties": { "a": true } }),
            |inner, _| json!({ "allOf": [inner], keyword: false }),
        )
    };
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        for depth in [5, 10, 20, 30] {
            let result = compile(nest(depth, keyword));
            if depth > 15 {
                assert_eq!(result.unwrap_err(), SchemaError::TooLarge(MAX_VISITS), "{depth}");
                continue;
            }
            let compiled = result.unwrap();
            bounded(move || {
                assert!(compiled.check(&json!({ "a": 1 })).is_ok());
                let _ = compiled.check(&json!({ "b": 1 }));
            });
        }
    }
}

#[test]
fn patterns_are_linear_and_small() {
    // Too large a program for its automaton.
    let unicode = json!({ "properties": { "a": { "pattern": "[\\pL]{1,60}{1,20}" } } });
    assert!(matches!(compile(unicode), Err(SchemaError::Invalid(_))));
    for pattern in ["^(a+)+$", "^(a|a)*$", "^(.*a){20}$", "^(([a-z])+.)+[A-Z]([a-z])+$"] {
        let Ok(compiled) = compile(json!({ "properties": { "a": { "pattern": pattern } } })) else {
            continue;
        };
        let text = format!("{}!", "a".repeat(50_000));
        assert!(bounded(move || compiled.check(&json!({ "a": text }))).is_err(), "{pattern}");
    }
    for pattern in ["(", "[z-a]"] {
        let schema = json!({ "patternProperties": { pattern: {} } });
        assert!(matches!(compile(schema), Err(SchemaError::Invalid(_))), "{pattern}");
    }
}

#[test]
fn depth_is_bounded() {
    assert!(compile(nested(30, json!({}))).is_ok());
    refused(nested(33, json!({})), &SchemaError::TooDeep);
    refused(nested(60, json!({})), &SchemaError::TooDeep);
    let array = (0..100).fold(json!({}), |inner, _| json!({ "allOf": [inner] }));
    refused(array, &SchemaError::TooDeep);
    // A long chain of references is no deep document, but it has its end too.
    let chain = |length: usize| {
        let mut defs = Map::new();
        for at in 0..length {
            defs.insert(format!("n{at}"), json!({ "$ref": format!("#/$defs/n{}", at + 1) }));
        }
        defs.insert(format!("n{length}"), json!({ "type": "object" }));
        json!({ "$ref": "#/$defs/n0", "$defs": defs })
    };
    assert!(check(chain(100), json!({})).is_ok());
    refused(chain(100_000), &SchemaError::TooDeep);
}

#[test]
fn a_very_deep_schema_is_refused_without_exhausting_the_stack() {
    // Built and dropped on a large stack, since `Value` itself recurses.
    let work = || {
        let schema = nested(1000, json!({}));
        assert_eq!(CompiledSchema::for_object(&schema).unwrap_err(), SchemaError::TooDeep);
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn large_values_against_large_schemas_are_bounded() {
    let many: Vec<Value> = (0..20_000).map(|n| json!({ "minimum": -n })).collect();
    let schema = json!({ "properties": { "a": { "items": { "allOf": many } } } });
    let list: Vec<i32> = (0..100_000).collect();
    let faults = check(schema, json!({ "a": list })).unwrap_err();
    assert!(faults[0].what.contains("too large to be checked"), "{faults:?}");
    let plain =
        json!({ "properties": { "a": { "type": "array", "items": { "type": "integer" } } } });
    assert!(check(plain, json!({ "a": (0..100_000).collect::<Vec<i32>>() })).is_ok());
}

#[test]
fn faults_name_the_place_and_never_the_value() {
    const SECRET: &str = "hunter2-hunter2";
    let schema = json!({ "type": "object", "required": ["need"], "additionalProperties": false, "properties": {
        "need": { "type": "integer" }, "kind": { "enum": ["a", "b"] }, "fixed": { "const": 5 },
        "text": { "pattern": "^[0-9]+$", "maxLength": 3 }, "when": { "type": "integer", "minimum": 3 },
        "list": { "items": { "type": "integer" }, "uniqueItems": true },
        "any": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
        "one": { "oneOf": [{ "type": "string" }, { "minLength": 1 }] },
        "no": { "not": { "type": "string" } }, "obj": { "propertyNames": { "maxLength": 2 } } } });
    let cases = [
        (json!({ "need": SECRET }), "/need"),
        (json!({ "need": 1, "kind": SECRET }), "/kind"),
        (json!({ "need": 1, "fixed": SECRET }), "/fixed"),
        (json!({ "need": 1, "text": SECRET }), "/text"),
        (json!({ "need": 1, "list": [1, SECRET] }), "/list/1"),
        (json!({ "need": 1, "any": SECRET }), "/any"),
        (json!({ "need": 1, "one": SECRET }), "/one"),
        (json!({ "need": 1, "no": SECRET }), "/no"),
        (json!({ "need": 1, "list": [SECRET, SECRET] }), "/list/0"),
        (json!({ "kind": "a" }), ""),
        (json!({ "need": 1, "zzz": SECRET }), ""),
        (json!([SECRET]), ""),
        (json!(SECRET), ""),
    ];
    for (value, place) in cases {
        let faults = check(schema.clone(), value.clone()).unwrap_err();
        assert!(faults.iter().any(|fault| fault.place == place), "{value}: {faults:?}");
        let text =
            format!("{faults:?} {}", faults.iter().map(ToString::to_string).collect::<String>());
        assert!(!text.contains("hunter2"), "{text}");
    }
    let missing = check(schema, json!({})).unwrap_err();
    assert_eq!(missing[0].to_string(), "`/`: \"need\" is a required property");
}

#[test]
fn faults_are_few_and_short() {
    let list: Vec<Value> = (0..500).map(|_| json!("x")).collect();
    let schema = json!({ "properties": { "a": { "items": { "type": "integer" } } } });
    assert_eq!(check(schema, json!({ "a": list })).unwrap_err().len(), MAX_FAULTS);
    let long = "k".repeat(10_000);
    let schema = json!({ "additionalProperties": { "type": "integer" } });
    let faults = check(schema, json!({ long: "x" })).unwrap_err();
    assert!(faults[0].to_string().chars().count() < 700, "{}", faults[0].to_string().len());
}

#[test]
fn dialects() {
    let draft07 = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": { "a": { "type": "array", "items": [{ "type": "string" }], "additionalItems": false } },
        "definitions": { "x": { "type": "string" } }, "dependencies": { "a": ["b"] } });
    assert!(check(draft07.clone(), json!({ "a": ["x"], "b": 1 })).is_ok());
    assert!(check(draft07.clone(), json!({ "a": ["x", 2], "b": 1 })).is_err());
    assert!(check(draft07, json!({ "a": ["x"] })).is_err());
    let draft04 = json!({ "$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
        "properties": { "n": { "minimum": 5, "exclusiveMinimum": true }, "id": { "type": "string" } } });
    assert!(check(draft04.clone(), json!({ "n": 6, "id": "x" })).is_ok());
    assert!(check(draft04.clone(), json!({ "n": 5 })).is_err());
    assert!(check(draft04, json!({ "id": 5 })).is_err(), "a property called `id` is no identifier");
    for foreign in
        ["https://evil.example/schema", "http://169.254.169.254/draft-07/schema", "", "x"]
    {
        let schema = json!({ "$schema": foreign, "type": "object", "required": ["a"] });
        assert!(check(schema.clone(), json!({ "a": 1 })).is_ok(), "{foreign}");
        assert!(check(schema, json!({})).is_err(), "{foreign}");
    }
}

#[test]
fn large_honest_schemas_compile() {
    // Like a generated client of a large API: 400 types that refer to each other, also in circles.
    let mut defs = Map::new();
    for at in 0..400 {
        let properties: Map<String, Value> = (0..8)
            .map(|field| {
                (format!("f{field}"), json!({ "type": ["string", "null"], "maxLength": 100 }))
            })
            .collect();
        let mut kind =
            json!({ "type": "object", "properties": properties, "description": "x".repeat(200) });
        if at % 20 != 19 {
            kind["properties"]["next"] = json!({ "$ref": format!("#/$defs/T{}", at + 1) });
        }
        defs.insert(format!("T{at}"), kind);
    }
    let schema =
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/T0" } }, "$defs": defs });
    assert!(check(schema.clone(), json!({ "a": { "f0": "x", "next": { "f1": null } } })).is_ok());
    assert!(check(schema, json!({ "a": { "next": { "f1": 5 } } })).is_err());
    // Any JSON value at all, as generators write it.
    let any = json!({ "properties": { "v": { "$ref": "#/$defs/json" } }, "$defs": { "json": { "anyOf": [
        { "type": ["string", "number", "boolean", "null"] },
        { "type": "array", "items": { "$ref": "#/$defs/json" } },
        { "type": "object", "additionalProperties": { "$ref": "#/$defs/json" } }] } } });
    assert!(check(any.clone(), json!({ "v": [1, { "a": [null, "x", { "b": [] }] }] })).is_ok());
    assert!(check(any, json!({ "v": deep(40, "k") })).is_ok());
    // Many alternatives, as of a form with many kinds of blocks.
    let blocks: Vec<Value> = (0..150)
        .map(|n| json!({ "properties": { "type": { "const": format!("b{n}") }, "text": { "type": "string" } },
            "required": ["type", "text"], "additionalProperties": false }))
        .collect();
    let schema =
        json!({ "properties": { "blocks": { "type": "array", "items": { "oneOf": blocks } } } });
    assert!(check(schema.clone(), json!({ "blocks": [{ "type": "b149", "text": "x" }] })).is_ok());
    assert!(check(schema, json!({ "blocks": [{ "type": "b200", "text": "x" }] })).is_err());
}

/// Libraries for schemas write such patterns for e-mail addresses; the tool must stay usable.
#[test]
fn patterns_that_look_around_are_left_to_the_tool() {
    let schema = json!({
        "type": "object",
        "properties": {
            "mail": { "type": "string", "pattern": "^(?!\\.)(?!.*\\.\\.)[a-z.]+@[a-z.]+$" },
            "twice": { "type": "string", "pattern": "(a)\\1" },
            "plain": { "type": "string", "pattern": "^[a-z]+$" },
            "pattern": { "type": "string" },
        },
        "patternProperties": { "^(?=x)": { "type": "string" }, "^n_": { "type": "number" } },
    });
    let compiled = CompiledSchema::for_object(&schema).unwrap();
    assert!(
        compiled
            .check(&json!({ "mail": "..", "twice": "b", "plain": "abc", "pattern": "(?!" }))
            .is_ok()
    );
    assert!(compiled.check(&json!({ "mail": 1 })).is_err());
    assert!(compiled.check(&json!({ "plain": "ABC" })).is_err());
    assert!(compiled.check(&json!({ "n_a": "text" })).is_err());
}

#[test]
fn an_argument_with_a_header_may_be_null() {
    let schema = json!({ "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string", "x-mcp-header": "Name" },
        "kind": { "enum": ["a", "b"], "type": "string", "x-mcp-header": "Kind" },
        "within": { "type": "object", "properties": { "flag": { "type": "boolean", "x-mcp-header": "Flag" } } },
        "plain": { "type": "boolean" },
    } });
    let compiled = CompiledSchema::for_arguments(&schema).unwrap();
    for (arguments, fits) in [
        (json!({ "name": null, "kind": null, "within": { "flag": null } }), true),
        (json!({ "name": "n", "kind": "a", "within": { "flag": true } }), true),
        (json!({ "kind": null }), false),
        (json!({ "name": "n", "kind": "c" }), false),
        (json!({ "name": "n", "within": { "flag": "true" } }), false),
        (json!({ "name": "n", "plain": null }), false),
    ] {
        assert_eq!(compiled.check(&arguments).is_ok(), fits, "{arguments}");
    }
}
