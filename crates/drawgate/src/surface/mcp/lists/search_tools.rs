//! Two tools instead of many: `search_tools` finds what a caller may call, `call_tool` calls it.

use std::collections::BTreeMap;

use drawgate_core::pipeline::{Gateway, View};
use drawgate_core::registry::Snapshot;
use serde_json::{Value, json};

/// Finds tools.
pub(crate) const SEARCH: &str = "search_tools";
/// Calls one.
pub(crate) const CALL: &str = "call_tool";

/// How many tools a search returns, unless it says otherwise, and at the most.
pub(crate) const RESULTS: usize = 8;
pub(crate) const MAX_RESULTS: usize = 50;
/// Characters of a query that are read.
pub(crate) const MAX_QUERY: usize = 1000;
/// How many sources the description names.
const MAX_NAMED: usize = 40;

/// The two definitions. The first says what stands behind it, as far as this caller may know.
pub(crate) fn definitions(gateway: &Gateway, view: &View, snapshot: &Snapshot) -> Vec<Value> {
    let mut tools: BTreeMap<&str, usize> = BTreeMap::new();
    let visible = gateway.visible(view, snapshot);
    for entry in &visible {
        *tools.entry(entry.id.source().as_str()).or_default() += 1;
    }
    let named: Vec<String> =
        tools.iter().take(MAX_NAMED).map(|(source, count)| format!("{source} ({count})")).collect();
    let more = tools.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let about = format!(
        "Finds tools by what they do and returns their definitions, best first. Call what you find with `{CALL}`. \
         {} tools stand behind it, from: {}{more}.",
        visible.len(),
        named.join(", ")
    );
    let search = json!({
        "name": SEARCH,
        "title": "Search tools",
        "description": about,
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": { "type": "string", "maxLength": MAX_QUERY, "description": "What the tool should do, in a few words" },
                "limit": { "type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "default": RESULTS },
            },
            "required": ["query"],
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    });
    let call = json!({
        "name": CALL,
        "title": "Call a tool",
        "description": format!("Calls a tool that `{SEARCH}` found. The result is that tool's own."),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "The tool's name, as found" },
                "arguments": { "type": "object", "description": "Its arguments, by its own `inputSchema`" },
            },
            "required": ["name"],
            "additionalProperties": false,
        },
    });
    vec![search, call]
}
