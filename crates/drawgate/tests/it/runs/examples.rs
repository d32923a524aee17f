//! The agents in `examples/agents`, each from its file to its result.

use std::fs;
use std::path::Path;

use drawgate_agents::testing::fake_models::{FakeModels, Rule};
use serde_json::{Value, json};

use super::{folder, with_key};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_agents_run_to_their_results() {
    let part = json!({ "path": "part.txt", "content": "done" });
    let task = json!({ "agent": "worker", "prompt": "write part.txt" });
    // Each agent is told by a tool that only it has.
    let rules = vec![
        Rule::calls([("return_result", json!({ "bullets": ["one"] }))]).with_tool("return_result"),
        Rule::calls([("vfs_write", part)]).with_tool("signal_parent").at_turn(0),
        Rule::calls([("spawn_agent", task)]).with_tool("spawn_agent").at_turn(0),
        Rule::calls([("summarize", json!({ "text": "long" }))]).with_tool("summarize").at_turn(0),
        Rule::calls([("vfs_list", json!({}))]).at_turn(0),
        Rule::text("finished"),
    ];
    let fake = FakeModels::start(rules).await.unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agents");
    let files: Vec<(String, String)> = fs::read_dir(examples)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    let listed: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let place = folder(&fake, &listed);
    for (agent, below) in [("research-agent", 1), ("code-reviewer", 0), ("coordinator", 1)] {
        let (ok, out, err) = with_key(&place, &["run", agent, "go"]).await;
        assert!(ok && out.contains("finished"), "{agent}: {out}{err}");
        let runs = place.json(&["runs", "list", "--limit", "1"]);
        let runs: &Vec<Value> = runs.as_array().unwrap();
        assert_eq!(runs.len(), 1 + below, "{agent}: {runs:?}");
        assert!(runs.iter().all(|run| run["ending"] == "done"), "{agent}: {runs:?}");
        assert!(runs.iter().all(|run| run["model"] == "fake/small"), "{agent}: {runs:?}");
    }
    assert_eq!(place.ok(&["tools", "call", "vfs_read", "path=part.txt"]).trim(), "done");
}
