//! How a manifest is spoken of when its form is checked. Patterns and lengths are checked with the
//! meaning, in better words.

use serde_json::Value;

use super::problem::{Problem, element, member};
use super::schema;
use crate::kind::Kinds;
use crate::shape::{self, Elements, Found, Spot, Voice};

/// Finds every problem of form and removes the members that have one.
pub(super) fn check(value: &mut Value, kinds: Kinds) -> Vec<Problem> {
    let found = shape::check(&schema::schema_of(kinds), &Manifest, value, "$");
    let problem = |Found { path, message, hint, .. }| Problem { path, message, hint };
    found.into_iter().map(problem).collect()
}

struct Manifest;

impl Voice for Manifest {
    const OBJECT: &'static str = "an object";
    const MEMBERS: &'static str = "members";
    const NULL: (&'static str, Option<&'static str>) =
        ("null", Some("leave it out if there is nothing to say"));
    /// Connectors and tools are read one by one, and named by their places.
    const ELEMENTS: Elements = Elements::Stay;

    fn member(&self, path: &str, key: &str) -> String {
        member(path, key)
    }

    fn element(&self, path: &str, index: usize) -> String {
        element(path, index)
    }

    fn shown(&self, word: &str) -> String {
        drawgate_core::model::shown_name(word)
    }

    fn unknown(&self, _parent: &str, key: &str, _value: &Value) -> (String, Option<String>) {
        (format!("unknown member `{}`", self.shown(key)), None)
    }

    fn missing(&self, parent: &str, key: &str, what: Option<&str>) -> Found {
        let hint = what.map(|text| format!("add it: {}", lowered(text)));
        let message = format!("`{key}` is missing");
        Found { path: member(parent, key), spot: Spot::Key, message, hint }
    }
}

fn lowered(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_lowercase);
    first.chain(chars).collect()
}
