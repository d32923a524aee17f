//! A program that does the work of a run, from within its sandbox. The real ones are tested with Node; this
//! one says what it was answered.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use drawgate_agents::testing::fake_models::{Answer, FakeModels, Rule};
use serde_json::{Value, json};

use super::{KEY, config, folder_with};
use crate::support::{TestFolder, eventually};

const WORKER: &str = "---\nname: worker\ndescription: Works\ninvoker: claude\n\
    tools: [vfs_write]\n---\nWork.\n";

/// A folder with the program, which is called Claude Code.
fn workplace(fake: &FakeModels) -> TestFolder {
    let spare = config(fake, "env:MODEL_KEY").replace("[providers.fake]", "[providers.spare]");
    let spare = spare.split("[models]").next().unwrap_or_default().to_owned();
    let text = format!(
        "{}{spare}[invokers.claude]\ncommand = \"bin/worker.py\"\n",
        config(fake, "env:MODEL_KEY")
    );
    let place = folder_with(&text, &[("worker.md", WORKER)]);
    let bin = place.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let program = bin.join("worker.py");
    fs::write(&program, include_str!("worker.py")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    place
}

async fn run(place: &TestFolder, prompt: &str, more: &[&str]) -> Value {
    let args = [&["run", "worker", prompt, "--detach"], more].concat();
    let id = place.ok(&args).trim().to_owned();
    eventually("it ends", async || {
        let shown = place.json(&["runs", "show", &id]);
        (shown["phase"] == "ended").then_some(shown)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_has_its_model_and_its_tools_and_nothing_else() {
    let fake = FakeModels::start_with_key(vec![Rule::text("hello")], KEY.1).await.unwrap();
    let place = workplace(&fake);
    let gateway = place.serve_with(|command| {
        command.env(KEY.0, KEY.1);
    });
    let shown = run(&place, "work", &[]).await;
    assert_eq!(shown["ending"], "done", "{shown}");
    let found: Value = serde_json::from_str(shown["text"].as_str().unwrap()).unwrap();
    assert_eq!(found["token on argv"], json!(false));
    assert_eq!(found["asked"], json!([200, 200]), "{found}");
    let called = found["called"].as_str().unwrap();
    assert!(called.contains("\"result\"") && !called.contains("isError"), "{called}");
    assert!(found["hidden"].as_str().unwrap().contains("unknown tool"), "{found}");
    let refused = json!({
        "no token": 401, "forged": 401, "other model": 403, "other provider": 403,
        "other path": 404, "outside": 404, "approval page": 404,
    });
    assert_eq!(found["refused"], refused);
    // What was asked was asked with the real key, for as much as the model may write, and counted.
    let requests = fake.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    for request in &requests {
        assert_eq!(request.header("x-api-key"), Some(KEY.1));
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.body["max_tokens"], json!(8000));
    }
    let served = fake.served();
    assert_eq!(shown["used"]["tokens"], json!(served.input + served.output), "{shown}");
    // Both calls are steps, under their own numbers; what is hidden was refused by the gate.
    let steps = shown["steps"].as_array().unwrap();
    let calls: Vec<&Value> = steps.iter().map(|step| &step["body"]["call"]).collect();
    let calls: Vec<&&Value> = calls.iter().filter(|call| !call.is_null()).collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(shown["used"]["toolCalls"], json!(2));
    let kept = shown["steps"].to_string();
    assert!(kept.contains("note.txt") && !kept.contains("by the worker"), "{kept}");
    let log = place.ok(&["audit", "export", "--events-only"]);
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes = events.iter().filter(|event| event["kind"] == "outcome");
    let runs: Vec<&Value> = outcomes.map(|event| &event["runId"]).collect();
    assert_eq!(runs, [&shown["id"], &shown["id"]], "whatever the program says");
    assert!(!log.contains("by the worker"), "{log}");
    assert!(events.iter().any(|event| event["invoker"] == "claude"), "{log}");
    assert!(!place.data().join("runs").join(shown["id"].as_str().unwrap()).exists());
    drop(gateway);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_whose_budget_is_used_up_is_answered_402() {
    let fake = FakeModels::start_with_key(vec![Rule::text("hello")], KEY.1).await.unwrap();
    let place = workplace(&fake);
    let gateway = place.serve_with(|command| {
        command.env(KEY.0, KEY.1);
    });
    let shown = run(&place, "for ever", &["--tokens", "500"]).await;
    assert_eq!(shown["ending"], "budget", "{shown}");
    let found: Value = serde_json::from_str(shown["text"].as_str().unwrap()).unwrap();
    assert_eq!(found["status"], json!(402));
    assert!(found["said"].as_str().unwrap().contains("tokens has no room"), "{found}");
    let served = fake.served();
    assert!(served.input + served.output <= 500 && served.output > 0, "{served:?}");
    let shown = run(&place, "work", &["--tool-calls", "1"]).await;
    assert_eq!(shown["ending"], "budget", "{shown}");
    assert!(shown["reason"].as_str().unwrap().contains("tool calls"), "{shown}");
    drop(gateway);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_a_program_gave_up_takes_its_place_until_its_model_has_answered() {
    let reply = Box::new(Answer::Text("late".to_owned()));
    let held = Rule::new(Answer::Held { until: "given up".to_owned(), reply });
    let fake = FakeModels::start_with_key(vec![held], KEY.1).await.unwrap();
    let place = workplace(&fake);
    let gateway = place.serve_with(|command| {
        command.env(KEY.0, KEY.1);
    });
    let release = async {
        let then = place.data().join("workspace/then.json");
        let then = eventually("it tries again", async || fs::read_to_string(&then).ok()).await;
        assert_eq!(then, json!(vec![429; 10]).to_string().replace(',', ", "));
        fake.release("given up");
    };
    let (shown, ()) = tokio::join!(run(&place, "give up", &["--tokens", "10000000"]), release);
    assert_eq!(shown["ending"], "done", "{shown}");
    drop(gateway);
}
