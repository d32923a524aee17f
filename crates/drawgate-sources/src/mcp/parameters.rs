//! `x-mcp-header`: arguments that a tool wants repeated in HTTP headers.
//!
//! The specification makes a client leave out a tool whose annotation is wrong: a name with a line
//! break in it, say, would let a server write headers of its own into the gateway's requests.

use std::collections::BTreeSet;

use http::HeaderName;
use serde_json::{Map, Value};

const ANNOTATION: &str = "x-mcp-header";
/// Longest name that is accepted.
const MAX_NAME: usize = 64;

/// One argument and its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterHeader {
    /// Keys from the root of the arguments.
    pub path: Vec<String>,
    /// `mcp-param-…`.
    pub header: HeaderName,
}

/// Why an annotation is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// It is not on an argument, or on one that is reached in several ways.
    #[error("`{ANNOTATION}` stands where no single argument is meant")]
    Place,
    /// It is not a name.
    #[error("`{ANNOTATION}` is not the name of a header")]
    Name,
    /// The argument is of another type.
    #[error("`{ANNOTATION}` is possible for a string, an integer or a boolean only")]
    Type,
    /// Another argument has the same header.
    #[error("`{ANNOTATION}` names the same header twice")]
    Twice,
}

/// Every annotation of a schema: the header that it asks for, or why it is wrong.
#[must_use]
pub fn parameter_headers(schema: &Value) -> Vec<Result<ParameterHeader, AnnotationError>> {
    let mut found = Collected::default();
    if let Value::Object(schema) = schema {
        found.schema(schema, &mut Vec::new(), Place::Root);
    }
    found.annotations
}

/// The headers that a schema asks for. One wrong annotation refuses the tool.
pub(super) fn headers(schema: &Value) -> Result<Vec<ParameterHeader>, AnnotationError> {
    parameter_headers(schema).into_iter().collect()
}

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    /// Reached from the root through `properties` alone.
    Property,
    /// Anywhere else, where it would be unclear which argument is meant.
    Elsewhere,
}

#[derive(Default)]
struct Collected {
    annotations: Vec<Result<ParameterHeader, AnnotationError>>,
    seen: BTreeSet<String>,
}

impl Collected {
    fn schema(&mut self, schema: &Map<String, Value>, path: &mut Vec<String>, place: Place) {
        if let Some(annotation) = schema.get(ANNOTATION) {
            let read = match place {
                Place::Property => self.annotation(annotation, schema, path),
                Place::Root | Place::Elsewhere => Err(AnnotationError::Place),
            };
            self.annotations.push(read);
        }
        for (key, value) in schema {
            match key.as_str() {
                // Data, not schemas.
                ANNOTATION | "default" | "const" | "enum" | "examples" => {}
                "properties" if place != Place::Elsewhere => {
                    self.properties(value, path, Place::Property);
                }
                "properties" | "$defs" | "definitions" | "dependentSchemas"
                | "patternProperties" => {
                    self.properties(value, path, Place::Elsewhere);
                }
                _ => self.elsewhere(value, path),
            }
        }
    }

    fn properties(&mut self, value: &Value, path: &mut Vec<String>, place: Place) {
        for (name, schema) in value.as_object().into_iter().flatten() {
            if let Value::Object(schema) = schema {
                path.push(name.clone());
                self.schema(schema, path, place);
                path.pop();
            }
        }
    }

    fn elsewhere(&mut self, value: &Value, path: &mut Vec<String>) {
        match value {
            Value::Object(schema) => self.schema(schema, path, Place::Elsewhere),
            Value::Array(items) => items.iter().for_each(|item| self.elsewhere(item, path)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn annotation(
        &mut self,
        annotation: &Value,
        schema: &Map<String, Value>,
        path: &[String],
    ) -> Result<ParameterHeader, AnnotationError> {
        let name = annotation.as_str().filter(|name| !name.is_empty() && name.len() <= MAX_NAME);
        let header = name.and_then(|name| HeaderName::try_from(format!("mcp-param-{name}")).ok());
        let header = header.ok_or(AnnotationError::Name)?;
        let kind = schema.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return Err(AnnotationError::Type);
        }
        if !self.seen.insert(header.as_str().to_owned()) {
            return Err(AnnotationError::Twice);
        }
        Ok(ParameterHeader { path: path.to_vec(), header })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_are_found_along_properties() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
            "plain": { "type": "string", "default": { "x-mcp-header": 1 } },
        } });
        let found: Vec<(String, String)> = headers(&schema)
            .unwrap()
            .into_iter()
            .map(|h| (h.path.join("."), h.header.to_string()))
            .collect();
        assert_eq!(
            found,
            [("region".into(), "mcp-param-region".into()), ("deep.n".into(), "mcp-param-n".into())]
        );
    }

    #[test]
    fn wrong_annotations_are_refused() {
        let property = |schema: Value| json!({ "properties": { "a": schema } });
        let cases = [
            property(json!({ "type": "string", "x-mcp-header": "A\r\nB" })),
            property(json!({ "type": "string", "x-mcp-header": "" })),
            property(json!({ "type": "string", "x-mcp-header": "a b" })),
            property(json!({ "type": "string", "x-mcp-header": 7 })),
            property(json!({ "type": "number", "x-mcp-header": "A" })),
            property(json!({ "x-mcp-header": "A" })),
            property(json!({ "oneOf": [{ "type": "string", "x-mcp-header": "A" }] })),
            property(
                json!({ "items": { "properties": { "b": { "type": "string", "x-mcp-header": "A" } } } }),
            ),
            json!({ "x-mcp-header": "A" }),
            json!({ "$defs": { "a": { "type": "string", "x-mcp-header": "A" } } }),
            json!({ "properties": {
                "a": { "type": "string", "x-mcp-header": "A" },
                "b": { "type": "string", "x-mcp-header": "a" },
            } }),
        ];
        for case in cases {
            assert!(headers(&case).is_err(), "{case}");
        }
    }
}
