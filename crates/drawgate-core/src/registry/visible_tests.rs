//! Classes of hidden characters in every place of a definition that a model reads.

use serde_json::{Value, json};

use crate::model::{McpToolSpec, ToolOutput};
use crate::registry::{Origin, Registration, Registry, SourceTerms};
use crate::testing::FakeSource;

/// One or more of each class, with what a person must get to see instead.
const CLASSES: &[(&str, &str)] = &[
    ("escape sequence", "\u{1b}[8m"),
    ("operating system command", "\u{1b}]52;c;eA==\u{7}"),
    ("single control", "\u{9b}2J"),
    ("delete and null", "\u{7f}\u{0}"),
    ("tag characters", "\u{e0049}\u{e006e}"),
    ("zero width", "\u{200b}\u{200d}\u{2060}\u{feff}"),
    ("bidirectional", "\u{202e}\u{2066}"),
    ("variation selectors", "\u{fe00}\u{e0101}"),
    ("line separators", "\u{2028}\u{2029}"),
    ("blank letters", "\u{3164}\u{115f}\u{ad}"),
];

/// What becomes of a tool that hides something.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Shown,
    LeftOut,
    /// It gets a name without them.
    Renamed,
}

/// Where the text stands; `HERE` is replaced by it.
fn places() -> Vec<(&'static str, Value, Fate)> {
    let input = |schema: Value| json!({ "name": "t", "inputSchema": schema });
    let parameter = |schema: Value| {
        input(json!({ "type": "object", "properties": { "a": { "anyOf": [schema] } } }))
    };
    let tool = |key: &str, value: Value| {
        let mut tool = input(json!({ "type": "object" }));
        tool[key] = value;
        tool
    };
    let in_output = json!({ "type": "object", "properties": { "a": { "description": "HERE" } } });
    vec![
        ("description", tool("description", json!("HERE")), Fate::Shown),
        ("title", tool("title", json!("HERE")), Fate::Shown),
        ("annotations.title", tool("annotations", json!({ "title": "HERE" })), Fate::Shown),
        ("_meta", tool("_meta", json!({ "note": "HERE" })), Fate::Shown),
        ("output", tool("outputSchema", in_output), Fate::Shown),
        ("schema title", input(json!({ "type": "object", "title": "HERE" })), Fate::Shown),
        ("nested description", parameter(json!({ "description": "HERE" })), Fate::Shown),
        ("nested default", parameter(json!({ "default": "HERE" })), Fate::Shown),
        ("nested examples", parameter(json!({ "examples": ["x", "HERE"] })), Fate::Shown),
        (
            "description of a parameter that is called enum",
            input(json!({ "type": "object", "properties": { "enum": { "title": "HERE" } } })),
            Fate::Shown,
        ),
        ("value to choose", parameter(json!({ "enum": ["x", "HERE"] })), Fate::LeftOut),
        ("fixed value", parameter(json!({ "const": "HERE" })), Fate::LeftOut),
        (
            "name of a parameter",
            input(json!({ "type": "object", "properties": { "aHERE": {} } })),
            Fate::LeftOut,
        ),
        (
            "name of a nested parameter",
            parameter(json!({ "type": "object", "properties": { "aHERE": {} } })),
            Fate::LeftOut,
        ),
        ("needed name", input(json!({ "type": "object", "required": ["HERE"] })), Fate::LeftOut),
        ("name of a tool", json!({ "name": "tHERE", "inputSchema": {} }), Fate::Renamed),
    ]
}

/// The definition with the text in its place.
fn put(value: &Value, text: &str) -> Value {
    match value {
        Value::String(old) => old.replace("HERE", text).into(),
        Value::Array(list) => list.iter().map(|item| put(item, text)).collect(),
        Value::Object(map) => Value::Object(
            map.iter().map(|(key, item)| (key.replace("HERE", text), put(item, text))).collect(),
        ),
        other => other.clone(),
    }
}

/// The listing, or why there is none.
fn register(definition: &Value) -> Result<Value, String> {
    let spec: McpToolSpec = serde_json::from_value(definition.clone()).unwrap();
    let source = FakeSource::new("s", vec![spec.clone()], |_, _| Ok(ToolOutput::text("")));
    let registry = Registry::default();
    let registration = Registration {
        manifest: source.describe(),
        terms: SourceTerms::default(),
        origin: Origin::Discovered,
        source,
    };
    let left_out = registry.replace(registration).unwrap();
    let snapshot = registry.snapshot();
    match (snapshot.entries().next(), left_out.as_slice()) {
        (Some(entry), []) => {
            assert_eq!(entry.spec, spec, "the definition itself stays, and so does its hash");
            Ok(entry.listing.clone())
        }
        (None, [bad]) => Err(bad.reason.clone()),
        _ => panic!("{left_out:?}"),
    }
}

/// Whether any string or name in it holds one of these characters.
fn holds(value: &Value, hidden: &str) -> bool {
    let any = |text: &str| text.chars().any(|c| hidden.contains(c) && !c.is_ascii_graphic());
    match value {
        Value::String(text) => any(text),
        Value::Array(list) => list.iter().any(|item| holds(item, hidden)),
        Value::Object(map) => map.iter().any(|(key, item)| any(key) || holds(item, hidden)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[test]
fn nothing_is_hidden_from_a_model_or_a_person() {
    for (class, hidden) in CLASSES {
        for (place, definition, fate) in places() {
            let found = register(&put(&definition, &format!("x{hidden}y")));
            match (fate, found) {
                (Fate::Shown, Ok(listing)) => {
                    assert!(!holds(&listing, hidden), "{class} in {place}: {listing}");
                    assert!(
                        listing.to_string().contains("\\\\u{"),
                        "{class} in {place}: {listing}"
                    );
                }
                (Fate::LeftOut, Err(reason)) => {
                    let clean = reason
                        .chars()
                        .all(|c| !c.is_control() && !hidden.contains(c) || c.is_ascii_graphic());
                    assert!(clean, "{class} in {place}: {reason}");
                }
                (Fate::Renamed, Ok(listing)) => {
                    assert!(!holds(&listing, hidden), "{class} in {place}: {listing}");
                }
                (_, other) => panic!("{class} in {place}: {other:?}"),
            }
        }
    }
}

#[test]
fn honest_definitions_stay_as_they_are() {
    let texts = [
        "plain",
        "zwei\nZeilen\tund Tabs",
        "漢字",
        "❤\u{fe0f}",
        "a  b",
        // A family, a health worker with a colour of skin, a heart on fire, the flag of Wales.
        "👨\u{200d}👩\u{200d}👧",
        "👩🏽\u{200d}⚕\u{fe0f}",
        "❤\u{fe0f}\u{200d}🔥",
        "🏴\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
        "☎\u{fe0e}",
        "می\u{200c}خواهم",
        "क्\u{200d}ष",
    ];
    for text in texts {
        for (place, definition, _) in places() {
            if place == "name of a tool" {
                continue;
            }
            let definition = put(&definition, text);
            let listing = register(&definition).unwrap();
            for (key, value) in definition.as_object().unwrap() {
                let same = key == "name" || listing[key] == *value;
                assert!(same, "{text:?} in {place}: {listing}");
            }
        }
    }
}
