//! Custom tools: a prompt with parameters, defined in a profile.

use std::collections::BTreeSet;

use drawgate_core::registry::CompiledSchema;
use serde_json::{Map, Value, json};

use super::CustomTool;
use super::findings::{Findings, Place, listed};
use super::parse;
use super::template::{is_parameter, placeholders};

/// The fields of a custom tool.
const FIELDS: &[&str] =
    &["name", "description", "model", "parameters", "result_schema", "prompt", "public"];

/// The types of a parameter.
const TYPES: &[&str] = &["string", "number", "integer", "boolean", "object", "array"];

/// The fields of a parameter. All but `required` are those of JSON Schema.
const PARAMETER_FIELDS: &[&str] = &[
    "type",
    "description",
    "required",
    "default",
    "enum",
    "items",
    "properties",
    "additionalProperties",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "title",
    "examples",
];

/// Reads a custom tool.
pub(super) fn read(
    findings: &mut Findings,
    place: &Place,
    fields: &Map<String, Value>,
) -> Option<CustomTool> {
    let named = fields.get("name").and_then(Value::as_str);
    let place = named.map_or_else(|| place.clone(), |name| place.of_tool(name));
    let before = findings.problems.len();
    for key in fields.keys().filter(|key| !FIELDS.contains(&key.as_str())) {
        findings.unknown_key(&place, key, FIELDS);
    }
    let mut reader = Reader { findings, place, fields };
    let tool = CustomTool {
        name: reader.name(),
        description: reader.required_text("description"),
        model: reader.model(),
        parameters: reader.parameters(),
        result_schema: reader.result_schema(),
        prompt: reader.prompt(),
        public: reader.public(),
    };
    reader.compare(&tool);
    (findings.problems.len() == before).then_some(tool)
}

struct Reader<'a> {
    findings: &'a mut Findings,
    place: Place,
    fields: &'a Map<String, Value>,
}

impl Reader<'_> {
    fn name(&mut self) -> String {
        let name = self.required_text("name");
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts = name.is_empty() || name.starts_with(|c: char| c.is_ascii_lowercase());
        if !starts || name.len() > 64 || !name.chars().all(legal) {
            let message = "must begin with a letter and have up to 64 of `a-z`, `0-9` and `_`";
            self.findings.problem(&self.place.key("name"), message);
        }
        name
    }

    /// A text that must be there; empty if it is not.
    fn required_text(&mut self, key: &str) -> String {
        let place = self.place.key(key);
        let Some(value) = self.fields.get(key) else {
            self.findings.problem(&place, "missing");
            return String::new();
        };
        self.findings.text(&place, value).unwrap_or_default().to_owned()
    }

    /// The prompt, with the white space around it: it may matter to the model.
    fn prompt(&mut self) -> String {
        self.required_text("prompt");
        self.fields.get("prompt").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn model(&mut self) -> Option<String> {
        let value = self.fields.get("model")?;
        parse::model(self.findings, &self.place.key("model"), value)
    }

    fn public(&mut self) -> bool {
        let Some(value) = self.fields.get("public") else { return false };
        self.findings.boolean(&self.place.key("public"), value).unwrap_or_default()
    }

    fn result_schema(&mut self) -> Option<Value> {
        let schema = self.fields.get("result_schema")?;
        let place = self.place.key("result_schema");
        match CompiledSchema::for_output(schema) {
            Ok(_) => Some(schema.clone()),
            Err(error) => {
                self.findings.problem(&place, error.to_string());
                None
            }
        }
    }

    fn parameters(&mut self) -> Value {
        let place = self.place.key("parameters");
        let before = self.findings.problems.len();
        let mut properties = Map::new();
        let mut required = Vec::new();
        match self.fields.get("parameters") {
            None => {}
            Some(Value::Object(parameters)) => {
                for (name, about) in parameters {
                    let place = place.key(name);
                    let Some(parameter) = parameter(self.findings, &place, name, about) else {
                        continue;
                    };
                    if parameter.is_required {
                        required.push(Value::from(name.as_str()));
                    }
                    properties.insert(name.clone(), Value::Object(parameter.schema));
                }
            }
            Some(_) => self.findings.problem(&place, "must be a map from names to parameters"),
        }
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        if self.findings.problems.len() == before
            && let Err(error) = CompiledSchema::for_arguments(&schema)
        {
            self.findings.problem(&place, error.to_string());
        }
        schema
    }

    /// Compares the prompt with the parameters.
    fn compare(&mut self, tool: &CustomTool) {
        let none = Map::new();
        let parameters = self.fields.get("parameters").and_then(Value::as_object).unwrap_or(&none);
        let used: BTreeSet<&str> = placeholders(&tool.prompt).map(|found| found.name).collect();
        for name in used.iter().filter(|name| !parameters.contains_key(**name)) {
            let message = format!("`{{{{{name}}}}}` is not a parameter and stays as it is");
            self.findings.warning(&self.place.key("prompt"), message);
        }
        for name in parameters.keys().filter(|name| !used.contains(name.as_str())) {
            let place = self.place.key("parameters").key(name);
            self.findings.warning(&place, format!("the prompt does not use `{{{{{name}}}}}`"));
        }
    }
}

struct Parameter {
    schema: Map<String, Value>,
    is_required: bool,
}

/// Reads a parameter. One that says nothing else is required unless it has a default.
fn parameter(
    findings: &mut Findings,
    place: &Place,
    name: &str,
    about: &Value,
) -> Option<Parameter> {
    if !is_parameter(name) {
        let message = "a parameter begins with a letter or `_` and has up to 64 of `a-z`, `A-Z`, \
                       `0-9`, `_` and `-`";
        findings.problem(place, message);
    }
    let Value::Object(fields) = about else {
        findings.problem(place, "must be a map such as `{type: string, description: …}`");
        return None;
    };
    for key in fields.keys().filter(|key| !PARAMETER_FIELDS.contains(&key.as_str())) {
        findings.unknown_key(place, key, PARAMETER_FIELDS);
    }
    check_type(findings, &place.key("type"), fields.get("type"))?;
    if let Some(description) = fields.get("description") {
        findings.text(&place.key("description"), description);
    }
    let mut schema = fields.clone();
    let is_required = match fields.get("required") {
        // A list names the members of an object that must be there, as in JSON Schema.
        None | Some(Value::Array(_)) => !fields.contains_key("default"),
        Some(value) => {
            schema.shift_remove("required");
            findings.boolean(&place.key("required"), value)?
        }
    };
    check_schema(findings, place, &schema);
    Some(Parameter { schema, is_required })
}

fn check_type(findings: &mut Findings, place: &Place, kind: Option<&Value>) -> Option<()> {
    let Some(kind) = kind else {
        findings.problem(place, format!("missing; use {}", listed(TYPES)));
        return None;
    };
    let kind = findings.text(place, kind)?;
    if !TYPES.contains(&kind) {
        let message = format!("unknown type `{}`; use {}", kind.escape_debug(), listed(TYPES));
        findings.problem(place, message);
        return None;
    }
    Some(())
}

fn check_schema(findings: &mut Findings, place: &Place, schema: &Map<String, Value>) {
    let compiled = match CompiledSchema::for_output(&Value::Object(schema.clone())) {
        Ok(compiled) => compiled,
        Err(error) => return findings.problem(place, error.to_string()),
    };
    if let Some(default) = schema.get("default")
        && let Err(faults) = compiled.check(default)
    {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let message = format!("does not fit its own parameter: {}", faults.join("; "));
        findings.problem(&place.key("default"), message);
    }
}
