//! The definitions of the tools for agents.

use drawgate_core::model::McpToolSpec;
use serde_json::{Value, json};

use crate::runs::session::READ;

pub(super) const SPAWN: &str = "spawn_agent";
pub(super) const WAIT: &str = "wait_agents";
pub(super) const SIGNAL: &str = "signal_parent";
pub(super) const SEARCH: &str = "web_search";

/// The longest time that `wait_agents` waits, in seconds.
pub(super) const LONGEST_WAIT: u64 = 3600;
/// Bytes that `artifact_read` returns at once.
pub(super) const READ_AT_ONCE: u64 = 32 * 1024;
/// Results of a search.
pub(super) const SEARCH_RESULTS: u64 = 5;
pub(super) const MOST_SEARCH_RESULTS: u64 = 20;

/// Whether a search engine is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// `web_search` is offered.
    Offered,
    /// It is not.
    Absent,
}

pub(super) fn tools(search: Search) -> Vec<McpToolSpec> {
    let mut tools = vec![spawn(), wait(), signal(), read()];
    if search == Search::Offered {
        tools.push(web_search());
    }
    tools.into_iter().filter_map(|tool| serde_json::from_value(tool).ok()).collect()
}

fn spawn() -> Value {
    json!({
        "name": SPAWN,
        "description": "Starts another agent with a task of its own and returns its answer. With \
            `wait` false it returns at once, and the answer comes as a message.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "prompt": { "type": "string", "minLength": 1, "description": "the task, with all that the agent needs to know" },
                "agent": { "type": "string", "description": "the profile; one like yours without it" },
                "model": { "type": "string", "description": "another model than the profile's" },
                "tools": { "type": "array", "items": { "type": "string" }, "description": "the tools that it may use; only without `agent`" },
                "budget": {
                    "type": "object",
                    "description": "what it may use up of your budget",
                    "properties": {
                        "tokens": { "type": "integer", "minimum": 1 },
                        "cost_usd": { "type": "number", "exclusiveMinimum": 0 },
                        "seconds": { "type": "integer", "minimum": 1 },
                        "tool_calls": { "type": "integer", "minimum": 0 },
                        "runs": { "type": "integer", "minimum": 1 }
                    },
                    "additionalProperties": false
                },
                "wait": { "type": "boolean", "description": "whether to wait for the answer; true without it" }
            },
            "required": ["prompt"],
            "additionalProperties": false
        },
        "annotations": { "category": "control" }
    })
}

fn wait() -> Value {
    json!({
        "name": WAIT,
        "description": "Waits for agents that you started with `wait` false, and returns how each of them is.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "ids": { "type": "array", "items": { "type": "string" }, "minItems": 1, "description": "the ids of the runs" },
                "seconds": { "type": "integer", "minimum": 0, "maximum": LONGEST_WAIT, "description": "how long at most; 300 without it" }
            },
            "required": ["ids"],
            "additionalProperties": false
        },
        "annotations": { "category": "control", "readOnly": true }
    })
}

fn signal() -> Value {
    json!({
        "name": SIGNAL,
        "description": "Sends a message to the agent that started you, without ending your work.",
        "inputSchema": {
            "type": "object",
            "properties": { "message": { "type": "string", "minLength": 1 } },
            "required": ["message"],
            "additionalProperties": false
        },
        "annotations": { "category": "communication" }
    })
}

fn read() -> Value {
    json!({
        "name": READ,
        "description": "Reads a part of a result that was too long to show.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "uri": { "type": "string", "description": "`drawgate://artifacts/…`" },
                "offset": { "type": "integer", "minimum": 0, "description": "the first byte; 0 without it" },
                "length": { "type": "integer", "minimum": 1, "maximum": READ_AT_ONCE, "description": "bytes" }
            },
            "required": ["uri"],
            "additionalProperties": false
        },
        "annotations": { "category": "knowledge", "readOnly": true }
    })
}

fn web_search() -> Value {
    json!({
        "name": SEARCH,
        "description": "Searches the web. Returns a JSON array of {title, url, snippet}.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": { "type": "string", "minLength": 1 },
                "maxResults": { "type": "integer", "minimum": 1, "maximum": MOST_SEARCH_RESULTS, "description": "5 without it" }
            },
            "required": ["query"],
            "additionalProperties": false
        },
        "annotations": { "category": "knowledge", "readOnly": true, "policyAction": "network.request" }
    })
}
