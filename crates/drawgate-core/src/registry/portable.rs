//! Output schemas that the validators of clients can compile.
//!
//! Many clients compile those of a whole list at once and lose all tools if one can't be compiled; others
//! can't call the tool.

use serde_json::Value;

/// Whether common validators compile a schema: it has no ids, which clients keep across tools and servers,
/// and nothing that is allowed and refused all the same.
#[must_use]
pub fn is_compilable(schema: &Value) -> bool {
    let dialect = schema.get("$schema").and_then(Value::as_str);
    !dialect.is_some_and(|dialect| dialect.contains("draft-04")) && is_harmless(schema)
}

/// Whether clients of the revisions before 2026-07-28 accept it too: it is for an object, and one of
/// draft-07.
#[must_use]
pub fn is_portable(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
        && properties_are_objects(schema)
        && jsonschema::draft7::meta::is_valid(&without_dialect(schema))
        && is_compilable(schema)
}

/// What the rules of draft-07 are applied to, whatever dialect it says it is of.
fn without_dialect(schema: &Value) -> Value {
    let mut copy = schema.clone();
    if let Value::Object(map) = &mut copy {
        map.shift_remove("$schema");
    }
    copy
}

/// Several clients parse the first level by themselves, and know no schema that is `true` or `false`.
fn properties_are_objects(schema: &Value) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.is_none_or(|properties| properties.values().all(Value::is_object))
}

fn is_harmless(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let has_text = |key: &str| map.get(key).is_some_and(Value::is_string);
            let pattern = map.get("pattern").and_then(Value::as_str);
            let named = map.get("patternProperties").and_then(Value::as_object);
            let mut patterns =
                pattern.into_iter().chain(named.into_iter().flatten().map(|(key, _)| key.as_str()));
            !["$id", "id", "$anchor", "$dynamicAnchor"].into_iter().any(has_text)
                && (map.contains_key("type") || !map.get("nullable").is_some_and(Value::is_boolean))
                && patterns.all(is_plain_pattern)
                && map.iter().all(|(key, value)| DATA.contains(&key.as_str()) || is_harmless(value))
        }
        Value::Array(list) => list.iter().all(is_harmless),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Whether ECMAScript's Unicode mode takes a pattern. It refuses more than other engines: escapes without a
/// meaning, brackets that stand for themselves, and groups that it does not know.
fn is_plain_pattern(pattern: &str) -> bool {
    let mut characters = pattern.chars();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        let rest = characters.as_str();
        match (character, in_class) {
            ('\\', _) => match characters.next() {
                Some('-') if in_class => {}
                // `\p{L}`, `\u{1F600}`
                Some('p' | 'P' | 'u') if characters.as_str().starts_with('{') => {
                    let end = characters.as_str().split_once('}');
                    characters = end.map_or("", |(_, after)| after).chars();
                }
                Some(escaped) if ESCAPED.contains(escaped) => {}
                _ => return false,
            },
            ('[', false) => in_class = true,
            (']', true) => in_class = false,
            (']' | '}', false) => return false,
            ('{', false) => match rest.split_once('}') {
                Some((count, after)) if is_count(count) => characters = after.chars(),
                _ => return false,
            },
            ('(', false)
                if rest.starts_with('?') && !GROUPS.iter().any(|group| rest.starts_with(group)) =>
            {
                return false;
            }
            _ => {}
        }
    }
    !in_class
}

/// Whether this stands between the braces of a repetition: `3`, `3,` or `3,5`.
fn is_count(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (least, most) = text.split_once(',').unwrap_or((text, ""));
    is_number(least) && (most.is_empty() || is_number(most))
}

/// Keywords that hold values, not schemas.
const DATA: [&str; 4] = ["enum", "const", "default", "examples"];
/// What may follow a backslash anywhere.
const ESCAPED: &str = "^$\\.*+?()[]{}|/bBdDsSwWfnrtvcxukpP0123456789";
/// How groups begin that are not plain ones.
const GROUPS: [&str; 4] = ["?:", "?=", "?!", "?<"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_are_those_of_ecmascript() {
        let good = [
            "",
            "^\\d{3}-[\\w.-]{1,}$",
            "(?:a|b){2,3}",
            "(?<n>a)(?=b)(?!c)",
            "[\\-]",
            "\\p{L}",
            "[{}]",
            "\\{",
        ];
        let bad =
            ["\\_", "\\-", "\\", "(?i)a", "(?P<n>a)", "a]", "a}", "{a}", "a{,3}", "[a", "\\A"];
        for (patterns, wanted) in [(good.as_slice(), true), (bad.as_slice(), false)] {
            for pattern in patterns {
                assert_eq!(is_plain_pattern(pattern), wanted, "{pattern}");
            }
        }
    }

    #[test]
    fn what_some_validator_refuses_is_not_portable() {
        let within = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
        let good = [
            json!({ "type": "object" }),
            json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object" }),
            json!({ "type": "object", "required": ["a"], "additionalProperties": false }),
            within(json!({ "type": "string", "pattern": "^\\d{3}-[\\w.]+$", "format": "odd" })),
            within(json!({ "type": "string", "nullable": true })),
            within(json!({ "type": "object", "properties": { "id": {}, "nullable": {} } })),
            within(json!({ "type": "object", "examples": [{ "id": "1" }] })),
            within(json!({ "$ref": "#/$defs/b", "prefixItems": [true] })),
            within(json!({ "type": "object", "properties": { "b": true } })),
        ];
        let bad = [
            json!({}),
            json!({ "type": "array" }),
            json!({ "type": ["object", "null"] }),
            json!({ "oneOf": [{ "type": "object" }] }),
            within(json!(true)),
            within(json!({ "nullable": true })),
            within(json!({ "type": "number", "minimum": 1, "exclusiveMinimum": true })),
            within(json!({ "patternProperties": { "\\@": {} } })),
            within(json!({ "$id": "urn:a" })),
            json!({ "$id": "urn:a", "type": "object" }),
        ];
        assert!(bad.iter().take(4).all(is_compilable), "these are for other values than objects");
        assert!(!bad.iter().skip(7).any(is_compilable));
        for (schemas, wanted) in [(good.as_slice(), true), (bad.as_slice(), false)] {
            for schema in schemas {
                assert_eq!(is_portable(schema), wanted, "{schema}");
                assert!(is_compilable(schema) || !wanted, "{schema}");
            }
        }
    }
}
