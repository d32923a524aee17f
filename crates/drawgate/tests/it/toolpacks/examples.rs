//! The packs that ship with the program, each run for real. (`mcp-streamable` runs against the
//! official server in `tests/clients`; here against one that answers like it.)

use serde_json::json;

use super::remote::Remote;
use super::{events, example, example_at, install_and_enable, listed, path_with, program, said};
use crate::support::TestFolder;

const NAMES: [&str; 4] = ["github-cli", "mcp-streamable", "openapi-local", "project-search"];

/// Prints its arguments, one in each line, and what it was given by the environment.
const GH: &str = "#!/bin/sh\nfor word in \"$@\"; do echo \"<$word>\"; done\necho \"token ${GITHUB_TOKEN:+given} proxy ${HTTPS_PROXY:+given} other ${OTHER:-none}\"\n";

#[test]
fn all_examples_are_valid_and_say_what_they_do() {
    let place = TestFolder::new("");
    for name in NAMES {
        let folder = example(name);
        let valid = place.ok(&["toolpacks", "validate", folder.to_str().unwrap()]);
        assert!(valid.ends_with(": valid\n"), "{valid}");
        let installed = super::install(&place, &folder);
        assert_eq!(installed["state"], "disabled");
        assert!(!installed["permissions"].as_array().unwrap().is_empty(), "{installed}");
    }
    let list = place.ok(&["toolpacks", "list"]);
    assert!(NAMES.iter().all(|name| list.contains(name)), "{list}");
    assert_eq!(place.run(&["toolpacks", "validate"]).status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn github_cli_runs_gh_with_exactly_its_arguments() {
    let place = TestFolder::new("");
    let bin = program(&place, "gh", GH);
    let gateway = place.serve_with(|command| {
        command.env("PATH", path_with(&bin));
        command.env("GITHUB_TOKEN", "a-token-for-the-test").env("OTHER", "kept outside");
    });
    install_and_enable(&place, &example("github-cli"));
    listed(&gateway, "gh_issue_list").await;
    let arguments = json!({ "repo": "octo/cat", "limit": 3, "search": "is:open $(id) ; touch x" });
    let result = gateway.call(&gateway.token, "gh_issue_list", arguments).await;
    let text = said(&result);
    let words = [
        "<issue>",
        "<list>",
        "<--repo>",
        "<octo/cat>",
        "<--state>",
        "<open>",
        "<--limit>",
        "<3>",
        "<--search>",
        "<is:open $(id) ; touch x>",
        "<--json>",
    ];
    let at: Vec<usize> = words
        .iter()
        .map(|word| text.find(word).unwrap_or_else(|| panic!("{word}: {text}")))
        .collect();
    assert!(at.is_sorted(), "{text}");
    assert!(text.contains("token given proxy given other none"), "{text}");
    let without =
        gateway.call(&gateway.token, "gh_issue_list", json!({ "repo": "octo/cat" })).await;
    assert!(!said(&without).contains("--search"), "{without}");
    for bad in ["--web", "octo", "octo/cat --web", "../../user"] {
        let refused = gateway.call(&gateway.token, "gh_pr_list", json!({ "repo": bad })).await;
        assert_eq!(refused["isError"], true, "{bad}: {refused}");
        assert!(!said(&refused).contains("<pr>"), "{bad}: {refused}");
    }
    let outcome = &events(&place, "outcome")[0];
    assert_eq!(outcome["sandbox"], "network", "{outcome}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcp_streamable_passes_calls_on() {
    let remote = Remote::start(&[
        ("echo", "Echoes."),
        ("get-sum", "Adds."),
        ("trigger-long-running-operation", "Takes time."),
        ("get-env", "Not in the pack."),
    ])
    .await;
    let place = TestFolder::new("");
    let gateway = place.serve();
    let folder = example_at(&place, "mcp-streamable", "127.0.0.1:3001", &remote.address);
    install_and_enable(&place, &folder);
    listed(&gateway, "mcp_echo").await;
    let result = gateway.call(&gateway.token, "mcp_sum", json!({})).await;
    assert_eq!(said(&result), "called get-sum");
    let names = gateway.tool_names(&gateway.token).await;
    assert!(!names.iter().any(|name| name.contains("get-env")), "{names:?}");
    let doctor = place.ok(&["toolpacks", "doctor", "mcp-streamable"]);
    assert!(doctor.starts_with("mcp-streamable: ok"), "{doctor}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn project_search_works_at_once() {
    let place = TestFolder::new("[toolpacks.packs.project-search]\nworkspace = \"project\"\n");
    let project = place.path().join("project");
    std::fs::create_dir_all(project.join("src")).unwrap();
    std::fs::write(project.join("src/main.rs"), "fn main() {\n    let answer = 42;\n}\n").unwrap();
    std::fs::write(project.join("-odd name"), "answer = 41\n").unwrap();
    let gateway = place.serve();
    install_and_enable(&place, &example("project-search"));
    listed(&gateway, "search_text").await;
    let call = async |tool: &str, arguments| {
        let result = gateway.call(&gateway.token, tool, arguments).await;
        said(&result).to_owned()
    };
    let found = call("search_text", json!({ "pattern": "answer = 4[0-9]" })).await;
    assert!(found.contains("src/main.rs:2:") && found.contains("answer = 41"), "{found}");
    let found = call("search_text", json!({ "pattern": "-e", "path": "src" })).await;
    assert!(!found.contains("usage"), "{found}");
    assert!(call("find_files", json!({ "name": "*.rs" })).await.contains("src/main.rs"));
    let lines = call("read_lines", json!({ "file": "src/main.rs", "from": 2, "to": 2 })).await;
    assert!(lines.contains("let answer") && !lines.contains("fn main"), "{lines}");
    let counted = call("count_lines", json!({ "files": ["-odd name", "src/main.rs"] })).await;
    assert!(counted.contains("4 total"), "{counted}");
    for outside in ["../serve.log", "/etc/shadow", "../.drawgate/admin.token"] {
        let lines = call("read_lines", json!({ "file": outside, "from": 1, "to": 9 })).await;
        assert!(!lines.contains(&gateway.token) && !lines.contains("root:"), "{outside}: {lines}");
    }
    assert_eq!(events(&place, "outcome")[0]["sandbox"], "strict");
}
