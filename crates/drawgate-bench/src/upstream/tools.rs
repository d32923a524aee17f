//! The tools that the upstream lists: `echo`, and as many made-up ones as asked for.

use serde_json::{Value, json};

/// Verbs and nouns of the made-up names; their products repeat, the number keeps names unique.
const VERBS: [&str; 8] =
    ["search", "create", "update", "delete", "list", "export", "assign", "archive"];
const NOUNS: [&str; 7] =
    ["customers", "invoices", "tickets", "documents", "pipelines", "releases", "calendars"];

/// The result of `tools/list` with `count` tools, at least one.
pub(super) fn list(count: usize) -> Value {
    let made_up = (1..count).map(made_up);
    json!({ "tools": std::iter::once(echo()).chain(made_up).collect::<Vec<_>>() })
}

fn echo() -> Value {
    json!({
        "name": "echo",
        "description": "Returns the message that it was given",
        "inputSchema": {
            "type": "object",
            "properties": { "message": { "type": "string" } },
            "required": ["message"],
            "additionalProperties": false,
        },
    })
}

/// A tool with a schema like those of real servers: about 1 kB, nested, with enums and limits.
fn made_up(number: usize) -> Value {
    let verb = VERBS.get(number % VERBS.len()).copied().unwrap_or_default();
    let noun = NOUNS.get(number % NOUNS.len()).copied().unwrap_or_default();
    json!({
        "name": format!("{verb}_{noun}_{number}"),
        "title": format!("{verb} {noun}"),
        "description": format!("Use this to {verb} {noun} in the workspace. Returns the matching \
            {noun} with their ids; page with `cursor` until it is empty."),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": { "type": "string", "minLength": 1, "maxLength": 400,
                    "description": format!("What to look for among {noun}, in plain words") },
                "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 20,
                    "description": "How many to return at most" },
                "cursor": { "type": "string", "description": "Where the page before ended" },
                "state": { "type": "string", "enum": ["open", "closed", "all"] },
                "labels": { "type": "array", "items": { "type": "string" }, "maxItems": 10 },
                "filter": {
                    "type": "object",
                    "properties": {
                        "owner": { "type": "string", "description": "Id of the owner" },
                        "after": { "type": "string", "format": "date-time" },
                        "before": { "type": "string", "format": "date-time" },
                    },
                },
            },
            "required": ["query"],
        },
        "annotations": { "readOnlyHint": verb == "search" || verb == "list" },
    })
}
