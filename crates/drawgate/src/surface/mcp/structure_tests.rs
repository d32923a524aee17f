//! The folders of this surface depend on one another in one direction, and so do the files in each.

use drawgate_core::testing::structure::check_layers_below;

/// The folders. Each uses only those before it.
const FOLDERS: &[&str] = &["wire", "session", "caller", "lists", "state", "methods", "transport"];

/// The files of each folder, in the same way.
const FILES: &[(&str, &[&str])] = &[
    (
        "wire",
        &[
            "era",
            "method",
            "notice",
            "message",
            "stateless",
            "tool_result",
            "answer",
            "client",
            "headers",
            "parameters",
            "sse",
        ],
    ),
    ("session", &["event_buffer", "replays", "questions", "subscribed", "sessions", "reply"]),
    ("caller", &["transport", "view", "request", "peer"]),
    ("lists", &["instructions", "search_tools", "page"]),
    ("state", &["followers", "log_levels", "streams", "subscription_table"]),
    (
        "methods",
        &[
            "meta",
            "gate",
            "source_reports",
            "approval_page",
            "questions",
            "perform",
            "lists",
            "resources",
            "prompts",
            "completion",
            "subscriptions",
            "tasks",
            "listen",
            "logging",
            "finder",
            "tools",
            "handshake",
        ],
    ),
    (
        "transport",
        &["bridge", "response", "negotiation", "sessions", "reply", "watch", "post", "http"],
    ),
    ("transport/bridge", &["lost", "summary", "lines"]),
];

#[test]
fn folders_and_files_use_only_those_below_them() {
    check_layers_below(env!("CARGO_MANIFEST_DIR"), "surface/mcp", FOLDERS);
    for (folder, files) in FILES {
        let folder = format!("surface/mcp/{folder}");
        check_layers_below(env!("CARGO_MANIFEST_DIR"), &folder, files);
    }
}
