//! What outlives a process, what is cancelled, and what permissions open.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use drawgate_agents::plugin::Plugin;
use drawgate_agents::plugin::process::{ProcessLimits, ProcessPlugin, ProcessSettings};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Machine, call, fixture, text, until};

const MANIFEST: &str =
    r#"{"name": "fragile", "version": "1.0.0", "main": "main.mjs", "runtime": "node"}"#;

/// A plugin that ends on demand, and whose tools depend on what is in its home.
const FRAGILE: &str = "
import { existsSync, writeFileSync } from 'node:fs';
const changed = existsSync(`${process.env.HOME}/changed`);
const tool = (name, handler) => ({ name, description: 'A tool', schema: { type: 'object' }, handler });
export const plugin = {
  name: 'fragile',
  version: '1.0.0',
  register: () => ({}),
  start: (ctx) => ctx.broadcast('told', 'start'),
  tools: [
    tool(changed ? 'other' : 'echo', () => 'echo'),
    tool('die', () => process.exit(3)),
    tool('change', () => { writeFileSync(`${process.env.HOME}/changed`, ''); process.exit(4); }),
    tool('wait', (ctx, _input, { signal }) => new Promise(() => {
      signal.addEventListener('abort', () => ctx.broadcast('told', `aborted: ${signal.reason.message}`));
      ctx.broadcast('told', 'waiting');
    })),
  ],
};
";

fn fragile(machine: &Machine) -> ProcessSettings {
    let folder =
        machine.write("fragile", &[("drawgate-plugin.json", MANIFEST), ("main.mjs", FRAGILE)]);
    let first_pause = Duration::from_millis(10);
    let limits =
        ProcessLimits { first_pause, longest_pause: first_pause, ..ProcessLimits::default() };
    ProcessSettings { limits, node: None, ..machine.settings(&folder) }
}

#[tokio::test]
async fn a_process_that_follows_begins_its_work_too() {
    let machine = Machine::new();
    let (plugin, recorder) = machine.load_with(fragile(&machine)).await.unwrap();
    plugin.start().await.unwrap();
    let error = call(&plugin, "die", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "the plugin `fragile` was lost: it exited with code 3");
    // The call waits for the process that follows.
    assert_eq!(text(&call(&plugin, "echo", json!({})).await.unwrap()), "echo");
    assert_eq!(recorder.asked(), ["told start", "told start"]);
    plugin.stop().await;
}

#[tokio::test]
async fn a_process_that_declares_something_else_is_not_used() {
    let machine = Machine::new();
    let (plugin, _recorder) = machine.load_with(fragile(&machine)).await.unwrap();
    call(&plugin, "change", json!({})).await.unwrap_err();
    until("it is given up", || plugin.report().state == "given_up").await;
    let reason = "it declares other tools or hooks than when it was loaded";
    assert_eq!(plugin.report().last_error.as_deref(), Some(reason));
    assert!(call(&plugin, "other", json!({})).await.is_err());
    plugin.stop().await;
}

#[tokio::test]
async fn a_plugin_hears_that_its_caller_gave_up() {
    let machine = Machine::new();
    let (plugin, recorder) = machine.load_with(fragile(&machine)).await.unwrap();
    let waiting = async { call(&plugin, "wait", json!({})).await.map(drop) };
    tokio::select! {
        ended = waiting => panic!("{ended:?}"),
        () = recorder.until("told waiting") => {}
    }
    recorder.until("told aborted: the caller gave up").await;
    // It answers pings, so that it stays.
    assert_eq!(text(&call(&plugin, "echo", json!({})).await.unwrap()), "echo");
    assert_eq!(plugin.report().restarts, 0);
    plugin.stop().await;
}

#[tokio::test]
async fn many_calls_at_once_are_answered_each_with_its_own() {
    let machine = Machine::new();
    for name in ["everything", "python"] {
        let (plugin, _recorder) = machine.load(&fixture(name)).await.unwrap();
        let inputs: Vec<String> = (0..300).map(|number| format!("call {number}")).collect();
        let calls = inputs.iter().map(|input| call(&plugin, "where", json!({ "text": input })));
        for (input, output) in inputs.iter().zip(join_all(calls).await) {
            assert_eq!(text(&output.unwrap()), format!("{input} thread-1 no task"));
        }
        plugin.stop().await;
    }
}

#[tokio::test]
async fn javascript_runs_on_every_node_in_each_form() {
    let definition = "{name: 'fragile', version: '1.0.0', register: () => ({}), tools: [
        {name: 'echo', description: 'A tool', schema: {type: 'object'}, handler: () => typeof loop}]}";
    let import = "import { runDelegationLoop as loop } from '@drawgate/plugin';";
    let rows = [
        ("main.mjs", format!("{import} export const plugin = {definition};"), "function"),
        ("main.js", format!("{import} export default {definition};"), "function"),
        ("main.cjs", format!("exports.plugin = {definition};"), "undefined"),
    ];
    let machine = Machine::new();
    for (main, text_of_main, expected) in rows {
        let manifest = MANIFEST.replace("main.mjs", main);
        let files = [("drawgate-plugin.json", &*manifest), (main, &text_of_main)];
        let folder = machine.write("fragile", &files);
        for node in [None, machine.settings(&folder).node] {
            let settings = ProcessSettings { node, ..machine.settings(&folder) };
            let (plugin, _recorder) = machine.load_with(settings).await.unwrap();
            let output = call(&plugin, "echo", json!({})).await.unwrap();
            assert_eq!(text(&output), expected, "{main}");
            plugin.stop().await;
        }
    }
}

const CURIOUS: &str = r#"
import json, urllib.request
from drawgate_plugin import Plugin
p = Plugin("curious", "1.0.0")

def tried(work):
    try:
        return work()
    except Exception as error:
        return type(error).__name__

def write(path):
    with open(path, "w") as file:
        file.write("written")
    return "written"

@p.tool("try", "Tries things", {"type": "object"})
def attempt(ctx, args, meta):
    found = {path: tried(lambda: open(path).read()) for path in args["read"]}
    found.update({path: tried(lambda: write(path)) for path in args["write"]})
    found.update({url: tried(lambda: urllib.request.urlopen(url, timeout=5).read().decode()) for url in args["fetch"]})
    return json.dumps(found)

p.run()
"#;

/// A server on this machine that says hello to each request.
fn hello() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _read = stream.read(&mut request);
            let _sent = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
            );
        }
    });
    address
}

async fn curious(machine: &Machine, permissions: &Value) -> Result<ProcessPlugin, String> {
    let manifest = json!({
        "name": "curious", "version": "1.0.0", "main": "main.py", "runtime": "python", "permissions": permissions,
    });
    let files = [("drawgate-plugin.json", &*manifest.to_string()), ("main.py", CURIOUS)];
    let folder = machine.write("curious", &files);
    machine.load(&folder).await.map(|(plugin, _)| plugin).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_open_what_they_name_and_nothing_else() {
    let machine = Machine::new();
    let base = machine.folder.path();
    for name in ["home/readable", "writable"] {
        std::fs::create_dir(base.join(name)).unwrap();
        std::fs::write(base.join(name).join("note"), "read").unwrap();
    }
    let path = |name: &str| base.join(name).to_str().unwrap().to_owned();
    let (readable, writable, data) =
        (path("home/readable/note"), path("writable/note"), path("data/drawgate.db"));
    let (open, closed) = (hello(), hello());
    let input = json!({
        "read": [readable, data],
        "write": [writable, path("home/readable/new"), path("data/new")],
        "fetch": [format!("http://{open}/"), format!("http://{closed}/")],
    });
    let rows = [
        (json!({}), ["FileNotFoundError", "FileNotFoundError", "URLError"]),
        (
            json!({ "read": ["~/readable"], "write": [path("writable")], "hosts": [open] }),
            ["read", "written", "hello"],
        ),
    ];
    for (permissions, [read, written, fetched]) in rows {
        let plugin = curious(&machine, &permissions).await.unwrap();
        let network = permissions.get("hosts").is_some();
        assert_eq!(plugin.confinement(), if network { "network" } else { "workspace" });
        let output = call(&plugin, "try", input.clone()).await.unwrap();
        let found: Value = serde_json::from_str(text(&output)).unwrap();
        assert_eq!(found[&readable], read);
        assert_eq!(found[&data], "FileNotFoundError");
        assert_eq!(found[&writable], written);
        assert_ne!(found[path("home/readable/new")], "written");
        assert_ne!(found[path("data/new")], "written");
        assert_eq!(found[format!("http://{open}/")], fetched);
        let refused = if network { "HTTPError" } else { "URLError" };
        assert_eq!(found[format!("http://{closed}/")], refused);
        plugin.stop().await;
    }
}

#[tokio::test]
async fn folders_that_hold_more_than_a_plugin_may_have_are_refused() {
    let machine = Machine::new();
    let base = machine.folder.path().canonicalize().unwrap();
    let plugins = base.join("plugins");
    let itself = "it holds the plugin itself, which is readable anyway and never writable";
    let rows = [
        ("write", plugins.join("curious"), itself),
        ("write", plugins.clone(), itself),
        ("read", plugins, itself),
        ("read", base.join("workspaces"), "it holds folders of the gateway"),
        ("read", base.join("home"), "it holds a home folder; name a folder inside"),
        ("write", base.clone(), "it holds a home folder; name a folder inside"),
    ];
    machine.settings(&machine.write("curious", &[]));
    for (field, path, why) in rows {
        let error = curious(&machine, &json!({ field: [path] })).await.err().unwrap();
        let expected =
            format!("`permissions.{field}[0]`: a plugin can't have `{}`: {why}", path.display());
        assert_eq!(error, expected);
    }
}
