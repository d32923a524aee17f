//! A gateway with delegated work that is killed again and again loses no iteration, asks no plugin again that
//! was heard, and tells each end once.

mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;
use std::time::Duration;

use drawgate_agents::testing::fake_models::{Answer, Call, FakeModels, Rule};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use self::process::{journal, release, spawn};
use super::folder;
use crate::support::{TestFolder, eventually};

const KILLS: usize = 40;
const PROFILE: &str = "---\nname: helper\ndescription: Delegates\n---\nDelegate your work.\n";

/// Work that is delegated, and what becomes of it.
struct Work {
    prompt: &'static str,
    state: &'static str,
    iterations: usize,
    /// What plugins are told and asked about it.
    hooks: &'static [&'static str],
    /// How the run that delegated it is told of the end.
    told: &'static str,
}

const GOOD: Work = Work {
    prompt: "good work",
    state: "complete",
    iterations: 2,
    hooks: &["onTaskCreate", "onTaskComplete", "onTaskComplete"],
    told: ": complete]\nsecond try",
};
const BAD: Work = Work {
    prompt: "bad work",
    state: "failed",
    iterations: 1,
    hooks: &["onTaskCreate", "onTaskFailed"],
    told: ": failed: ",
};
const POOR: Work = Work {
    prompt: "poor work",
    state: "rejected",
    iterations: 2,
    hooks: &["onTaskCreate", "onTaskComplete", "onTaskComplete", "onTaskFailed"],
    told: ": rejected after 2 iterations: reviewer: too poor]\npoorer try",
};
const ODD: Work = Work {
    prompt: "odd work",
    state: "unreviewed",
    iterations: 1,
    hooks: &["onTaskCreate", "onTaskComplete"],
    told: ": unreviewed, because a reviewer did not answer: reviewer: it can't be said]\nodd try",
};

/// The run whose last reviews are held.
const REVIEWED: &str = "delegate what is reviewed";
/// What runs delegate, by their prompts.
const RUNS: [(&str, &[Work]); 3] = [
    ("delegate the first two", &[GOOD, BAD]),
    ("delegate the other two", &[POOR, ODD]),
    (REVIEWED, &[GOOD, POOR, ODD]),
];

fn script() -> Vec<Rule> {
    let broken = Rule::status(400, &[], json!({ "error": { "message": "no such thing" } }));
    let mut rules = vec![
        Rule::text("heard of it").containing("[message from task"),
        Rule::text("first try").containing(GOOD.prompt),
        Rule::text("second try").containing("too short"),
        Rule::text("poor try").containing(POOR.prompt),
        Rule::text("poorer try").containing("too poor"),
        Rule::text("odd try").containing(ODD.prompt),
        broken.containing(BAD.prompt),
    ];
    for (prompt, works) in RUNS {
        let call = |work: &Work| {
            let arguments = json!({ "prompt": work.prompt, "maxIterations": 2 });
            let arguments = arguments.as_object().unwrap().clone();
            Call { name: "delegation__delegate".to_owned(), arguments }
        };
        let calls = Answer::Calls(works.iter().map(call).collect());
        rules.push(Rule::new(calls).containing(prompt).at_turn(0));
    }
    rules.push(Rule::text("waiting"));
    rules
}

/// Waits until the journal has so many lines that begin with this.
async fn written(place: &TestFolder, gateway: &mut Child, line: &str, wanted: usize) {
    eventually(line, async || {
        if let Some(status) = gateway.try_wait().unwrap() {
            let log = std::fs::read_to_string(place.path().join("gateway.log")).unwrap();
            panic!("the gateway ended with {status}: {log}");
        }
        let count = journal(place).iter().filter(|found| found.starts_with(line)).count();
        (count >= wanted).then_some(())
    })
    .await;
}

fn kill(mut gateway: Child) {
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

/// Has a gateway finish all work.
async fn finish(place: &TestFolder) {
    let mut gateway = spawn(place, None);
    let ended = eventually("the last gateway is done", async || gateway.try_wait().unwrap()).await;
    let log = std::fs::read_to_string(place.path().join("gateway.log")).unwrap();
    assert!(ended.success(), "{log}");
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_every_state_lose_no_task() {
    let fake = FakeModels::start(script()).await.unwrap();
    // Requests that a kill cuts off count as spent, so that a small budget would end.
    let place = folder(&fake, &[("helper.md", PROFILE)]);
    for round in 0..KILLS {
        let (prompt, _) = RUNS[round % 2];
        let mut gateway = spawn(&place, Some(prompt));
        written(&place, &mut gateway, "started", round + 1).await;
        // Spread over 0 to 150 ms by a step that shares no factor with the span.
        tokio::time::sleep(Duration::from_millis((round * 37 % 151) as u64)).await;
        kill(gateway);
    }
    finish(&place).await;
    let states = ["working", "reviewing", "complete", "failed", "rejected", "unreviewed"];
    check_journal(&journal(&place), &states);
    let tasks = place.json(&["tasks", "list", "--limit", "1000"]);
    check_tasks(&place, tasks.as_array().unwrap(), KILLS);
    let good = tasks.as_array().unwrap().iter().find(|task| task["state"] == "complete").unwrap();
    let shown = place.ok(&["tasks", "show", good["id"].as_str().unwrap()]);
    for part in
        ["state     complete", "try       2 of 2", "rejected the result: too short", "\nsecond try"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

/// The log is held when the last reviews are answered, so that the ends are in the store and not in the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_an_end_and_its_report_loses_and_repeats_nothing() {
    let fake = FakeModels::start(script()).await.unwrap();
    let place = folder(&fake, &[("helper.md", PROFILE)]);
    let mut gateway = spawn(&place, Some(REVIEWED));
    // Two reviews of each of the two that are tried again, and one of the other.
    written(&place, &mut gateway, "asked OnTaskComplete", 5).await;
    let log = Connection::open(place.data().join("audit.db")).unwrap();
    log.busy_timeout(Duration::from_secs(5)).unwrap();
    log.execute_batch("BEGIN IMMEDIATE").unwrap();
    release(&place);
    eventually("the ends are stored", async || (owed_ends(&place) == 3).then_some(())).await;
    kill(gateway);
    drop(log);
    assert!(!events(&place).iter().any(|event| event["kind"] == "task_ended"));
    finish(&place).await;
    check_journal(&journal(&place), &["complete", "rejected", "unreviewed"]);
    let tasks = place.json(&["tasks", "list"]);
    check_tasks(&place, tasks.as_array().unwrap(), 1);
    let events = events(&place);
    let mut ends = events.iter().filter(|event| event["kind"] == "task_ended");
    assert!(ends.all(|event| event["late"] == true), "{events:?}");
}

/// Ends of tasks that are in the store, and that the log does not have.
fn owed_ends(place: &TestFolder) -> u32 {
    let path = place.data().join("drawgate.db");
    let store = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sql = "SELECT count(*) FROM owed WHERE body LIKE '%\"task_ended\"%'";
    store.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn events(place: &TestFolder) -> Vec<Value> {
    let log = place.ok(&["audit", "export", "--events-only"]);
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Who was heard is not asked again, and the kills came in all these states.
fn check_journal(lines: &[String], states: &[&str]) {
    let mut heard = BTreeSet::new();
    for line in lines {
        match line.split_once(' ') {
            Some(("heard", what)) => drop(heard.insert(what)),
            Some(("asked", what)) => assert!(!heard.contains(what), "asked again: {what}"),
            _ => {}
        }
    }
    for state in states {
        assert!(lines.contains(&format!("state {state}")), "no kill came after `{state}`");
    }
}

/// Each run has its tasks, each was worked on as often as it was to be, and each end was told once.
fn check_tasks(place: &TestFolder, tasks: &[Value], least_runs: usize) {
    let runs = place.json(&["runs", "list", "--limit", "1000"]);
    let roots: Vec<&Value> =
        runs.as_array().unwrap().iter().filter(|run| run["depth"] == 0).collect();
    assert!(roots.len() >= least_runs, "{}", roots.len());
    for root in roots {
        let id = root["id"].as_str().unwrap();
        assert_eq!(root["ending"], "done", "{id}");
        let shown = place.json(&["runs", "show", id]);
        let steps = shown["steps"].as_array().unwrap();
        let (_, works) = RUNS.iter().find(|(prompt, _)| shown["prompt"] == *prompt).unwrap();
        let own: Vec<&Value> = tasks.iter().filter(|task| task["parentRun"] == id).collect();
        assert_eq!(own.len(), works.len(), "{id}: {own:?} {steps:?}");
        for work in *works {
            let task = own.iter().find(|task| task["prompt"] == work.prompt).unwrap();
            check_task(task, work, steps);
        }
    }
    let events = events(place);
    for kind in ["task_created", "task_ended"] {
        let mut of_kind: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for event in events.iter().filter(|event| event["kind"] == kind) {
            of_kind.entry(event["taskId"].as_str().unwrap()).or_default().push(event);
        }
        assert_eq!(of_kind.len(), tasks.len(), "{kind}");
        assert!(of_kind.values().all(|events| events.len() == 1), "{kind}: {of_kind:?}");
        if kind == "task_ended" {
            for task in tasks {
                let event = of_kind[task["id"].as_str().unwrap()][0];
                assert_eq!(event["state"], task["state"], "{event}");
            }
        }
    }
}

/// A task is over as it is to be, and the run that delegated it was told so once.
fn check_task(task: &Value, work: &Work, steps: &[Value]) {
    assert_eq!(
        (&task["state"], &task["iteration"]),
        (&json!(work.state), &json!(work.iterations)),
        "{task}"
    );
    assert_eq!(task["runs"].as_array().unwrap().len(), work.iterations);
    let questions = task["questions"].as_array().unwrap();
    let hooks: Vec<&str> = questions.iter().map(|it| it["hook"].as_str().unwrap()).collect();
    assert_eq!(hooks, work.hooks, "{task}");
    let from_task = format!("task {}", task["id"].as_str().unwrap());
    let messages = steps.iter().map(|step| &step["body"]["message"]);
    let told: Vec<&Value> = messages.filter(|message| message["from"] == from_task).collect();
    assert_eq!(told.len(), 1, "the run hears of {from_task} once: {told:?}");
    assert!(told[0]["text"].as_str().unwrap().contains(work.told), "{}", told[0]);
}
