//! Agents that the gateway runs, as a person and as other programs use them.

mod examples;
mod kills;
mod once;
mod programs;
mod task_kills;
mod telemetry;
mod tools;

use std::fs;

use drawgate_agents::model::Api;
use drawgate_agents::testing::fake_models::{Answer, FakeModels, Rule};
use serde_json::{Value, json};

use crate::load::{fixture, offers};
use crate::support::{TestFolder, eventually, text};

/// A profile that writes a file and says so.
const HELPER: &str = "---\nname: helper\ndescription: Writes notes\ntools: [vfs_write, vfs_read]\n\
    ceiling: [file.write, file.read]\nbudget: {tokens: 50000}\n---\nWrite down what you are told.\n";

fn helper_script() -> Vec<Rule> {
    let note = json!({ "path": "note.txt", "content": "remember" });
    vec![Rule::calls([("vfs_write", note)]).at_turn(0), Rule::text("It is written down.")]
}

/// A folder with a fake provider and profiles that are accepted.
fn folder(fake: &FakeModels, profiles: &[(&str, &str)]) -> TestFolder {
    folder_with(&config(fake, "env:MODEL_KEY"), profiles)
}

fn folder_with(config: &str, profiles: &[(&str, &str)]) -> TestFolder {
    let place = TestFolder::new(config);
    fs::create_dir(place.path().join("agents")).unwrap();
    for (name, content) in profiles {
        fs::write(place.path().join("agents").join(name), content).unwrap();
    }
    place.ok(&["profiles", "accept", "--all", "--yes"]);
    place
}

fn config(fake: &FakeModels, key: &str) -> String {
    format!(
        "[providers.fake]\nkind = \"anthropic\"\nurl = \"{}\"\nkey = \"{key}\"\n\
         models.small = {{ usd_per_million = {{ input = 3.0, output = 15.0 }} }}\n\
         [models]\ndefault = \"fake/small\"\n",
        fake.url(Api::Anthropic)
    )
}

const KEY: (&str, &str) = ("MODEL_KEY", "key-of-the-fake-provider");

/// Runs a command with the provider's key in the environment.
async fn with_key(place: &TestFolder, args: &[&str]) -> (bool, String, String) {
    let mut command = place.command(args);
    command.env(KEY.0, KEY.1);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_runs_from_its_file_to_its_result() {
    let fake = FakeModels::start_with_key(helper_script(), KEY.1).await.unwrap();
    let place = folder(&fake, &[("helper.md", HELPER)]);
    let (ok, out, err) = with_key(&place, &["run", "helper", "Remember the milk"]).await;
    assert!(ok, "{out}{err}");
    assert_eq!(out.trim(), "It is written down.");
    assert!(err.contains("-> vfs_write") && err.contains("<- vfs_write"), "{err}");
    assert!(err.contains("done: ") && err.contains(" from the cache), $"), "{err}");
    let runs = place.json(&["runs", "list"]);
    let id = runs[0]["id"].as_str().unwrap();
    assert!(err.starts_with(&format!("drawgate: run {id} of `helper`")), "{err}");
    assert_eq!((&runs[0]["ending"], &runs[0]["profile"]), (&json!("done"), &json!("helper")));
    let shown = place.ok(&["runs", "show", id]);
    assert!(shown.contains("called vfs_write") && shown.contains("It is written down."), "{shown}");
    assert!(shown.contains(" from the cache)] It is written down."), "{shown}");
    let log = place.ok(&["audit", "export", "--events-only"]);
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<&Value> = events.iter().filter(|event| event["kind"] == "outcome").collect();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!((&calls[0]["runId"], &calls[0]["agent"]), (&json!(id), &json!("helper")));
    for kind in ["run_started", "run_ended"] {
        assert_eq!(events.iter().filter(|event| event["kind"] == kind).count(), 1, "{kind}");
    }
    // The key is nowhere.
    assert!(!log.contains(KEY.1) && !err.contains(KEY.1) && !shown.contains(KEY.1));
    assert_eq!(fake.requests()[0].header("x-api-key"), Some(KEY.1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_say_what_to_do() {
    let fake = FakeModels::start(vec![Rule::text("hello")]).await.unwrap();
    let place = folder(&fake, &[("helper.md", HELPER)]);
    let new = HELPER.replace("name: helper", "name: newcomer");
    fs::write(place.path().join("agents/newcomer.md"), new).unwrap();
    let cases = [
        (vec!["run", "helpr", "x"], "there is no profile `helpr`"),
        (vec!["run", "newcomer", "x"], "`drawgate profiles accept newcomer`"),
        (vec!["run", "helper", "x"], "MODEL_KEY"),
        (vec!["run", "helper", "x", "--model", "nosuch/model"], "unknown model `nosuch/model`"),
        (vec!["run", "helper", "x", "--detach"], "`drawgate serve`"),
        (vec!["runs", "show", "nosuch"], "there is no run `nosuch`"),
        (vec!["threads", "say", "nosuch", "x"], "there is no thread `nosuch`"),
    ];
    for (args, said) in cases {
        let output = place.run(&args);
        let err = text(&output.stderr);
        assert!(!output.status.success() && err.contains(said), "{args:?}: {err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_without_its_terminal_and_can_be_cancelled() {
    let rules = vec![Rule::new(Answer::Hang).containing("forever"), Rule::text("done")];
    let fake = FakeModels::start(rules).await.unwrap();
    let place = folder(&fake, &[("helper.md", HELPER)]);
    let gateway = place.serve_with(|command| {
        command.env(KEY.0, KEY.1);
    });
    let id = place.ok(&["run", "helper", "forever", "--detach"]).trim().to_owned();
    let phase = || place.json(&["runs", "show", &id])["phase"].as_str().unwrap().to_owned();
    eventually("it asks the model", async || (phase() == "thinking").then_some(())).await;
    place.ok(&["runs", "cancel", &id]);
    eventually("it ends", async || (phase() == "ended").then_some(())).await;
    let shown = place.json(&["runs", "show", &id]);
    assert_eq!(
        (&shown["ending"], &shown["reason"]),
        (&json!("cancelled"), &json!("cancelled by `local`"))
    );
    let again = place.run(&["runs", "cancel", &id]);
    assert!(text(&again.stderr).contains("is not at work"), "{again:?}");
    // A conversation goes on where it was.
    place.ok(&["threads", "say", &id, "and now something short"]);
    let threads = place.json(&["threads", "list"]);
    assert_eq!((&threads[0]["id"], &threads[0]["runs"]), (&json!(id), &json!(2)));
    let last = fake.requests().last().unwrap().body["messages"].to_string();
    assert!(last.contains("forever") && last.contains("something short"), "{last}");
    drop(gateway);
}

/// A profile that calls the fixture.
const WAITER: &str = "---\nname: waiter\ndescription: Waits\ntools: [fixture__wait]\n\
    ceiling: [source.fixture]\n---\nWait.\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_stops_lets_the_calls_of_runs_end() {
    let files = tempfile::tempdir().unwrap();
    let (begun, until) = (files.path().join("begun"), files.path().join("until"));
    let wait = json!({ "begun": begun, "until": until });
    let rules = vec![Rule::calls([("fixture__wait", wait)]).at_turn(0), Rule::text("done")];
    let fake = FakeModels::start(rules).await.unwrap();
    let own = format!("{}{}", config(&fake, "env:MODEL_KEY"), fixture());
    let place = folder_with(&own, &[("waiter.md", WAITER)]);
    let serve = || {
        place.serve_with(|command| {
            command.env(KEY.0, KEY.1);
        })
    };
    let gateway = serve();
    offers(&gateway, "fixture__wait").await;
    let id = place.ok(&["run", "waiter", "wait", "--detach"]).trim().to_owned();
    eventually("the call", async || begun.exists().then_some(())).await;
    let stopped = tokio::task::spawn_blocking(move || gateway.terminate());
    eventually("the signal", async || place.log().contains("stopping").then_some(())).await;
    fs::write(&until, "").unwrap();
    assert_eq!(stopped.await.unwrap(), Some(0));
    assert_eq!(fake.requests().len(), 1, "a run takes no step while the gateway stops");
    let _gateway = serve();
    eventually("its end", async || {
        (place.json(&["runs", "show", &id])["phase"] == "ended").then_some(())
    })
    .await;
    let heard = fake.requests().last().unwrap().body["messages"].to_string();
    assert!(heard.contains("waited"), "{heard}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_to_an_agent_at_work_reaches_it_even_over_a_kill() {
    let rules = vec![Rule::text("heard").containing("psst"), Rule::new(Answer::Hang)];
    let fake = FakeModels::start(rules).await.unwrap();
    let place = folder(&fake, &[("helper.md", HELPER)]);
    let serve = || {
        place.serve_with(|command| {
            command.env(KEY.0, KEY.1);
        })
    };
    let mut gateway = serve();
    let id = place.ok(&["run", "helper", "go", "--detach"]).trim().to_owned();
    eventually("the model is asked", async || (fake.requests().len() == 1).then_some(())).await;
    let mut say = place.command(&["threads", "say", &id, "psst"]);
    let mut say = say.spawn().unwrap();
    let inbox = || {
        let database = rusqlite::Connection::open(place.data().join("drawgate.db")).unwrap();
        let count = "select count(*) from document where kind = 'run_inbox'";
        database.query_row(count, [], |row| row.get::<_, u32>(0)).unwrap()
    };
    eventually("the message is stored", async || (inbox() == 1).then_some(())).await;
    gateway.child.kill().unwrap();
    gateway.child.wait().unwrap();
    say.wait().unwrap();
    let gateway = serve();
    let shown = eventually("the run ends", async || {
        let shown = place.json(&["runs", "show", &id]);
        (shown["phase"] == "ended").then_some(shown)
    })
    .await;
    assert_eq!((&shown["ending"], &shown["text"]), (&json!("done"), &json!("heard")));
    assert_eq!(inbox(), 0);
    assert_eq!(gateway.terminate(), Some(0));
    assert!(place.ok(&["tasks", "list"]).contains("no tasks yet"));
    let unknown = place.run(&["tasks", "show", "nosuch"]);
    assert!(text(&unknown.stderr).contains("`drawgate tasks list`"), "{unknown:?}");
}
