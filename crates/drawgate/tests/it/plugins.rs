//! Plugins as an operator meets them: checked, added, put to work, set and removed, while the gateway runs.

use std::fs;
use std::path::{Path, PathBuf};

use drawgate_agents::model::Api;
use drawgate_agents::testing::fake_models::{FakeModels, Rule};
use serde_json::{Value, json};

use crate::load::{events, fixture};
use crate::support::{Gateway, TestFolder, eventually, text};

/// A plugin in JavaScript with a tool, a guard, and something to break.
const GUARD: &str = r"
export const plugin = {
  name: 'guard',
  version: '1.0.0',
  register: async (ctx) => ({
    beforeCall: async (call) => {
      if (call.arguments.path === '.env') return { refuse: ctx.config.reason ?? 'not that file' };
    },
  }),
  tools: [{
    name: 'where',
    description: 'Says in which conversation it is called',
    schema: { type: 'object', properties: { exit: { type: 'boolean' } } },
    handler: async (ctx, input, meta) => {
      if (input.exit) process.exit(1);
      return `thread ${meta.threadId}`;
    },
  }],
};
";

fn manifest(name: &str, more: &Value) -> Value {
    let mut manifest =
        json!({ "name": name, "version": "1.0.0", "main": "main.mjs", "runtime": "node" });
    for (key, value) in more.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    manifest
}

/// A folder with the guard.
fn guard(place: &TestFolder) -> PathBuf {
    let folder = place.path().join("guard");
    fs::create_dir_all(&folder).unwrap();
    let permissions = json!({ "permissions": { "hooks": ["beforeCall"] } });
    let manifest = manifest("guard", &permissions).to_string();
    fs::write(folder.join("drawgate-plugin.json"), manifest).unwrap();
    fs::write(folder.join("main.mjs"), GUARD).unwrap();
    folder
}

fn add(place: &TestFolder, folder: &Path) -> String {
    place.ok(&["plugins", "add", folder.to_str().unwrap(), "--yes"])
}

async fn read_env(gateway: &Gateway) -> String {
    gateway.call(&gateway.token, "vfs_read", json!({ "path": ".env" })).await.to_string()
}

async fn offered(gateway: &Gateway, tool: &str, is_wanted: bool) {
    eventually(tool, async || {
        let names = gateway.tool_names(&gateway.token).await;
        (names.contains(&tool.to_owned()) == is_wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_plugin_comes_and_goes_while_the_gateway_runs() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    let folder = guard(&place);
    assert!(!read_env(&gateway).await.contains("refuses"));
    let said = add(&place, &folder);
    assert!(said.contains("`guard` is at work: `guard__where`"), "{said}");
    offered(&gateway, "guard__where", true).await;
    let where_ = gateway.call(&gateway.token, "guard__where", json!({})).await;
    assert!(
        where_["content"][0]["text"].as_str().unwrap().starts_with("thread caller-"),
        "{where_}"
    );
    assert!(read_env(&gateway).await.contains("`guard` refuses it: not that file"));

    place.ok(&["plugins", "set", "guard", "--settings", r#"{"reason": "because I say so"}"#]);
    assert!(read_env(&gateway).await.contains("because I say so"));
    place.ok(&["plugins", "set", "guard", "--hook", "before_call", "--mode", "audit"]);
    assert!(!read_env(&gateway).await.contains("refuses"), "only written down");
    place.ok(&["plugins", "set", "guard", "--hook", "before_call", "--mode", "enforce"]);
    assert!(read_env(&gateway).await.contains("because I say so"));

    place.ok(&["plugins", "disable", "guard"]);
    assert!(!read_env(&gateway).await.contains("refuses"));
    offered(&gateway, "guard__where", false).await;
    place.ok(&["plugins", "enable", "guard"]);
    assert!(read_env(&gateway).await.contains("because I say so"), "settings stay");

    // What counts is the copy, not the folder.
    fs::write(folder.join("main.mjs"), "not JavaScript").unwrap();
    gateway.terminate();
    let gateway = place.serve();
    assert!(read_env(&gateway).await.contains("because I say so"), "at work from the start");

    place.ok(&["plugins", "remove", "guard"]);
    assert!(!read_env(&gateway).await.contains("refuses"));
    let kinds: Vec<Value> = events(&place).into_iter().map(|event| event["kind"].clone()).collect();
    for kind in [
        "plugin_added",
        "plugin_enabled",
        "plugin_disabled",
        "plugin_configured",
        "plugin_removed",
        "hook_objected",
    ] {
        assert!(kinds.contains(&json!(kind)), "{kind}: {kinds:?}");
    }
    let names: Vec<Value> = place
        .json(&["plugins", "list"])
        .as_array()
        .unwrap()
        .iter()
        .map(|plugin| plugin["name"].clone())
        .collect();
    assert_eq!(names, ["delegation", "validation"]);
}

#[test]
fn a_check_loads_a_plugin_and_one_that_is_added_again_shows_what_has_changed() {
    let place = TestFolder::new("");
    let folder = guard(&place);
    let check = || place.run(&["plugins", "check", folder.to_str().unwrap()]);
    let out = check();
    let said = text(&out.stdout);
    assert!(out.status.success() && said.contains("tools         where\n"), "{said}");
    fs::write(folder.join("main.mjs"), format!("{GUARD}\nno luck")).unwrap();
    let out = check();
    let said = text(&out.stdout);
    assert!(!out.status.success() && said.contains("(main.mjs:21)"), "{said}");
    assert!(!place.data().exists(), "a check leaves no data folder behind");

    fs::write(folder.join("main.mjs"), GUARD).unwrap();
    let said = add(&place, &folder);
    assert!(!said.contains("file `"), "{said}");
    let changed = GUARD.replace("name: 'where',", "name: \"where\",");
    fs::write(folder.join("main.mjs"), changed).unwrap();
    let said = add(&place, &folder);
    let change = "changed file `main.mjs`:\n";
    let lines = "\n  -     name: 'where',\n  +     name: \"where\",\n";
    assert!(said.contains(change) && said.contains(lines), "{said}");
}

#[tokio::test]
async fn a_guard_that_can_not_be_started_lets_nothing_pass() {
    let place = TestFolder::new("");
    add(&place, &guard(&place));
    let copies = place.data().join("plugins");
    let copy = fs::read_dir(&copies).unwrap().next().unwrap().unwrap().path();
    fs::write(copy.join("main.mjs"), GUARD.replace("not that file", "tampered")).unwrap();
    let gateway = place.serve();
    let refused = read_env(&gateway).await;
    assert!(refused.contains("the hook `guard` failed"), "{refused}");
    let listed = place.json(&["plugins", "show", "guard"]);
    assert_eq!(listed["state"], "failed");
    assert!(
        listed["problem"].as_str().unwrap().contains("are not those that were added"),
        "{listed}"
    );
    assert!(events(&place).iter().any(|event| event["kind"] == "plugin_failed"));
    // The operator adds it again, and it is at work.
    add(&place, &guard(&place));
    assert!(read_env(&gateway).await.contains("not that file"));
}

#[tokio::test]
async fn what_is_refused_at_load_changes_nothing() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    add(&place, &guard(&place));
    let folder = guard(&place);
    fs::write(folder.join("main.mjs"), GUARD.replace("name: 'where'", "name: 'not a name'"))
        .unwrap();
    let out = place.run(&["plugins", "add", folder.to_str().unwrap(), "--yes"]);
    assert!(!out.status.success());
    let said = text(&out.stderr);
    assert!(
        said.contains("guard") && said.contains("not a name") && said.contains("name"),
        "{said}"
    );
    assert!(read_env(&gateway).await.contains("not that file"), "the earlier one is at work");
    for (wrong, expected) in [
        (vec!["plugins", "add", "/no/such/folder", "--yes"], "/no/such/folder"),
        (vec!["plugins", "enable", "nothing"], "there is no plugin `nothing`"),
        (vec!["plugins", "remove", "delegation"], "drawgate plugins disable delegation"),
        (vec!["plugins", "set", "guard"], "say what to change"),
        (vec!["plugins", "set", "guard", "--settings", "[]"], "must be a JSON object"),
        (vec!["plugins", "set", "guard", "--mode", "audit"], "--hook"),
    ] {
        let out = place.run(&wrong);
        let said = text(&out.stderr);
        assert!(!out.status.success() && said.contains(expected), "{wrong:?}: {said}");
    }
}

#[tokio::test]
async fn a_plugin_that_dies_comes_back() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    add(&place, &guard(&place));
    offered(&gateway, "guard__where", true).await;
    let died = gateway.call(&gateway.token, "guard__where", json!({ "exit": true })).await;
    assert_eq!(died["isError"], true, "{died}");
    eventually("it is back", async || {
        let answer = gateway.call(&gateway.token, "guard__where", json!({})).await;
        answer.to_string().contains("thread caller-").then_some(())
    })
    .await;
    assert!(read_env(&gateway).await.contains("not that file"));
}

/// Writes down every hook, and announces something.
const WITNESS: &str = r"
import { appendFileSync } from 'node:fs';
const note = (hook, ...rest) => appendFileSync(`${process.env.HOME}/heard.jsonl`, JSON.stringify([hook, ...rest]) + '\n');
export const plugin = {
  name: 'witness',
  version: '1.0.0',
  register: async (ctx) => ({
    onMessage: async (threadId, role, content) => note('onMessage', threadId, role, content),
    onBeforeInvoke: async (threadId, prompt) => {
      note('onBeforeInvoke', threadId, prompt);
      return `${prompt} (politely)`;
    },
    onAfterInvoke: async (threadId, result) => note('onAfterInvoke', threadId, result.output),
    onTaskCreate: async (threadId, taskId) => note('onTaskCreate', threadId, taskId),
    onTaskComplete: async (threadId, taskId, result) => {
      note('onTaskComplete', threadId, taskId, result);
      return { accepted: true };
    },
    onTaskFailed: async (threadId, taskId, error) => note('onTaskFailed', threadId, taskId, String(error.message ?? error)),
    onBroadcast: async (event, data) => note('onBroadcast', event, data),
  }),
};
";

/// Announces what it is told to.
const CRIER: &str = r"
export const plugin = {
  name: 'crier',
  version: '1.0.0',
  register: async () => ({}),
  tools: [{
    name: 'announce',
    description: 'Announces something to all plugins',
    schema: { type: 'object' },
    handler: async (ctx, input, meta) => {
      await ctx.broadcast('news', { from: meta.threadId });
      return 'announced';
    },
  }],
};
";

fn plugin_folder(place: &TestFolder, name: &str, code: &str, more: &Value) -> PathBuf {
    let folder = place.path().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("drawgate-plugin.json"), manifest(name, more).to_string()).unwrap();
    fs::write(folder.join("main.mjs"), code).unwrap();
    folder
}

/// What the witness has heard, by hook.
fn heard(place: &TestFolder, hook: &str) -> Vec<Vec<Value>> {
    let text = fs::read_to_string(place.data().join("servers/plugin@witness/heard.jsonl"));
    let lines = text.unwrap_or_default();
    let all = lines.lines().map(|line| serde_json::from_str::<Vec<Value>>(line).unwrap());
    all.filter(|heard| heard[0] == hook).map(|heard| heard[1..].to_vec()).collect()
}

/// A gateway with the witness and the crier, in which an agent has delegated two tasks and made an announcement.
async fn witnessed_work() -> (TestFolder, Gateway, FakeModels) {
    let calls = [
        ("delegation__delegate", json!({ "prompt": "good work" })),
        ("delegation__delegate", json!({ "prompt": "bad work" })),
        ("crier__announce", json!({})),
    ];
    let broken = Rule::status(400, &[], json!({ "error": { "message": "no such thing" } }));
    let fake = FakeModels::start(vec![
        Rule::text("heard of it").containing("[message from task"),
        Rule::text("good result").containing("good work"),
        broken.containing("bad work"),
        Rule::calls(calls).at_turn(0),
        Rule::text("waiting"),
    ])
    .await
    .unwrap();
    let place = TestFolder::new(&format!(
        "[providers.fake]\nkind = \"anthropic\"\nurl = \"{}\"\n[models]\ndefault = \"fake/small\"\n",
        fake.url(Api::Anthropic)
    ));
    fs::create_dir(place.path().join("agents")).unwrap();
    let profile = "---\nname: boss\ndescription: Delegates\n---\nDelegate.\n";
    fs::write(place.path().join("agents/boss.md"), profile).unwrap();
    place.ok(&["profiles", "accept", "--all", "--yes"]);
    let gateway = place.serve();
    let hooks = json!({ "permissions": { "hooks": [
        "onMessage", "onBeforeInvoke", "onAfterInvoke", "onTaskCreate", "onTaskComplete",
        "onTaskFailed", "onBroadcast",
    ] } });
    add(&place, &plugin_folder(&place, "witness", WITNESS, &hooks));
    add(&place, &plugin_folder(&place, "crier", CRIER, &json!({})));
    place.ok(&["plugins", "enable", "delegation"]);
    let run = tokio::task::spawn_blocking({
        let mut command = place.command(&["run", "boss", "Do it"]);
        move || command.output().unwrap()
    });
    let run = run.await.unwrap();
    assert_eq!(
        text(&run.stdout).trim_end().lines().last(),
        Some("heard of it"),
        "{}",
        text(&run.stderr)
    );
    (place, gateway, fake)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_seven_hooks_are_asked_with_the_real_conversations() {
    let (place, _gateway, fake) = witnessed_work().await;
    let runs = place.json(&["runs", "list"]);
    let root =
        runs.as_array().unwrap().iter().find(|run| run["profile"] == "boss" && run["depth"] == 0);
    let thread = root.unwrap()["thread"].clone();
    let tasks = place.json(&["tasks", "list"]);
    let task_of = |state: &str| {
        let found = tasks.as_array().unwrap().iter().find(|task| task["state"] == state);
        found.unwrap_or_else(|| panic!("{state}: {tasks}"))["id"].clone()
    };
    let (good, bad) = (task_of("complete"), task_of("failed"));
    eventually("the end is told", async || {
        (heard(&place, "onAfterInvoke").len() >= 3).then_some(())
    })
    .await;
    let prompts = heard(&place, "onBeforeInvoke");
    assert!(prompts.contains(&vec![thread.clone(), json!("Do it")]), "{prompts:?}");
    let asked: Vec<String> =
        fake.requests().iter().map(|request| request.body.to_string()).collect();
    assert!(
        asked[0].contains("Do it (politely)"),
        "the rewritten prompt is what is asked: {}",
        asked[0]
    );
    let messages = heard(&place, "onMessage");
    assert!(
        messages.contains(&vec![thread.clone(), json!("user"), json!("Do it (politely)")]),
        "{messages:?}"
    );
    assert!(
        messages.contains(&vec![thread.clone(), json!("assistant"), json!("heard of it")]),
        "{messages:?}"
    );
    let created = heard(&place, "onTaskCreate");
    for task in [&good, &bad] {
        assert_eq!(created.iter().filter(|heard| heard[1] == *task).count(), 1, "{created:?}");
    }
    let complete = heard(&place, "onTaskComplete");
    assert_eq!(complete, [[good.clone(), good.clone(), json!("good result")]]);
    let failed = heard(&place, "onTaskFailed");
    assert!(failed.len() == 1 && failed[0][1] == bad, "{failed:?}");
    assert_eq!(heard(&place, "onBroadcast"), [[json!("news"), json!({ "from": thread })]]);
}

/// A folder with the guard under another name.
fn guard_named(place: &TestFolder, name: &str) -> PathBuf {
    let folder = place.path().join(format!("{name}-folder"));
    fs::create_dir_all(&folder).unwrap();
    let permissions = json!({ "permissions": { "hooks": ["beforeCall"] } });
    let manifest = manifest(name, &permissions).to_string();
    fs::write(folder.join("drawgate-plugin.json"), manifest).unwrap();
    fs::write(folder.join("main.mjs"), GUARD.replace("'guard'", &format!("'{name}'"))).unwrap();
    folder
}

#[tokio::test]
async fn a_plugin_takes_no_name_that_another_source_has() {
    let place = TestFolder::new(&fixture());
    let refused = |name: &str, holder: &str| {
        let folder = guard_named(&place, name);
        let out = place.run(&["plugins", "add", folder.to_str().unwrap(), "--yes"]);
        let said = text(&out.stderr);
        assert!(!out.status.success() && said.contains(holder), "{name}: {said}");
        let names = place.json(&["plugins", "list"]).to_string();
        assert!(!names.contains(&format!("\"{name}\"")), "{names}");
    };
    let table = [
        ("fixture", "`fixture` is a server of the gateway"),
        ("f1xture", "`f1xture` looks like `fixture`, which is a server of the gateway"),
        ("builtin", "`builtin` is a server of the gateway"),
        ("agents", "`agents` is a server of the gateway"),
        ("profile-x", "kept for `[[hooks]]` and profiles"),
        ("de1egation", "`de1egation` looks like the plugin `delegation`"),
    ];
    // Without a gateway, and with one.
    for (name, holder) in table {
        refused(name, holder);
    }
    let gateway = place.serve();
    offered(&gateway, "fixture__echo", true).await;
    for (name, holder) in table {
        refused(name, holder);
    }
    // A server that is removed frees its name at once.
    place.ok(&["servers", "remove", "fixture"]);
    add(&place, &guard_named(&place, "fixture"));
    offered(&gateway, "fixture__where", true).await;
    place.ok(&["plugins", "remove", "fixture"]);
    add(&place, &guard_named(&place, "f1xture"));
}

#[tokio::test]
async fn a_configured_server_goes_before_a_plugin_of_its_name() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    add(&place, &guard_named(&place, "fixture"));
    offered(&gateway, "fixture__where", true).await;
    place.configure(&fixture());
    offered(&gateway, "fixture__echo", true).await;
    offered(&gateway, "fixture__where", false).await;
    let refused = read_env(&gateway).await;
    assert!(refused.contains("the hook `fixture` failed"), "no call passes its guard: {refused}");
    // The same after a start.
    gateway.terminate();
    let gateway = place.serve();
    offered(&gateway, "fixture__echo", true).await;
    let shown = place.json(&["plugins", "show", "fixture"]);
    assert_eq!(shown["state"], "failed", "{shown}");
    let problem = shown["problem"].as_str().unwrap();
    assert!(problem.contains("`fixture` is a server of the gateway"), "{problem}");
    offered(&gateway, "fixture__where", false).await;
}
