//! What passes between a caller and a source beside a call of a tool and its answer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a source is asked to do.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Run a tool.
    #[default]
    CallTool,
    /// Give the contents of a resource; argument `uri`.
    ReadResource,
    /// Tell when a resource changes; argument `uri`.
    Subscribe,
    /// No longer tell; argument `uri`.
    Unsubscribe,
    /// Give a prompt; arguments `name` and `arguments`.
    GetPrompt,
    /// Complete an argument; arguments `ref`, `argument`, `context`.
    Complete,
    /// Say how much to log; argument `level`.
    SetLogLevel,
}

impl Operation {
    /// All but tools, in order.
    pub const BESIDE_TOOLS: [Self; 6] = [
        Self::ReadResource,
        Self::Subscribe,
        Self::Unsubscribe,
        Self::GetPrompt,
        Self::Complete,
        Self::SetLogLevel,
    ];
}

/// What a source offers beside tools. Definitions stay as their author wrote them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Offer {
    /// Resources, each with its `uri`.
    pub resources: Vec<Value>,
    /// Families of resources, each with its `uriTemplate`.
    pub templates: Vec<Value>,
    /// Prompts, each with its `name`.
    pub prompts: Vec<Value>,
    /// What it can be asked to do, each with the source's own name for it. The audit log, rules and
    /// terms know an operation by that name with `@` in front, which no tool can be called.
    pub operations: BTreeMap<Operation, String>,
    /// What it tells models about its use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Some of its lists are still on their way.
    #[serde(skip)]
    pub pending: bool,
}

/// What a source needs to know before it can go on. The caller answers, and makes the same call again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InputRequired {
    /// The questions, each a request with `method` and `params`, by the source's keys.
    pub requests: Map<String, Value>,
    /// To be sent back with the answers, untouched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// Answers to questions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputGiven {
    /// The answers, by the keys of the questions.
    pub responses: Map<String, Value>,
    /// What came with the questions.
    pub state: Option<String>,
}

/// What the program on the caller's side can do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Client {
    /// Whether it answers questions at all, and with what: its protocol's capabilities, as it declared
    /// them. Empty for a caller that can't be asked.
    pub capabilities: Map<String, Value>,
    /// The least severe log messages that it wants to see, if any.
    pub log_level: Option<String>,
    /// Whether its protocol has tasks, so that it decides itself about a tool that demands one. For the
    /// others the source follows the task.
    pub knows_tasks: bool,
}

impl Client {
    /// Whether it declared a capability such as `roots`, or one within another, such as `roots.changes`.
    #[must_use]
    pub fn can(&self, path: &str) -> bool {
        let mut keys = path.split('.');
        let first = keys.next().and_then(|key| self.capabilities.get(key));
        let last = keys.try_fold(first, |value, key| value.map(|value| value.get(key)));
        last.flatten().is_some_and(|value| !value.is_null() && *value != Value::Bool(false))
    }
}
