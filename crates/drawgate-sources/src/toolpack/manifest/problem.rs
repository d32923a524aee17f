//! What can be wrong with a manifest, and where.

use std::fmt;

use drawgate_core::model::shown_name;
use serde::{Deserialize, Serialize};

/// One thing that is wrong with a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Where, as a JSON path: `$.tools[2].command_template`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

/// Every problem of a manifest that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}", lines(.problems))]
pub struct Problems {
    /// The problems: those of form first, then those of meaning, each in the order of the file.
    pub problems: Vec<Problem>,
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Collects problems.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    problems: Vec<Problem>,
}

impl Sink {
    pub(super) fn new(problems: Vec<Problem>) -> Self {
        Self { problems }
    }

    /// Adds a problem, with what to do about it.
    pub(super) fn add(&mut self, path: &str, message: impl Into<String>, hint: impl Into<String>) {
        let (path, message, hint) = (path.to_owned(), message.into(), Some(hint.into()));
        self.problems.push(Problem { path, message, hint });
    }

    /// Adds a problem whose message says what to do.
    pub(super) fn fault(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(Problem { path: path.to_owned(), message: message.into(), hint: None });
    }

    /// Whether something is wrong at this place, or inside.
    pub(super) fn knows(&self, path: &str) -> bool {
        self.problems.iter().any(|problem| {
            let rest = problem.path.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    pub(super) fn finish(self) -> Result<(), Problems> {
        if self.problems.is_empty() { Ok(()) } else { Err(Problems { problems: self.problems }) }
    }
}

/// The path of a member.
pub(super) fn member(path: &str, key: &str) -> String {
    let starts = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        format!("{path}.{key}")
    } else {
        format!("{path}[\"{}\"]", shown_name(key))
    }
}

/// The path of an element.
pub(super) fn element(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}
