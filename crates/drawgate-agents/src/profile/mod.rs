//! Profiles: what an agent is, read from a Markdown file with YAML front matter.
//!
//! Files that were written for other programs are read as they are; see `dialects`. Reading decides
//! nothing: a profile counts once an operator has accepted it.

mod custom;
mod dialects;
mod findings;
mod folder;
mod front_matter;
mod parse;
mod switches;
mod template;

use std::fmt;

use drawgate_core::model::Capability;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::folder::{Found, read_file, read_folders};
pub use self::parse::{MAX_FILE, parse};
pub use self::template::fill;

/// An agent, as its file describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Its name: `[a-z0-9][a-z0-9-]{0,47}`.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The model, as `provider/model` or an alias; the default model, or that of the parent run, without
    /// one.
    pub model: Option<String>,
    /// What the model is told first: the text below the front matter.
    pub instructions: String,
    /// The tools that its runs may use themselves, and the agents that they may start.
    pub tools: ToolChoice,
    /// Its own tools.
    pub custom: Vec<CustomTool>,
    /// What its runs and all their children may do at most; no limit of its own without one.
    pub ceiling: Option<Vec<Capability>>,
    /// What a run may use up.
    pub budget: Budget,
    /// Requests to the model in one run.
    pub max_turns: Option<u32>,
    /// Passed to the model.
    pub temperature: Option<f64>,
    /// What does the work of its runs.
    #[serde(default)]
    pub invoker: Invoker,
    /// Whether callers that are not runs may use it as a tool.
    pub public: bool,
    /// SHA-256 of the file.
    pub hash: String,
}

/// What does the work of a run.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Invoker {
    /// The gateway asks the model itself.
    #[default]
    Api,
    /// Claude Code, in a sandbox.
    Claude,
    /// Codex, in a sandbox.
    Codex,
    /// Gemini CLI, in a sandbox.
    Gemini,
    /// `OpenCode`, in a sandbox.
    Opencode,
}

impl Invoker {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Api, Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    /// Its name, as in profiles and in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }
}

impl Profile {
    /// Whether its runs may start an agent of this name themselves.
    #[must_use]
    pub fn may_start(&self, agent: &str) -> bool {
        self.tools.agents.as_ref().is_none_or(|agents| agents.iter().any(|name| name == agent))
    }
}

/// The tools that an agent may use, by patterns over ids, wire names and bare names, and the agents that
/// it may start with them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolChoice {
    /// Those that it may use; all without a list.
    pub allowed: Option<Vec<String>>,
    /// Those that it may not, whatever `allowed` says.
    pub denied: Vec<String>,
    /// The agents that it may start, by name; all without a list.
    #[serde(default)]
    pub agents: Option<Vec<String>>,
}

/// A tool that a profile defines by a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomTool {
    /// Its name: `[a-z][a-z0-9_]{0,63}`.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The model that answers; that of the run without one.
    pub model: Option<String>,
    /// The parameters as a JSON Schema object.
    pub parameters: Value,
    /// What the answer must satisfy.
    pub result_schema: Option<Value>,
    /// The prompt, with `{{parameter}}` where arguments go.
    pub prompt: String,
    /// Whether callers other than this profile's runs see it.
    pub public: bool,
}

impl CustomTool {
    /// The prompt for these arguments. Parameters without an argument have their default, if there is
    /// one.
    #[must_use]
    pub fn prompt_for(&self, arguments: &Map<String, Value>) -> String {
        let mut all = Map::new();
        if let Some(Value::Object(properties)) = self.parameters.get("properties") {
            for (name, schema) in properties {
                if let Some(default) = schema.get("default") {
                    all.insert(name.clone(), default.clone());
                }
            }
        }
        all.extend(arguments.clone());
        fill(&self.prompt, &all)
    }
}

/// What a run may use up, together with its children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Tokens, in both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Seconds, without the time in which a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Calls of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Runs, itself included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
}

/// Something in a profile's file that is wrong, or that has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The field, such as `budget.tokens` or `tools[2].parameters`; empty for the whole file.
    pub field: String,
    /// The custom tool that it belongs to.
    pub tool: Option<String>,
    /// The line in the file, if it is known.
    pub line: Option<u32>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(tool) = &self.tool {
            write!(f, "tool `{}`: ", tool.escape_debug())?;
        }
        if !self.field.is_empty() {
            write!(f, "`{}`: ", self.field.escape_debug())?;
        }
        f.write_str(&self.message)
    }
}

/// A profile with what was ignored in its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The profile.
    pub profile: Profile,
    /// What has no effect.
    pub warnings: Vec<Problem>,
}
