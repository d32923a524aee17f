//! What can be wrong with a plugin: its manifest, and what it declares when it is loaded.

use std::fmt;

use drawgate_core::model::shown_name;
use serde::Serialize;

/// One thing that is wrong with a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The tool that it is about, by its name or its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The field, such as `permissions.hosts[0]`.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tool) = &self.tool {
            write!(f, "tool {tool}, ")?;
        }
        write!(f, "`{}`: {}", self.field, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

/// Everything for which a plugin is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}", lines(.plugin, .problems))]
pub struct Problems {
    /// The plugin, by its name or, if that can't be read, its folder.
    pub plugin: String,
    /// The problems, in the order of what was read.
    pub problems: Vec<Problem>,
}

fn lines(plugin: &str, problems: &[Problem]) -> String {
    let line = |problem: &Problem| format!("plugin `{}`: {problem}", shown_name(plugin));
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Collects problems.
#[derive(Debug, Default)]
pub(super) struct Found(Vec<Problem>);

impl Found {
    /// Something that is wrong with a field, and what to do about it.
    pub(super) fn add(&mut self, field: &str, message: impl Into<String>, hint: &str) {
        self.0.push(Problem {
            tool: None,
            field: field.to_owned(),
            message: message.into(),
            hint: (!hint.is_empty()).then(|| hint.to_owned()),
        });
    }

    /// The same, of a tool.
    pub(super) fn of_tool(
        &mut self,
        tool: &str,
        field: &str,
        message: impl Into<String>,
        hint: &str,
    ) {
        self.add(field, message, hint);
        if let Some(last) = self.0.last_mut() {
            last.tool = Some(tool.to_owned());
        }
    }

    pub(super) fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Whether something is wrong with a field, or inside.
    pub(super) fn knows(&self, field: &str) -> bool {
        self.0.iter().any(|problem| {
            let rest = problem.field.strip_prefix(field);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    pub(super) fn finish(self, plugin: &str) -> Result<(), Problems> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Problems { plugin: plugin.to_owned(), problems: self.0 })
        }
    }
}
