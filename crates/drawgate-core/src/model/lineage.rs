//! The run that calls: an agent that the gateway runs itself, the runs above it, and what bounds them.
//!
//! Bounds only take away. What a run may do at all comes from the grants of its principal, which is the
//! root's.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Capability, shown_name};
use crate::policy::Pattern;
use crate::registry::Entry;

/// A run and its ancestors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The run's id.
    pub run: Arc<str>,
    /// The id of the run at the top, which is the run itself where nothing is above it.
    pub root: Arc<str>,
    /// The conversation in which it runs.
    pub thread: Arc<str>,
    /// The name of the agent's profile.
    pub profile: Arc<str>,
    /// The delegated task that it works on.
    pub task: Option<Arc<str>>,
    /// The plugin that started it, whose own hooks are not asked about its calls.
    pub plugin: Option<Arc<str>>,
    /// How many runs are above it.
    pub depth: u8,
    /// The run that started it.
    pub parent: Option<Arc<Lineage>>,
    /// What it is held to, whatever its principal may do.
    pub bounds: Bounds,
}

/// What a run is held to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bounds {
    /// The most that the run and everything below it may hold; `None` for no ceiling of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Vec<Capability>>,
    /// The tools that this run alone may use: a run below it may have others.
    #[serde(default)]
    pub tools: ToolPatterns,
}

/// A choice among tools by patterns over their ids, wire names and bare names. The default admits all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolPatterns {
    /// Only these; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allowed: Option<Vec<Pattern>>,
    /// None of these, whatever is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    denied: Vec<Pattern>,
}

/// A text that can't be used as a pattern for tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` can't be used as a pattern for tools; use up to 1024 characters, such as `files__*`"
)]
pub struct ToolPatternError(String);

impl Lineage {
    /// The run itself, then the one that started it, up to the root.
    pub fn upwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |run| run.parent.as_deref())
    }

    /// Whether the ceilings of the run and of all above it leave a capability.
    #[must_use]
    pub fn leaves(&self, required: &Capability) -> bool {
        self.ceilings().all(|ceiling| ceiling.iter().any(|most| most.covers(required)))
    }

    /// What these ceilings leave of the capabilities that a principal holds.
    #[must_use]
    pub fn limit(&self, held: BTreeSet<Capability>) -> BTreeSet<Capability> {
        self.ceilings().fold(held, |held, ceiling| {
            let both = held.iter().flat_map(|own| ceiling.iter().map(move |most| (own, most)));
            both.filter_map(|(own, most)| own.intersection(most)).cloned().collect()
        })
    }

    fn ceilings(&self) -> impl Iterator<Item = &[Capability]> {
        self.upwards().filter_map(|run| run.bounds.ceiling.as_deref())
    }
}

impl ToolPatterns {
    /// Admits only tools that match one of these patterns.
    pub fn only<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, ToolPatternError> {
        Ok(Self { allowed: Some(compiled(patterns)?), denied: Vec::new() })
    }

    /// The same choice without tools that match one of these patterns.
    pub fn without<'a>(
        mut self,
        patterns: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, ToolPatternError> {
        self.denied.extend(compiled(patterns)?);
        Ok(self)
    }

    /// Whether a tool is among the chosen ones.
    #[must_use]
    pub fn admits(&self, entry: &Entry) -> bool {
        let names = [entry.id.as_str(), entry.wire.as_str(), entry.id.tool()];
        let any = |patterns: &[Pattern]| {
            patterns.iter().any(|pattern| names.iter().any(|name| pattern.matches(name)))
        };
        self.allowed.as_deref().is_none_or(any) && !any(&self.denied)
    }
}

fn compiled<'a>(
    patterns: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Pattern>, ToolPatternError> {
    let compile = |text| Pattern::new(text).map_err(|_| ToolPatternError(shown_name(text)));
    patterns.into_iter().map(compile).collect()
}

#[cfg(test)]
#[path = "lineage_tests.rs"]
mod tests;
