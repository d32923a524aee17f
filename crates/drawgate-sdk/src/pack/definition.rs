//! What the gateway, and through it every agent, is told about a tool.

use std::fmt::Display;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Call, FnTool};
use crate::proto;

/// The input of a tool that takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct NoInput {}

/// A tool's name, description, schemas and terms.
#[derive(Debug, Clone)]
pub struct Definition {
    name: String,
    description: String,
    title: String,
    input: Option<Value>,
    output: Option<Value>,
    capabilities: Vec<String>,
    timeout: Option<Duration>,
    annotations: Map<String, Value>,
}

/// Begins the definition of a tool. The description is what a model goes by when it chooses.
#[must_use]
pub fn tool(name: impl Into<String>, description: impl Into<String>) -> Definition {
    Definition {
        name: name.into(),
        description: description.into(),
        title: String::new(),
        input: None,
        output: None,
        capabilities: Vec::new(),
        timeout: None,
        annotations: Map::new(),
    }
}

impl Definition {
    /// A title for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// A caller must hold this capability, and all others that are named.
    #[must_use]
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.capabilities.push(capability.into());
        self
    }

    /// How long a call may take, in whole seconds; the gateway's default is 60 seconds.
    #[must_use]
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Derives the schema of the arguments from a type. [`Definition::run`] does it by itself.
    #[must_use]
    pub fn input<T: JsonSchema>(self) -> Self {
        self.input_schema(schemars::schema_for!(T).to_value())
    }

    /// The schema of the arguments, as it is.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input = Some(schema);
        self
    }

    /// Derives the schema of the structured output from a type, which must be an object.
    #[must_use]
    pub fn output<T: JsonSchema>(self) -> Self {
        self.output_schema(schemars::schema_for!(T).to_value())
    }

    /// The schema of the structured output, as it is.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output = Some(schema);
        self
    }

    /// One of MCP's annotations (`readOnlyHint`, `destructiveHint` and so on) or of Drawgate's
    /// (`requiresConfirmation`, `policyAction` and so on).
    #[must_use]
    pub fn annotation(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.annotations.insert(name.into(), value.into());
        self
    }

    /// Makes it a tool that is run by an async function or closure. The input type gives the schema
    /// of the arguments, unless there is one; an error's text goes to the caller as it is.
    pub fn run<I, O, E, F, R>(self, run: F) -> FnTool
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + 'static,
        E: Display + 'static,
        F: Fn(I, Call) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
    {
        let definition = if self.input.is_some() { self } else { self.input::<I>() };
        FnTool::new(definition, run)
    }

    pub(super) fn into_proto(self) -> proto::ToolDefinition {
        let text = |value: Option<Value>| value.map_or_else(String::new, |value| value.to_string());
        let annotations = (!self.annotations.is_empty()).then_some(Value::Object(self.annotations));
        proto::ToolDefinition {
            name: self.name,
            description: self.description,
            input_schema_json: text(Some(self.input.unwrap_or_else(anything))),
            required_capabilities: self.capabilities,
            timeout_seconds: self.timeout.map_or(0, whole_seconds),
            output_schema_json: text(self.output),
            title: self.title,
            annotations_json: text(annotations),
        }
    }
}

/// Rounded up, for a part of a second must not become "no limit".
fn whole_seconds(time: Duration) -> i32 {
    let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)
}

fn anything() -> Value {
    serde_json::json!({ "type": "object" })
}
