//! A gateway that is killed again and again loses no run and repeats nothing that may not be repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use drawgate_agents::testing::fake_models::{FakeModels, Rule};
use serde_json::{Value, json};

use super::{HELPER, KEY, folder};
use crate::support::eventually;

const KILLS: usize = 100;

fn script() -> Vec<Rule> {
    let write = |path: &str| ("vfs_write", json!({ "path": path, "content": "x" }));
    vec![
        Rule::calls([write("child.txt")]).containing("child").at_turn(0),
        Rule::text("the child is done").containing("child"),
        Rule::calls([write("first.txt")]).at_turn(0),
        Rule::calls([("spawn_agent", json!({ "prompt": "child" }))]).at_turn(1),
        Rule::text("all is done"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_kills_lose_no_run() {
    let fake = FakeModels::start(script()).await.unwrap();
    let profile = HELPER.replace("tools: [vfs_write, vfs_read]\n", "");
    let place = folder(&fake, &[("helper.md", &profile)]);
    let mut started = Vec::new();
    let serve = || {
        place.serve_with(|command| {
            command.env(KEY.0, KEY.1);
        })
    };
    for round in 0..KILLS {
        let mut gateway = serve();
        started.push(place.ok(&["run", "helper", "go", "--detach"]).trim().to_owned());
        // Spread over 0 to 120 ms by a step that shares no factor with the span.
        tokio::time::sleep(Duration::from_millis((round * 37 % 121) as u64)).await;
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
    }
    let gateway = serve();
    let runs = eventually("every run ends", async || {
        let runs = place.json(&["runs", "list", "--limit", "1000"]);
        let all_ended = runs.as_array()?.iter().all(|run| run["phase"] == "ended");
        all_ended.then_some(runs)
    })
    .await;
    assert_eq!(gateway.terminate(), Some(0));
    let endings: BTreeMap<&str, &str> = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["id"].as_str().unwrap(), run["ending"].as_str().unwrap()))
        .collect();
    for id in &started {
        assert_eq!(endings.get(id.as_str()), Some(&"done"), "{id}");
    }
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
    check(&place.ok(&["audit", "export", "--events-only"]), &started);
}

/// No call of a tool that may not be repeated is made twice, and each run ends once.
fn check(log: &str, started: &[String]) {
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for event in log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        match event["kind"].as_str().unwrap() {
            "decision" if text("toolId") == "builtin:vfs_write" => {
                *calls.entry(text("requestId")).or_default() += 1;
            }
            "run_ended" => *ends.entry(text("runId")).or_default() += 1,
            _ => {}
        }
    }
    let repeated: Vec<_> = calls.iter().filter(|(_, count)| **count > 1).collect();
    assert!(repeated.is_empty(), "made twice: {repeated:?}");
    for id in started {
        assert_eq!(ends.get(id), Some(&1), "the end of {id}");
    }
}
