//! What can be wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The gateway does not start, or keeps its earlier configuration.
    Error,
    /// Worth knowing.
    Warning,
}

/// A place in the file. Both count from one; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Location {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The file, if it came from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Where in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// The key, such as `servers.everything.command`; empty for the file as a whole.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// An error at a key.
    pub(super) fn error(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, key.into(), message.into())
    }

    /// A warning at a key.
    pub(super) fn warning(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, key.into(), message.into())
    }

    fn new(severity: Severity, key: String, message: String) -> Self {
        Self { severity, file: None, location: None, key, message, hint: None }
    }

    /// Whether it keeps the configuration from being used.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Adds what to do about it.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
        }
        if let Some(Location { line, column }) = self.location {
            write!(f, "{line}:{column}:")?;
        }
        if self.file.is_some() || self.location.is_some() {
            f.write_str(" ")?;
        }
        match self.severity {
            Severity::Error => f.write_str("error: ")?,
            Severity::Warning => f.write_str("warning: ")?,
        }
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

/// Every problem of a configuration that can't be used, warnings included.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.problems))]
pub struct ConfigErrors {
    /// The problems, in the order of the file.
    pub problems: Vec<Problem>,
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
