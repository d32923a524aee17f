//! Acts on profiles and plugins.

use serde_json::{Value, json};

use super::Case;
use crate::acts::Fixture;

/// Whether a profile counts.
fn is_accepted(fixture: &Fixture, name: &str) -> bool {
    let all = fixture.json(&["profiles", "list"]);
    all.iter().any(|profile| profile["name"] == name && profile["state"] == "accepted")
}

/// Writes a profile, and returns its name.
fn profile(fixture: &Fixture, n: u32) -> String {
    let name = format!("agent{n}");
    let folder = fixture.place.path().join("agents");
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: {name}\ndescription: Helps\n---\nHelp.\n");
    std::fs::write(folder.join(format!("{name}.md")), text).unwrap();
    name
}

pub(super) fn profile_accepted(fixture: &Fixture, n: u32) -> Case {
    let name = profile(fixture, n);
    Case::new(&["profiles", "accept", &name.clone(), "--yes"], move |fixture| {
        is_accepted(fixture, &name)
    })
}

pub(super) fn profile_removed(fixture: &Fixture, n: u32) -> Case {
    let name = profile(fixture, n);
    fixture.place.ok(&["profiles", "accept", &name, "--yes"]);
    Case::new(&["profiles", "remove", &name.clone()], move |fixture| !is_accepted(fixture, &name))
}

/// A plugin that comes with the gateway.
const NATIVE: &str = "delegation";
/// A plugin that is added.
const ADDED: &str = "say";
const PROGRAM: &str = r#"
from drawgate_plugin import Plugin

p = Plugin("say", "VERSION")


@p.tool("say", "Says it", {"type": "object"})
def say(ctx, args, meta):
    return "said"


p.run()
"#;

/// Writes a plugin of the n-th version, and returns its folder and the version.
fn source(fixture: &Fixture, n: u32) -> (String, String) {
    let version = format!("1.0.{n}");
    let folder = fixture.place.path().join("sources").join(ADDED);
    std::fs::create_dir_all(&folder).unwrap();
    let manifest =
        json!({ "name": ADDED, "version": version, "main": "main.py", "runtime": "python" });
    std::fs::write(folder.join("drawgate-plugin.json"), manifest.to_string()).unwrap();
    std::fs::write(folder.join("main.py"), PROGRAM.replace("VERSION", &version)).unwrap();
    (folder.to_str().unwrap().to_owned(), version)
}

/// What is kept of a plugin, and how it is at work; nothing if there is none.
fn plugin(fixture: &Fixture, name: &str) -> Value {
    let all = fixture.json(&["plugins", "list"]);
    all.into_iter().find(|plugin| plugin["name"] == name).unwrap_or_default()
}

/// Replaces the version before, if there is one.
pub(super) fn plugin_added(fixture: &Fixture, n: u32) -> Case {
    let (folder, version) = source(fixture, n);
    Case::of_two(&["plugins", "add", &folder, "--yes"], move |fixture| {
        let plugin = plugin(fixture, ADDED);
        [plugin["files"]["version"] == *version, plugin["status"]["version"] == *version]
    })
}

pub(super) fn plugin_removed(fixture: &Fixture, n: u32) -> Case {
    let (folder, _) = source(fixture, n);
    fixture.place.ok(&["plugins", "add", &folder, "--yes"]);
    Case::new(&["plugins", "remove", ADDED], |fixture| plugin(fixture, ADDED).is_null())
}

/// Whether a plugin should be at work, and whether it is.
fn at_work(fixture: &Fixture) -> [bool; 2] {
    let plugin = plugin(fixture, NATIVE);
    [plugin["enabled"] == true, plugin["status"].is_object()]
}

pub(super) fn plugin_enabled(fixture: &Fixture, _: u32) -> Case {
    fixture.place.ok(&["plugins", "disable", NATIVE]);
    Case::of_two(&["plugins", "enable", NATIVE], at_work)
}

pub(super) fn plugin_disabled(fixture: &Fixture, _: u32) -> Case {
    fixture.place.ok(&["plugins", "enable", NATIVE]);
    Case::of_two(&["plugins", "disable", NATIVE], |fixture| at_work(fixture).map(|is| !is))
}

pub(super) fn plugin_configured(fixture: &Fixture, n: u32) -> Case {
    fixture.place.ok(&["plugins", "enable", NATIVE]);
    Case::of_two(&["plugins", "set", NATIVE, "--position", &n.to_string()], move |fixture| {
        let plugin = plugin(fixture, NATIVE);
        [plugin["position"] == n, plugin["status"]["position"] == n]
    })
}
