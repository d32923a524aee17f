use drawgate_core::registry::CompiledSchema;
use serde_json::json;

use super::*;
use crate::openapi::Document;

/// The input schema of the only operation of a document with this body and these components.
fn input(version: &str, body: &Value, schemas: &Value) -> Value {
    let document = json!({
        "openapi": version,
        "paths": { "/p": { "post": { "requestBody": {
            "content": { "application/json": { "schema": body } }
        } } } },
        "components": { "schemas": schemas },
    });
    let document = Document::parse(document.to_string().as_bytes()).unwrap();
    let tool = document.definition(&document.operations()[0], "tool").unwrap();
    CompiledSchema::for_object(&tool.input_schema).unwrap();
    tool.input_schema
}

fn body(version: &str, schema: &Value) -> Value {
    let mut input = input(version, schema, &json!({}));
    let body = input["properties"]["body"].as_object_mut().unwrap();
    body.remove("description");
    Value::Object(std::mem::take(body))
}

#[test]
fn the_dialect_of_3_0_is_translated() {
    for (schema, expected) in [
        (json!({ "type": "string", "nullable": true }), json!({ "type": ["string", "null"] })),
        (
            json!({ "type": "string", "nullable": true, "enum": ["a"] }),
            json!({ "type": ["string", "null"], "enum": ["a", null] }),
        ),
        (
            json!({ "type": "number", "minimum": 1, "exclusiveMinimum": true, "maximum": 5, "exclusiveMaximum": false }),
            json!({ "type": "number", "exclusiveMinimum": 1, "maximum": 5 }),
        ),
        (
            json!({ "type": "string", "format": "date", "example": "2020-01-01", "xml": {}, "x-a": 1 }),
            json!({ "type": "string", "format": "date", "examples": ["2020-01-01"] }),
        ),
        (
            json!({ "oneOf": [{ "type": "string" }, { "type": "integer" }], "discriminator": {} }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
        ),
    ] {
        assert_eq!(body("3.0.0", &schema), expected, "{schema}");
    }
    let kept = json!({ "type": ["string", "null"], "exclusiveMinimum": 1, "const": "a" });
    assert_eq!(body("3.1.0", &kept), kept);
}

#[test]
fn what_has_no_legal_shape_is_left_out() {
    let odd = json!({
        "type": "file", "enum": "a", "required": true, "minLength": -1, "maximum": "9", "pattern": "(",
        "items": 7, "allOf": {}, "anyOf": [], "multipleOf": 0, "properties": [], "uniqueItems": "yes",
        "description": 5, "format": [], "patternProperties": { "[": {} }, "exclusiveMinimum": true,
    });
    assert_eq!(body("3.1.0", &odd), json!({ "patternProperties": {} }));
}

#[test]
fn what_only_answers_hold_is_left_out() {
    let schema = json!({
        "type": "object",
        "required": ["id", "name", "name"],
        "properties": {
            "id": { "type": "integer", "readOnly": true },
            "name": { "type": "string" },
            "made": { "$ref": "#/components/schemas/Made" },
            "secret": { "type": "string", "writeOnly": true },
        },
    });
    let schemas = json!({ "Made": { "type": "string", "readOnly": true } });
    let found = input("3.0.0", &schema, &schemas);
    let body = &found["properties"]["body"];
    let names: Vec<&String> = body["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["name", "secret"]);
    assert_eq!(body["required"], json!(["name"]));
}

#[test]
fn recursion_is_kept_and_what_is_used_once_is_put_in_its_place() {
    let schemas = json!({
        "Node": { "type": "object", "properties": {
            "children": { "type": "array", "items": { "$ref": "#/components/schemas/Node" } },
            "label": { "$ref": "#/components/schemas/Label" },
        } },
        "Label": { "type": "string", "maxLength": 5 },
    });
    let found = input("3.0.0", &json!({ "$ref": "#/components/schemas/Node" }), &schemas);
    assert_eq!(found["properties"]["body"]["$ref"], "#/$defs/Node");
    let node = &found["$defs"]["Node"]["properties"];
    assert_eq!(node["children"]["items"]["$ref"], "#/$defs/Node");
    assert_eq!(node["label"], json!({ "type": "string", "maxLength": 5 }));
    let compiled = CompiledSchema::for_object(&found).unwrap();
    let good = json!({ "body": { "children": [{ "children": [], "label": "a" }] } });
    assert!(compiled.check(&good).is_ok());
    let bad = json!({ "body": { "children": [{ "children": [{ "label": "too long" }] }] } });
    assert!(compiled.check(&bad).is_err());
}

#[test]
fn escaped_names_are_found_and_get_legal_ones() {
    let schemas = json!({ "a/b c~d": { "type": "string" } });
    let list = |reference: &str| json!({ "allOf": [{ "$ref": reference }, { "$ref": reference }] });
    let found = input("3.0.0", &list("#/components/schemas/a~1b%20c~0d"), &schemas);
    assert_eq!(found["$defs"]["a_1b_20c_0d"], json!({ "type": "string" }));
}

fn error(schema: &Value, schemas: &Value) -> String {
    let document = json!({
        "openapi": "3.0.0",
        "paths": { "/p": { "post": { "requestBody": {
            "content": { "application/json": { "schema": schema } }
        } } } },
        "components": { "schemas": schemas },
    });
    let document = Document::parse(document.to_string().as_bytes()).unwrap();
    document.definition(&document.operations()[0], "tool").unwrap_err().to_string()
}

#[test]
fn references_out_of_the_document_are_refused() {
    for (reference, expected) in [
        ("other.json#/A", "leads out of the document"),
        ("https://a.example/s.json", "leads out of the document"),
        ("file:///etc/passwd", "leads out of the document"),
        ("", "leads out of the document"),
        ("#/components/schemas/No", "points to nothing"),
        ("#anchor", "points to nothing"),
        ("#/%zz", "points to nothing"),
    ] {
        let found = error(&json!({ "properties": { "a": { "$ref": reference } } }), &json!({}));
        assert!(found.contains(expected), "{reference}: {found}");
    }
}

#[test]
fn circles_and_chains_of_references_end() {
    let circle = json!({
        "A": { "$ref": "#/components/schemas/B" },
        "B": { "$ref": "#/components/schemas/A" },
        "Me": { "$ref": "#/components/schemas/Me" },
        "All": { "allOf": [{ "$ref": "#/components/schemas/All" }], "type": "object" },
    });
    for name in ["A", "B", "Me", "All"] {
        input("3.0.0", &json!({ "$ref": format!("#/components/schemas/{name}") }), &circle);
    }
    let mut chain: Map<String, Value> = (0..5_000)
        .map(|number| {
            let next = format!("#/components/schemas/S{}", number + 1);
            (format!("S{number}"), json!({ "properties": { "next": { "$ref": next } } }))
        })
        .collect();
    chain.insert("S5000".to_owned(), json!({ "type": "string" }));
    let found =
        input("3.0.0", &json!({ "$ref": "#/components/schemas/S0" }), &Value::Object(chain));
    assert!(found["properties"]["body"]["properties"]["next"].is_object(), "{found}");
}

#[test]
fn what_is_too_large_is_cut_and_still_a_schema() {
    let wide: Map<String, Value> = (0..3_000)
        .map(|number| {
            (
                format!("property_{number}"),
                json!({ "type": "object", "properties": {
            "a": { "type": "string", "description": "x".repeat(200) } } }),
            )
        })
        .collect();
    // Each level doubles what the one before it is when everything is put in its place.
    let mut bush = Map::new();
    for level in 0..40 {
        let next = json!({ "$ref": format!("#/components/schemas/L{}", level + 1) });
        bush.insert(
            format!("L{level}"),
            json!({ "properties": { "a": next, "b": next, "c": next } }),
        );
    }
    bush.insert("L40".to_owned(), json!({ "type": "string" }));
    let values: Vec<String> = (0..100_000).map(|number| format!("value {number}")).collect();
    for (schema, schemas) in [
        (json!({ "type": "object", "properties": wide }), json!({})),
        (json!({ "$ref": "#/components/schemas/L0" }), Value::Object(bush)),
        (json!({ "type": "string", "enum": values }), json!({})),
    ] {
        let found = input("3.0.0", &schema, &schemas);
        assert!(found.to_string().len() < 80_000, "{} bytes", found.to_string().len());
    }
}
