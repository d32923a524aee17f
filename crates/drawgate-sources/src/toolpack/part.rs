//! One of the sources behind a pack, and what the pack wants of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::{McpManifest, McpToolSpec, shown_name};
use drawgate_core::source::ToolSource;
use serde_json::Value;

use super::manifest::COMMAND;
use crate::suggest::nearest;

/// A source, or why there is none.
pub(super) struct Part {
    /// The connector's id, or `commands`.
    pub(super) label: String,
    kind: String,
    pub(super) source: Result<Arc<dyn ToolSource>, String>,
    pub(super) wants: Wants,
    /// How often a call that could not be sent is tried again.
    pub(super) retries: u32,
    timeout: Option<Duration>,
}

/// What a pack wants of a source.
pub(super) enum Wants {
    /// These tools.
    Named(Vec<WantedTool>),
    /// All of them, by their own names.
    All {
        /// The place in the manifest.
        place: usize,
        label: String,
        timeout: Option<Duration>,
    },
}

/// A tool of a source, as the pack presents it.
#[derive(Debug, Clone)]
pub(super) struct WantedTool {
    /// The place in the manifest.
    pub(super) place: usize,
    pub(super) name: String,
    /// The source's name for it.
    pub(super) inner: Arc<str>,
    pub(super) description: Option<String>,
    pub(super) parameters: Option<Value>,
    pub(super) annotations: Option<Value>,
    pub(super) timeout: Option<Duration>,
}

/// A tool that is offered.
pub(super) struct Offered {
    pub(super) place: usize,
    pub(super) inner: Arc<str>,
    pub(super) timeout: Option<Duration>,
    pub(super) spec: McpToolSpec,
}

/// A tool that is not, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct LeftOut {
    pub(super) tool: String,
    pub(super) reason: String,
}

impl Wants {
    /// The source has the pack's own names.
    pub(super) fn by_own_name(&mut self) {
        match self {
            Self::Named(wanted) => {
                for tool in wanted {
                    tool.inner = tool.name.as_str().into();
                }
            }
            Self::All { .. } => {}
        }
    }

    /// What to call the tools in a message.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Named(wanted) => wanted.iter().map(|tool| tool.name.clone()).collect(),
            Self::All { label, .. } => vec![label.clone()],
        }
    }
}

impl Part {
    pub(super) fn new(
        label: &str,
        kind: &str,
        source: Result<Arc<dyn ToolSource>, String>,
        wants: Wants,
    ) -> Self {
        let (label, kind) = (label.to_owned(), kind.to_owned());
        Self { label, kind, source, wants, retries: 0, timeout: None }
    }

    /// With the connector's terms.
    pub(super) fn with(self, retries: u32, timeout_seconds: Option<u64>) -> Self {
        Self { retries, timeout: timeout_seconds.map(Duration::from_secs), ..self }
    }

    /// Whether it is the pack's own programs, and no connector.
    pub(super) fn is_commands(&self) -> bool {
        self.kind == COMMAND
    }

    /// All of its tools are left out for one reason.
    pub(super) fn missing(&self, reason: &str) -> Vec<LeftOut> {
        let left_out = |tool| LeftOut { tool, reason: format!("`{}`: {reason}", self.label) };
        self.wants.names().into_iter().map(left_out).collect()
    }

    /// What the pack offers of what the source offers.
    pub(super) fn choose(&self, manifest: McpManifest) -> (Vec<Offered>, Vec<LeftOut>) {
        let wanted = match &self.wants {
            Wants::All { place, timeout, .. } => {
                let all = manifest.tools.into_iter().map(|spec| Offered {
                    place: *place,
                    inner: spec.name.as_str().into(),
                    timeout: timeout.or(self.timeout),
                    spec,
                });
                return (all.collect(), Vec::new());
            }
            Wants::Named(wanted) => wanted,
        };
        let known: BTreeMap<&str, &McpToolSpec> =
            manifest.tools.iter().map(|spec| (spec.name.as_str(), spec)).collect();
        let (mut offered, mut left_out) = (Vec::new(), Vec::new());
        for tool in wanted {
            match known.get(&*tool.inner) {
                Some(spec) => offered.push(Offered {
                    place: tool.place,
                    inner: Arc::clone(&tool.inner),
                    timeout: tool.timeout.or(self.timeout),
                    spec: tool.with_overrides(spec),
                }),
                None => left_out.push(LeftOut {
                    tool: tool.name.clone(),
                    reason: self.unknown(&tool.inner, &known),
                }),
            }
        }
        (offered, left_out)
    }

    fn unknown(&self, inner: &str, known: &BTreeMap<&str, &McpToolSpec>) -> String {
        let question = nearest(inner, known.keys().copied())
            .map(|near| format!("; did you mean `{}`?", shown_name(near)))
            .unwrap_or_default();
        format!("`{}` offers no `{}`{question}", self.label, shown_name(inner))
    }
}

impl WantedTool {
    /// The source's definition under the pack's name, with what the manifest says in its place.
    fn with_overrides(&self, spec: &McpToolSpec) -> McpToolSpec {
        let mut spec = spec.clone();
        spec.name.clone_from(&self.name);
        if let Some(description) = &self.description {
            spec.description.clone_from(description);
        }
        if let Some(parameters) = &self.parameters {
            spec.input_schema.clone_from(parameters);
        }
        // The manifest was checked: what can't be read as annotations is not there.
        let own = self.annotations.clone().and_then(|value| serde_json::from_value(value).ok());
        spec.annotations = own.or(spec.annotations);
        spec
    }
}
