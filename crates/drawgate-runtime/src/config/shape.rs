//! How `drawgate.toml` is spoken of when its form is checked.

use drawgate_core::model::Verdict;
use drawgate_sources::shape::{self, Elements, Found, Spot, Voice};
use serde_json::{Map, Value};

use super::formats::check_format;
use super::problem::Problem;
use super::tree::{Tree, child, element};

/// Finds every problem of form and removes the values that have one.
pub(super) fn check(schema: &Value, tree: &mut Tree) -> Vec<Problem> {
    let found = shape::check(schema, &Configuration, &mut tree.value, "");
    let problem = |Found { path, spot, message, hint }: Found| {
        let mut problem = Problem::error(&path, message);
        problem.hint = hint;
        problem.location = match spot {
            Spot::Key => tree.locations.of_key(&path),
            Spot::Value => tree.locations.of_value(&path),
        };
        problem
    };
    found.into_iter().map(problem).collect()
}

/// Finds every problem of form of a rule of the policy, which stands at a path.
pub(super) fn check_rule(schema: &Value, rule: &Map<String, Value>, path: &str) -> Vec<Problem> {
    let mut rule = Value::Object(rule.clone());
    let found = shape::check(schema, &Configuration, &mut rule, path);
    let problem = |Found { path, message, hint, .. }: Found| {
        let problem = Problem::error(path, message);
        Problem { hint, ..problem }
    };
    found.into_iter().map(problem).collect()
}

/// What people write where calls are to wait for a person.
const ASKING: [&str; 6] =
    ["ask", "approve", "confirm", "prompt", "require_approval", "require_confirmation"];

struct Configuration;

impl Voice for Configuration {
    const OBJECT: &'static str = "a table";
    const MEMBERS: &'static str = "keys";
    /// TOML has no null; the reader puts one where a number is too large.
    const NULL: (&'static str, Option<&'static str>) = ("a number beyond 64 bits", None);
    const ELEMENTS: Elements = Elements::Leave;

    fn member(&self, path: &str, key: &str) -> String {
        child(path, key)
    }

    fn element(&self, path: &str, index: usize) -> String {
        element(path, index)
    }

    fn shown(&self, word: &str) -> String {
        word.escape_debug().to_string()
    }

    fn unknown(&self, parent: &str, key: &str, value: &Value) -> (String, Option<String>) {
        let place = if parent.is_empty() { "the file".into() } else { format!("[{parent}]") };
        // `[server]` is the endpoint; the plural is so near that it deserves its own word.
        let better = (parent == "server" && value.is_object())
            .then(|| format!("did you mean [{}]?", child("servers", key)));
        (format!("unknown key `{}` in {place}", self.shown(key)), better)
    }

    fn missing(&self, parent: &str, key: &str, _what: Option<&str>) -> Found {
        let message = format!("`{key}` is missing in [{parent}]");
        let hint = Some("add it, or remove the table".to_owned());
        Found { path: parent.to_owned(), spot: Spot::Key, message, hint }
    }

    fn meant(&self, word: &str, words: &[&str]) -> Option<&'static str> {
        let confirm = Verdict::AllowWithConfirm.as_str();
        (words.contains(&confirm) && ASKING.contains(&word)).then_some(confirm)
    }

    fn format(&self, format: &str, text: &str) -> Result<(), String> {
        check_format(format, text)
    }
}
