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
pub(super) struct ParameterHeader {
    /// Keys from the root of the arguments.
    pub(super) path: Vec<String>,
    /// `mcp-param-…`.
    pub(super) header: HeaderName,
}

/// The headers that a schema asks for.
pub(super) fn headers(schema: &Value) -> Result<Vec<ParameterHeader>, String> {
    let mut found = Collected::default();
    if let Value::Object(schema) = schema {
        found.schema(schema, &mut Vec::new(), Place::Root)?;
    }
    Ok(found.headers)
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
    headers: Vec<ParameterHeader>,
    seen: BTreeSet<String>,
}

impl Collected {
    fn schema(
        &mut self,
        schema: &Map<String, Value>,
        path: &mut Vec<String>,
        place: Place,
    ) -> Result<(), String> {
        if let Some(annotation) = schema.get(ANNOTATION) {
            if place != Place::Property {
                return Err(format!("`{ANNOTATION}` stands where no single argument is meant"));
            }
            self.annotation(annotation, schema, path)?;
        }
        for (key, value) in schema {
            match key.as_str() {
                // Data, not schemas.
                ANNOTATION | "default" | "const" | "enum" | "examples" => {}
                "properties" if place != Place::Elsewhere => {
                    self.properties(value, path, Place::Property)?;
                }
                "properties" | "$defs" | "definitions" | "dependentSchemas"
                | "patternProperties" => {
                    self.properties(value, path, Place::Elsewhere)?;
                }
                _ => self.elsewhere(value, path)?,
            }
        }
        Ok(())
    }

    fn properties(
        &mut self,
        value: &Value,
        path: &mut Vec<String>,
        place: Place,
    ) -> Result<(), String> {
        for (name, schema) in value.as_object().into_iter().flatten() {
            if let Value::Object(schema) = schema {
                path.push(name.clone());
                self.schema(schema, path, place)?;
                path.pop();
            }
        }
        Ok(())
    }

    fn elsewhere(&mut self, value: &Value, path: &mut Vec<String>) -> Result<(), String> {
        match value {
            Value::Object(schema) => self.schema(schema, path, Place::Elsewhere),
            Value::Array(items) => items.iter().try_for_each(|item| self.elsewhere(item, path)),
            _ => Ok(()),
        }
    }

    fn annotation(
        &mut self,
        annotation: &Value,
        schema: &Map<String, Value>,
        path: &[String],
    ) -> Result<(), String> {
        let name = annotation.as_str().filter(|name| !name.is_empty() && name.len() <= MAX_NAME);
        let header = name.and_then(|name| HeaderName::try_from(format!("mcp-param-{name}")).ok());
        let header = header.ok_or_else(|| format!("`{ANNOTATION}` is not the name of a header"))?;
        if !matches!(
            schema.get("type").and_then(Value::as_str),
            Some("string" | "integer" | "boolean")
        ) {
            return Err(format!(
                "`{ANNOTATION}` is possible for a string, an integer or a boolean only"
            ));
        }
        if !self.seen.insert(header.as_str().to_owned()) {
            return Err(format!("`{ANNOTATION}` names the same header twice"));
        }
        self.headers.push(ParameterHeader { path: path.to_vec(), header });
        Ok(())
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
