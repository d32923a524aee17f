//! Every path with every method, each under a name of its own.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Map, Value};

use super::{DocumentError, Operation, reference};
use crate::openapi::names;

/// Operations of one document; the largest public ones have some 15,000.
const MAX_OPERATIONS: usize = 30_000;
/// How much of a description stands in for a summary.
const MAX_SUMMARY: usize = 200;
/// Tags that are remembered.
const MAX_TAGS: usize = 16;

const METHODS: [(&str, Method); 8] = [
    ("get", Method::GET),
    ("put", Method::PUT),
    ("post", Method::POST),
    ("delete", Method::DELETE),
    ("options", Method::OPTIONS),
    ("head", Method::HEAD),
    ("patch", Method::PATCH),
    ("trace", Method::TRACE),
];

pub(super) fn operations(root: &Value) -> Result<Vec<Operation>, DocumentError> {
    let mut taken = Taken::default();
    let mut found = Vec::new();
    let Some(paths) = root.get("paths").and_then(Value::as_object) else { return Ok(found) };
    for (path, item) in paths.iter().filter(|(path, _)| path.starts_with('/')) {
        // A broken path takes no others with it.
        let item = reference::resolve(root, item).ok().and_then(Value::as_object);
        let Some(item) = item else { continue };
        for (key, value) in item {
            let method = METHODS.iter().find(|(name, _)| name == key);
            let (Some((_, method)), Value::Object(node)) = (method, value) else { continue };
            if found.len() == MAX_OPERATIONS {
                return Err(DocumentError::TooMany(MAX_OPERATIONS));
            }
            found.push(operation(path, method, node, &mut taken));
        }
    }
    Ok(found)
}

#[derive(Default)]
struct Taken {
    ids: BTreeSet<String>,
    tools: BTreeSet<String>,
}

fn operation(
    path: &str,
    method: &Method,
    node: &Map<String, Value>,
    taken: &mut Taken,
) -> Operation {
    let text = |key: &str| node.get(key).and_then(Value::as_str).unwrap_or_default();
    let place = format!("{method} {path}");
    let own = Some(text("operationId")).filter(|id| !id.is_empty() && !taken.ids.contains(*id));
    let id = match own {
        Some(id) => id.to_owned(),
        None => unique(names::of_place(method, path), &place, &taken.ids),
    };
    taken.ids.insert(id.clone());
    let tool = unique(names::snake_case(&id), &place, &taken.tools);
    taken.tools.insert(tool.clone());
    let summary = [text("summary"), text("description")].into_iter().find(|text| !text.is_empty());
    let tags = node.get("tags").and_then(Value::as_array).into_iter().flatten();
    Operation {
        id,
        tool,
        method: method.clone(),
        path: path.to_owned(),
        summary: summary.unwrap_or_default().chars().take(MAX_SUMMARY).collect(),
        deprecated: node.get("deprecated") == Some(&Value::Bool(true)),
        tags: tags.filter_map(Value::as_str).take(MAX_TAGS).map(str::to_owned).collect(),
    }
}

/// The name, or the name with the hash of the place where it stands.
fn unique(name: String, place: &str, taken: &BTreeSet<String>) -> String {
    if taken.contains(&name) { names::hashed(&name, place) } else { name }
}
