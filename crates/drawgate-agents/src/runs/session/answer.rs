//! Answers of a form: the schema that the answer of a run must satisfy, and the tool by which the model
//! gives it.

use drawgate_core::registry::{CompiledSchema, SchemaError};
use serde_json::{Map, Value, json};

use crate::model::ToolDefinition;

/// The tool by which a model gives its answer. It is not a tool of the gate: nothing is called.
pub(crate) const RETURN_RESULT: &str = "return_result";
/// The argument that holds an answer that is not an object.
const WRAPPED: &str = "result";

/// Characters of an answer that is not JSON that are shown.
const SHOWN: usize = 40;

/// How often a model is told what is wrong with its answer.
pub(crate) const CORRECTIONS: usize = 2;

/// The form of an answer.
pub(crate) struct AnswerForm {
    schema: Value,
    compiled: CompiledSchema,
    is_object: bool,
}

impl AnswerForm {
    pub(crate) fn new(schema: &Value) -> Result<Self, SchemaError> {
        let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
        let compiled = CompiledSchema::for_output(schema)?;
        Ok(Self { schema: schema.clone(), compiled, is_object })
    }

    /// The tool for the model.
    pub(crate) fn definition(&self) -> ToolDefinition {
        let schema = if self.is_object {
            self.schema.clone()
        } else {
            json!({
                "type": "object",
                "properties": { WRAPPED: self.schema },
                "required": [WRAPPED],
            })
        };
        ToolDefinition {
            name: RETURN_RESULT.to_owned(),
            description: "Gives the final answer. Call it once, when you are done.".to_owned(),
            schema,
        }
    }

    /// The answer that a call of the tool gives, or what is wrong with it.
    pub(crate) fn of_call(&self, mut arguments: Map<String, Value>) -> Result<Value, String> {
        if self.is_object {
            return self.check(Value::Object(arguments));
        }
        match arguments.remove(WRAPPED) {
            Some(value) => self.check(value),
            None => Err(format!("the argument `{WRAPPED}` is missing")),
        }
    }

    /// The answer that a text is, or what is wrong with it. A fence of code around it is ignored.
    pub(crate) fn of_text(&self, text: &str) -> Result<Value, String> {
        let text = unfenced(text);
        let parsed = drawgate_core::json::parse(text.as_bytes());
        self.check(parsed.map_err(|error| {
            if text.starts_with(['{', '[', '"']) {
                return format!("the answer is not valid JSON: {error}");
            }
            let beginning: String = text.chars().take(SHOWN).collect();
            format!("the answer is not JSON: it begins with `{}`", beginning.escape_debug())
        })?)
    }

    fn check(&self, value: Value) -> Result<Value, String> {
        match self.compiled.check(&value) {
            Ok(()) => Ok(value),
            Err(faults) => {
                let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
                Err(format!("the answer breaks its schema: {}", list.join("; ")))
            }
        }
    }
}

fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return text;
    };
    // The fence's first line may name the language.
    inner.split_once('\n').map_or(inner, |(_, body)| body).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(schema: &Value) -> AnswerForm {
        AnswerForm::new(schema).unwrap()
    }

    #[test]
    fn texts_are_read_with_and_without_a_fence() {
        let form = form(&json!({
            "type": "object",
            "properties": { "bullets": { "type": "array", "items": { "type": "string" } } },
            "required": ["bullets"],
        }));
        let good = json!({ "bullets": ["a"] });
        let texts = [
            r#"{"bullets":["a"]}"#,
            "```json\n{\"bullets\":[\"a\"]}\n```",
            "  ```\n{\"bullets\":[\"a\"]}\n```\n",
        ];
        for text in texts {
            assert_eq!(form.of_text(text), Ok(good.clone()), "{text}");
        }
        for (text, fault) in [
            ("here you are", "the answer is not JSON: it begins with `here you are`"),
            ("the answer", "the answer is not JSON: it begins with `the answer`"),
            ("{\"bullets\": [", "the answer is not valid JSON: "),
            ("{}", "bullets"),
            (r#"{"bullets":[1]}"#, "breaks its schema"),
            (r#"{"bullets":["a"],"bullets":["b"]}"#, "not valid JSON"),
        ] {
            let said = form.of_text(text).unwrap_err();
            assert!(said.contains(fault), "{text}: {said}");
        }
    }

    #[test]
    fn an_answer_that_is_no_object_is_wrapped_for_the_tool() {
        let form = form(&json!({ "type": "array", "items": { "type": "string" } }));
        assert_eq!(form.definition().schema["required"], json!(["result"]));
        let given = json!({ "result": ["a"] });
        assert_eq!(form.of_call(given.as_object().unwrap().clone()), Ok(json!(["a"])));
        form.of_call(Map::new()).unwrap_err();
        assert_eq!(form.of_text(r#"["a"]"#), Ok(json!(["a"])));
    }
}
