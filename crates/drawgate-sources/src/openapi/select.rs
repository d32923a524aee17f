//! Which operations become tools, and under which names.

use serde::Deserialize;

use super::document::{Document, Operation, UnknownOperation, meant, shown};
use crate::suggest::nearest;

/// A choice of operations: all of them, those that patterns choose, or a list with names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Operations {
    /// These, each under a name of its own.
    Listed(Vec<ListedOperation>),
    /// Those that the patterns choose.
    Chosen(Choice),
}

/// One operation under a name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedOperation {
    /// The name of the tool.
    pub name: String,
    /// The operation's `operationId`.
    pub operation_id: String,
    /// What the tool does, instead of what the document says.
    pub description: Option<String>,
}

/// Patterns. `*` stands for any text; a pattern is held against an operation's id, its tool's name,
/// `GET /path` and `tag:NAME`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choice {
    /// What is in; everything, if there are none.
    pub include: Vec<String>,
    /// What is out again.
    pub exclude: Vec<String>,
    /// What each tool's name begins with.
    pub prefix: Option<String>,
}

impl Default for Operations {
    fn default() -> Self {
        Self::Chosen(Choice::default())
    }
}

/// Why a choice can't be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A listed operation does not exist.
    #[error(transparent)]
    Unknown(#[from] UnknownOperation),
    /// A pattern has no effect.
    #[error("no operation matches `{}`{}", shown(pattern), meant(suggestion.as_deref()))]
    Pattern {
        /// The pattern.
        pattern: String,
        /// An operation that may have been meant.
        suggestion: Option<String>,
    },
    /// More than one of these.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<SelectError>),
    /// Nothing is left.
    #[error("no operation is left; what `include` chooses, `exclude` takes away")]
    Nothing,
}

impl Document {
    /// The chosen operations, each with the name of its tool.
    pub fn select(
        &self,
        operations: &Operations,
    ) -> Result<Vec<(String, &Operation)>, SelectError> {
        match operations {
            Operations::Listed(listed) => {
                let (mut found, mut faults) = (Vec::new(), Vec::new());
                for one in listed {
                    match self.operation(&one.operation_id) {
                        Ok(operation) => found.push((one.name.clone(), operation)),
                        Err(unknown) => faults.push(unknown.into()),
                    }
                }
                all_of(faults).map(|()| found)
            }
            Operations::Chosen(choice) => self.choose(choice),
        }
    }

    fn choose(&self, choice: &Choice) -> Result<Vec<(String, &Operation)>, SelectError> {
        let idle =
            choice.include.iter().chain(&choice.exclude).filter(|pattern| {
                !self.operations().iter().any(|operation| fits(pattern, operation))
            });
        let faults = idle.map(|pattern| {
            let known = self.operations().iter().map(|operation| operation.id.as_str());
            let suggestion = nearest(pattern, known).map(str::to_owned);
            SelectError::Pattern { pattern: pattern.clone(), suggestion }
        });
        all_of(faults.collect())?;
        let chosen = |operation: &&Operation| {
            let matches = |pattern: &String| fits(pattern, operation);
            let included = choice.include.is_empty() || choice.include.iter().any(matches);
            included && !choice.exclude.iter().any(matches)
        };
        let chosen: Vec<_> = self
            .operations()
            .iter()
            .filter(chosen)
            .map(|operation| (operation.tool_name(choice.prefix.as_deref()), operation))
            .collect();
        if chosen.is_empty() { Err(SelectError::Nothing) } else { Ok(chosen) }
    }
}

/// All faults as one.
fn all_of(mut faults: Vec<SelectError>) -> Result<(), SelectError> {
    match (faults.pop(), faults.is_empty()) {
        (None, _) => Ok(()),
        (Some(only), true) => Err(only),
        (Some(last), false) => {
            faults.push(last);
            Err(SelectError::Several(faults))
        }
    }
}

fn fits(pattern: &str, operation: &Operation) -> bool {
    if let Some(tag) = pattern.strip_prefix("tag:") {
        return operation.tags.iter().any(|own| matches(tag, own));
    }
    let place = format!("{} {}", operation.method, operation.path);
    matches(pattern, &operation.id)
        || matches(pattern, &operation.tool_name(None))
        || matches(pattern, &place)
}

/// `*` is any text. Each star is left behind for good once the text after it was found.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    let mut rest = rest;
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_text() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("pets*", "pets/list", true),
            ("*list", "pets/list", true),
            ("p*s*t", "pets/list", true),
            ("GET /pets/*", "GET /pets/{id}", true),
            ("pets", "pets/list", false),
            ("ab*ab", "ab", false),
            ("*x*", "pets", false),
            ("", "pets", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
