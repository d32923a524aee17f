//! Toolpacks as their users meet them: installed, enabled, called and removed while the gateway runs.

mod archives;
mod broker;
mod canaries;
mod changed;
mod checks;
mod collisions;
mod echo;
mod examples;
mod github;
mod injection;
mod kills;
mod lifecycle;
mod notes;
mod remote;
mod secrets;
mod trust;
mod updates;

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{Gateway, TestFolder, eventually, text};

/// The folder of an example that ships with the program.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/toolpacks").join(name)
}

/// A copy of an example, with an address of the test's own in place of the written one.
fn example_at(place: &TestFolder, name: &str, written: &str, address: &str) -> PathBuf {
    let folder = place.path().join("sources").join(name);
    copy(&example(name), &folder, &|text| text.replace(written, address));
    folder
}

fn copy(from: &Path, to: &Path, change: &dyn Fn(String) -> String) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target, change);
        } else {
            std::fs::write(target, change(std::fs::read_to_string(entry.path()).unwrap())).unwrap();
        }
    }
}

/// A pack of commands, by name and template; every parameter in a template is a string.
fn commands(id: &str, tools: &[(&str, &str)]) -> Value {
    let tools: Vec<Value> = tools.iter().map(|(name, template)| command(name, template)).collect();
    json!({ "id": id, "name": id, "version": "1.0.0", "tools": tools })
}

fn command(name: &str, template: &str) -> Value {
    let names = template.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
    json!({
        "name": name, "type": "command", "description": "A command.", "command_template": template,
        "parameters": { "type": "object", "properties": properties, "required": names },
    })
}

/// Writes a pack into a folder from which it can be installed.
fn write(place: &TestFolder, manifest: &Value) -> PathBuf {
    let folder = place.path().join("sources").join(manifest["id"].as_str().unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    let body = serde_json::to_vec_pretty(manifest).unwrap();
    std::fs::write(folder.join("toolpack.json"), body).unwrap();
    folder
}

fn install(place: &TestFolder, folder: &Path) -> Value {
    place.json(&["toolpacks", "install", folder.to_str().unwrap()])
}

fn install_and_enable(place: &TestFolder, folder: &Path) -> Value {
    let installed = install(place, folder);
    place.json(&["toolpacks", "enable", installed["id"].as_str().unwrap()])
}

/// What a command that failed said.
fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    text(&output.stderr)
}

/// Waits until a tool is listed.
async fn listed(gateway: &Gateway, tool: &str) {
    eventually(&format!("`{tool}` is listed"), async || {
        gateway.tool_names(&gateway.token).await.iter().any(|name| name == tool).then_some(())
    })
    .await;
}

/// The text of a result.
fn said(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// The events of a kind.
fn events(place: &TestFolder, kind: &str) -> Vec<Value> {
    let log = place.ok(&["audit", "export", "--json"]);
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["kind"] == kind).collect()
}

/// Makes a program in a folder of the place, for the gateway's `PATH`.
fn program(place: &TestFolder, name: &str, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let folder = place.path().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// The `PATH` with a folder in front.
#[expect(clippy::disallowed_methods, reason = "the tests' own search path")]
fn path_with(folder: &Path) -> String {
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}
