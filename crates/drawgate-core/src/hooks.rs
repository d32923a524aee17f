//! Hooks around calls: what plugins, commands and services of the operator may say about a call, and change
//! in it.
//!
//! A hook may refuse a call, demand that a person confirms it, or change what the operator lets it change.
//! It never permits anything: what it leaves goes through schema, rules and approval like any other call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use json_patch::PatchOperation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{Lineage, Operation, Principal, ToolId, ToolPatterns};

/// What a hook sees of a call: all that the tool will get, with nothing masked.
#[derive(Debug, Clone, Copy)]
pub struct HookCall<'a> {
    /// The call's id in the audit log.
    pub call_id: &'a str,
    /// The tool.
    pub tool: &'a ToolId,
    /// Its name as models see it.
    pub name: &'a str,
    /// What is asked for.
    pub operation: Operation,
    /// Who calls.
    pub principal: &'a Principal,
    /// The run that calls, if the gateway itself runs the agent.
    pub lineage: Option<&'a Lineage>,
    /// The arguments.
    pub arguments: &'a Map<String, Value>,
}

/// Looks at calls on their way. Each method has a time limit, which the gate keeps.
#[async_trait]
pub trait CallHook: Send + Sync + 'static {
    /// Changes the arguments, before they are validated. Patches are relative to the arguments; only `add`,
    /// `replace` and `remove` are taken.
    async fn rewrite(&self, _call: &HookCall<'_>) -> Result<Vec<PatchOperation>, HookError> {
        Ok(Vec::new())
    }

    /// Says what it thinks of a call that the rules allow.
    async fn check(&self, _call: &HookCall<'_>) -> Result<Opinion, HookError> {
        Ok(Opinion::Pass)
    }

    /// Changes or withholds a result: an object with `content`, `structuredContent` and `isError`. It is what
    /// would leave: only the secrets that the gateway knows are masked in it.
    async fn after(&self, _call: &HookCall<'_>, _result: &Value) -> Result<Review, HookError> {
        Ok(Review::Pass)
    }
}

/// What a hook thinks of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// Nothing against it.
    Pass,
    /// A person must say yes first, for this reason.
    Confirm(String),
    /// It must not be made, for this reason.
    Refuse(String),
}

/// What a hook makes of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Review {
    /// It may leave as it is.
    Pass,
    /// It may leave with these changes, relative to the result.
    Change(Vec<PatchOperation>),
    /// It must not leave, for this reason.
    Withhold(String),
}

/// A hook that did not answer, or not sensibly. The text is for the log and the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

/// Where in a call a hook is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HookPoint {
    /// Before validation: it may change the arguments.
    #[serde(rename = "rewrite_call")]
    Rewrite,
    /// After the rules: it may refuse or demand confirmation.
    #[serde(rename = "before_call")]
    Check,
    /// After the tool: it may change or withhold the result.
    #[serde(rename = "after_call")]
    After,
}

impl HookPoint {
    /// All, in their order.
    pub const ALL: [Self; 3] = [Self::Rewrite, Self::Check, Self::After];

    /// As in the configuration and the audit log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rewrite => "rewrite_call",
            Self::Check => "before_call",
            Self::After => "after_call",
        }
    }

    /// The point of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.as_str() == text)
    }
}

/// The operator's terms for one hook at one point.
#[derive(Debug, Clone)]
pub struct HookTerms {
    /// Which tools it is asked about.
    pub tools: ToolPatterns,
    /// How long it may take.
    pub time: Duration,
    /// What happens if it fails.
    pub on_failure: OnFailure,
    /// Whether what it says counts.
    pub mode: HookMode,
}

impl Default for HookTerms {
    fn default() -> Self {
        Self {
            tools: ToolPatterns::default(),
            time: Duration::from_secs(1),
            on_failure: OnFailure::Stop,
            mode: HookMode::Enforce,
        }
    }
}

/// What happens to a call if a hook fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The call is refused; after the tool, its result is withheld.
    Stop,
    /// The call goes on as if the hook were not there.
    Skip,
}

/// Whether what a hook says counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookMode {
    /// It does.
    Enforce,
    /// It is only written to the audit log.
    Audit,
}

/// A hook as the operator bound it.
#[derive(Clone)]
pub struct BoundHook {
    /// The plugin's name, or that of the hook in the configuration.
    pub name: Arc<str>,
    /// Its place among the others; equal ones are ordered by name.
    pub position: i32,
    /// Where and how it is asked.
    pub points: Vec<(HookPoint, HookTerms)>,
    /// What is asked.
    pub hook: Arc<dyn CallHook>,
}

/// One hook at one point.
pub(crate) struct HookAt {
    pub(crate) name: Arc<str>,
    pub(crate) terms: HookTerms,
    pub(crate) hook: Arc<dyn CallHook>,
}

/// All hooks around calls, in the order in which they are asked.
#[derive(Default)]
pub struct Hooks {
    pub(crate) rewrite: Vec<HookAt>,
    pub(crate) check: Vec<HookAt>,
    pub(crate) after: Vec<HookAt>,
}

impl Hooks {
    /// Hooks in their order, whatever the order in which they are given.
    #[must_use]
    pub fn new(mut bound: Vec<BoundHook>) -> Self {
        bound.sort_by(|one, other| (one.position, &one.name).cmp(&(other.position, &other.name)));
        let mut hooks = Self::default();
        for BoundHook { name, points, hook, .. } in bound {
            for (point, terms) in points {
                let at = HookAt { name: Arc::clone(&name), terms, hook: Arc::clone(&hook) };
                match point {
                    HookPoint::Rewrite => hooks.rewrite.push(at),
                    HookPoint::Check => hooks.check.push(at),
                    HookPoint::After => hooks.after.push(at),
                }
            }
        }
        hooks
    }
}
