//! What plugins `delegation` and `validation` do, whichever host they have. Each row is a conversation with
//! models, and what becomes of the task.

use std::time::Duration;

use drawgate_agents::runs::record::StepBody;
use drawgate_agents::testing::fake_models::Rule;
use serde_json::{Value, json};

use super::support::{Bench, PATIENCE, profile};

const DELEGATE: &str = "delegation__delegate";

/// One row.
struct Row {
    name: &'static str,
    /// What the worker says, and the reviewer.
    rules: Vec<Rule>,
    /// How the task ends: state, iterations, result.
    expected: (&'static str, u64, Option<&'static str>),
    /// What the run that delegated reads, in order: a part of each message.
    told: &'static [&'static str],
}

/// A review of a result, by a tool or as text, as the plugin asks for it.
fn review(of: &str, accepted: bool, feedback: &str) -> [Rule; 2] {
    let answer = json!({ "accepted": accepted, "feedback": feedback });
    let by_text = Rule::text(&answer.to_string()).containing(of);
    [Rule::calls([("return_result", answer)]).with_tool("return_result").containing(of), by_text]
}

fn rows() -> Vec<Row> {
    let work = |answer: &str| Rule::text(answer).containing("the work");
    let again = |answer: &str, feedback: &str| Rule::text(answer).containing(feedback);
    let broken = || Rule::status(400, &[], json!({ "error": { "message": "broken" } }));
    let checkin = [("delegation__checkin", json!({ "message": "half done" }))];
    vec![
        Row {
            name: "rejected twice, then accepted",
            rules: [
                review("first result", false, "too short").to_vec(),
                review("second result", false, "too long").to_vec(),
                review("third result", true, "").to_vec(),
                vec![
                    work("first result"),
                    again("second result", "too short"),
                    again("third result", "too long"),
                ],
            ]
            .concat(),
            expected: ("complete", 3, Some("third result")),
            told: &["third result"],
        },
        Row {
            name: "rejected to the last",
            rules: [
                review("the result", false, "never good").to_vec(),
                vec![work("the result"), again("the result", "never good")],
            ]
            .concat(),
            expected: ("rejected", 3, Some("the result")),
            told: &["never good"],
        },
        Row {
            name: "nobody can review",
            rules: vec![broken().containing("the result"), work("the result")],
            expected: ("unreviewed", 1, Some("the result")),
            told: &["unreviewed"],
        },
        Row {
            name: "the worker fails",
            rules: vec![broken().containing("the work")],
            expected: ("failed", 1, None),
            told: &["failed"],
        },
        Row {
            name: "a check-in on the way",
            rules: [
                review("the result", true, "").to_vec(),
                vec![Rule::calls(checkin).containing("the work").at_turn(0), work("the result")],
            ]
            .concat(),
            expected: ("complete", 1, Some("the result")),
            told: &["half done", "the result"],
        },
    ]
}

/// Checks all rows with plugins that `put_in` puts in.
pub(crate) async fn check_table(put_in: impl AsyncFn(&Bench)) {
    for row in rows() {
        let delegate = json!({ "prompt": "the work", "maxIterations": 3 });
        let mut rules = vec![Rule::text("heard of it").containing("[message from task")];
        rules.extend(row.rules);
        rules.extend([Rule::calls([(DELEGATE, delegate)]).at_turn(0), Rule::text("waiting")]);
        let bench = Bench::new(&[&profile("a", "")], rules).await;
        put_in(&bench).await;
        let (id, end) = bench.run("a", "go").await;
        let run = bench.runs.show(&id).await.unwrap().unwrap();
        assert_eq!(end.text, "heard of it", "{}: {end:?}: {:?}", row.name, run.steps);
        let tasks = bench.plugins.tasks().list().await.unwrap();
        let task = &tasks[0].task;
        let became = (task.state.as_str(), u64::from(task.iteration), task.result.as_deref());
        assert_eq!((tasks.len(), became), (1, row.expected), "{}: {task:?}", row.name);
        let told: Vec<&str> = run
            .steps
            .iter()
            .filter_map(|step| match &step.body {
                StepBody::Message { from: Some(_), text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let is_told = told.len() == row.told.len()
            && told.iter().zip(row.told).all(|(text, part)| text.contains(part));
        assert!(is_told, "{}: {told:?}", row.name);
    }
    check_outside(&put_in).await;
}

/// A caller that is no run asks for its result, and no other one gets it.
async fn check_outside(put_in: impl AsyncFn(&Bench)) {
    let rules = [review("the result", true, "").to_vec(), vec![Rule::text("the result")]].concat();
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    put_in(&bench).await;
    let refused = bench.gate.call("local", DELEGATE, json!({})).await;
    assert!(refused.error.is_some(), "{refused:?}");
    let delegated = bench.gate.call("local", DELEGATE, json!({ "prompt": "work" })).await;
    assert!(delegated.error.is_none(), "{delegated:?}");
    let first = async {
        loop {
            let tasks = bench.plugins.tasks().list().await.unwrap();
            match tasks.first() {
                Some(first) => break first.task.id.clone(),
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let id = tokio::time::timeout(PATIENCE, first).await.unwrap();
    let arguments = json!({ "taskId": id });
    let done = async {
        loop {
            let shown = bench.gate.call("local", "delegation__result", arguments.clone()).await;
            assert!(shown.error.is_none(), "{shown:?}");
            let text = shown.content[0]["text"].as_str().unwrap().to_owned();
            let shown: Value = serde_json::from_str(&text).unwrap();
            if shown["state"] == "complete" {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let shown = tokio::time::timeout(PATIENCE, done).await.unwrap();
    assert_eq!((&shown["taskId"], &shown["result"]), (&json!(id), &json!("the result")));
    let refused = bench.gate.call("stranger", "delegation__result", arguments).await;
    assert!(refused.error.is_some(), "{refused:?}");
}

#[tokio::test]
async fn delegating_says_which_task_it_is_and_refuses_what_can_not_be_done() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::text("the result")]).await;
    bench.put_native("delegation", json!({})).await;
    for bad in [json!({ "prompt": "x", "maxIterations": 21 }), json!({ "prompt": "" })] {
        let refused = bench.gate.call("local", DELEGATE, bad.clone()).await;
        assert!(refused.error.is_some(), "{bad}: {refused:?}");
    }
    let delegated = bench.gate.call("local", DELEGATE, json!({ "prompt": "work" })).await;
    let id = bench.plugins.tasks().list().await.unwrap()[0].task.id.clone();
    assert!(delegated.content[0].to_string().contains(&id), "{delegated:?}");
}

#[tokio::test]
async fn the_plugins_that_come_with_the_gateway_pass_the_table() {
    check_table(async |bench| {
        bench.put_native("delegation", json!({})).await;
        bench.put_native("validation", json!({})).await;
    })
    .await;
}
