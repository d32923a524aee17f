//! The user's own gateway: every folder talks to it, what only looks creates nothing, and a configuration
//! that lies in the current folder counts only where it is named.
#![expect(clippy::disallowed_methods, reason = "tests start the program itself")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Gateway, PROGRAM, TestFolder, text};

/// A user with a home that is empty at first, and folders to work in.
struct User {
    root: TempDir,
}

impl User {
    fn new() -> Self {
        let user = Self { root: TempDir::new().unwrap() };
        for folder in ["home", "one", "two/deep", "three"] {
            std::fs::create_dir_all(user.path(folder)).unwrap();
        }
        user
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn command(&self, folder: &str, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.path(folder)).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("DRAWGATE_") || name.starts_with("XDG_") {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.path("home"));
        command
    }

    fn run(&self, folder: &str, args: &[&str]) -> Output {
        self.command(folder, args).output().unwrap()
    }

    #[track_caller]
    fn ok(&self, folder: &str, args: &[&str]) -> String {
        let output = self.run(folder, args);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{err}");
        out
    }

    fn serve(&self, folder: &str) -> Gateway {
        let mut command = self.command(folder, &["serve", "--json", "--listen", "127.0.0.1:0"]);
        let data = self.path("home/.local/share/drawgate");
        Gateway::start(&mut command, &data, &self.path("serve.log"))
    }

    /// Every file and folder of the user's.
    fn files(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.root.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
                found.insert(entry.path());
            }
        }
        found
    }
}

/// Commands that only look, on a gateway that has no data yet.
const LOOKS: &[&[&str]] = &[
    &["tools", "list"],
    &["tools", "show", "vfs_read"],
    &["servers", "list"],
    &["servers", "doctor"],
    &["agents", "list"],
    &["grants", "list"],
    &["approvals", "list"],
    &["artifacts", "list"],
    &["toolpacks", "list"],
    &["runs", "list"],
    &["threads", "list"],
    &["tasks", "list"],
    &["profiles", "list"],
    &["plugins", "list"],
    &["keys", "list"],
    &["packs", "list"],
    &["providers", "list"],
    &["config", "check"],
    &["config", "show"],
    &["connect", "claude"],
    &["sandbox", "doctor"],
];

#[test]
fn commands_that_only_look_create_nothing() {
    let user = User::new();
    let before = user.files();
    for args in LOOKS {
        user.ok("one", args);
        assert_eq!(user.files(), before, "{args:?}");
    }
    for args in [&["status"][..], &["audit", "tail"], &["audit", "verify"]] {
        let output = user.run("one", args);
        assert!(!output.status.success(), "{args:?}: there is nothing to see");
        assert_eq!(user.files(), before, "{args:?}");
    }
    let named = user.run("one", &["tools", "list", "--data", "elsewhere"]);
    assert!(named.status.success(), "{}", text(&named.stderr));
    assert_eq!(user.files(), before);
    // What changes something makes the folder, and the next look finds it.
    user.ok("one", &["agents", "add", "bob", "--quiet"]);
    assert!(user.path("home/.local/share/drawgate/drawgate.db").exists());
    assert!(user.ok("two/deep", &["agents", "list"]).contains("bob"));
    let ignored = std::fs::read_to_string(user.path("home/.local/share/drawgate/.gitignore"));
    assert_eq!(ignored.unwrap(), "*\n", "keys and tokens are not added to a repository");
}

/// A data folder that is named has the configuration in it, and so the toolpacks.
#[test]
fn commands_of_toolpacks_run_where_only_a_data_folder_is_named() {
    let user = User::new();
    std::fs::create_dir(user.path("one/greeter")).unwrap();
    let manifest = json!({
        "id": "greeter", "name": "Greeter", "version": "1.0.0",
        "tools": [{
            "name": "greet", "type": "command", "description": "Greets.",
            "command_template": "echo hello {{name}}",
            "parameters": { "type": "object", "properties": { "name": { "type": "string" } } },
        }],
    });
    std::fs::write(user.path("one/greeter/toolpack.json"), manifest.to_string()).unwrap();
    let named = |args: &[&str]| user.ok("one", &[&["--data", "elsewhere"], args].concat());
    named(&["toolpacks", "install", "./greeter"]);
    named(&["toolpacks", "enable", "greeter"]);
    assert!(user.path("one/elsewhere/toolpacks/greeter/toolpack.json").exists());
    assert!(named(&["tools", "call", "greet", "name=you"]).contains("hello you"));
}

#[test]
fn every_folder_talks_to_the_same_gateway() {
    let user = User::new();
    let gateway = user.serve("one");
    user.ok("one", &["tools", "call", "vfs_write", "path=a.txt", "content=hello"]);
    let before = user.files();
    for folder in ["one", "two/deep", "three"] {
        let status: Value = serde_json::from_str(&user.ok(folder, &["status", "--json"])).unwrap();
        assert_eq!(status["pid"], gateway.child.id(), "{folder}");
        let data = user.path("home/.local/share/drawgate");
        assert_eq!(status["data"], data.to_str().unwrap(), "{folder}");
        assert!(user.ok(folder, &["tools", "call", "vfs_read", "path=a.txt"]).contains("hello"));
        assert!(user.ok(folder, &["audit", "tail"]).contains("vfs_write"));
        let connected = user.ok(folder, &["connect", "claude", "--json"]);
        assert!(!connected.contains("--data"), "{connected}");
    }
    let new: Vec<PathBuf> = user.files().difference(&before).cloned().collect();
    let is_store = |path: &PathBuf| path.starts_with(user.path("home/.local/share/drawgate"));
    assert!(new.iter().all(is_store), "{new:?}");
    assert_eq!(gateway.terminate(), Some(0));
}

#[tokio::test]
async fn a_server_is_added_to_a_gateway_that_began_without_a_configuration() {
    let user = User::new();
    let gateway = user.serve("three");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/server.py");
    let said = user.ok("one", &["servers", "add", "mine", "--", "python3", script]);
    assert!(said.contains("it is in force") && said.contains("mine: ready"), "{said}");
    let file = user.path("home/.config/drawgate/drawgate.toml");
    assert!(std::fs::read_to_string(&file).unwrap().contains("[servers.mine]"));
    let names = gateway.tool_names(&gateway.token).await;
    assert!(names.contains(&"mine__echo".to_owned()), "{names:?}");
    let shown = user.ok("two/deep", &["status"]);
    for expected in ["running since", file.to_str().unwrap(), "health   ", "ok"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    drop(gateway);
    // The next one starts with it.
    let gateway = user.serve("one");
    crate::support::eventually("the server is there", async || {
        user.ok("three", &["tools", "list"]).contains("mine__echo").then_some(())
    })
    .await;
    drop(gateway);
}

#[tokio::test]
async fn status_says_what_fails_what_waits_and_what_is_not_in_force() {
    let user = User::new();
    let absent = user.run("one", &["status"]);
    assert_eq!(absent.status.code(), Some(69));
    let shown = text(&absent.stdout);
    assert!(shown.contains("not running; `drawgate serve` starts it"), "{shown}");
    std::fs::create_dir_all(user.path("home/.config/drawgate/agents")).unwrap();
    let profile = "---\nname: note-taker\ndescription: Takes notes\n---\nTake notes.\n";
    std::fs::write(user.path("home/.config/drawgate/agents/note-taker.md"), profile).unwrap();
    let config = "approvals.hold_seconds = 0\n[servers.broken]\ncommand = \"/no/such/program\"\n\
                  [[policy.rules]]\nid = \"ask\"\naction = \"*\"\n\
                  when = { toolId = \"builtin:vfs_delete\" }\ndecision = \"allow_with_confirm\"\n";
    let file = user.path("home/.config/drawgate/drawgate.toml");
    std::fs::write(&file, config).unwrap();
    let gateway = user.serve("one");
    let arguments = serde_json::json!({ "path": "a.txt" });
    gateway.call(&gateway.token, "vfs_delete", arguments).await;
    std::fs::write(&file, format!("listen = \"127.0.0.1:1\"\n{config}")).unwrap();
    crate::support::eventually("the edit is seen", async || {
        user.ok("one", &["status"]).contains("not in force").then_some(())
    })
    .await;
    let shown = user.ok("two/deep", &["status"]);
    for expected in [
        "`broken` does not work; `drawgate servers doctor` says why",
        "1 call needs approval; `drawgate approvals list`",
        "1 profile is not accepted; `drawgate profiles list`",
        "`listen`: edited, and read at the next start",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    // Another gateway than the one that runs.
    let other = user.run("one", &["status", "--data", "elsewhere"]);
    assert_eq!(other.status.code(), Some(69));
    let said = text(&other.stderr);
    assert!(said.contains("no gateway runs on `elsewhere`; the one that runs on"), "{said}");
    drop(gateway);
}

/// Servers that leave a file behind when they are started.
fn hostile(folder: &Path) -> String {
    let ran = folder.join("ran");
    let ran = ran.display();
    format!("[servers.mcp]\ncommand = \"touch\"\nargs = [\"{ran}\"]\nsandbox = \"none\"\n")
}

#[test]
fn a_configuration_that_nobody_named_does_not_count() {
    let user = User::new();
    let folder = user.path("one");
    std::fs::write(folder.join("drawgate.toml"), hostile(&folder)).unwrap();
    std::fs::create_dir(folder.join("toolpacks")).unwrap();
    let listed = user.run("one", &["servers", "list"]);
    assert!(!text(&listed.stdout).contains("mcp"), "{}", text(&listed.stdout));
    let note = "`drawgate.toml` in this folder is not used; `--config drawgate.toml` names it";
    assert!(text(&listed.stderr).contains(note), "{}", text(&listed.stderr));
    user.run("one", &["tools", "list"]);
    let gateway = user.serve("one");
    user.ok("one", &["servers", "list"]);
    drop(gateway);
    assert!(!folder.join("ran").exists(), "a program was started");

    user.run("one", &["--config", "drawgate.toml", "servers", "list"]);
    assert!(folder.join("ran").exists(), "it is started once it is named");
    assert!(!folder.join(".drawgate").exists(), "and looking at it creates nothing");
}

#[test]
fn a_client_is_connected_to_the_gateway_that_was_named() {
    let place = TestFolder::new("");
    let args = |args: &[&str]| {
        let report = place.json(args);
        let snippet: Value = serde_json::from_str(report["snippet"].as_str().unwrap()).unwrap();
        let args = snippet["mcpServers"]["drawgate"]["args"].as_array().unwrap().clone();
        args.into_iter().map(|it| it.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let real = |path: PathBuf| path.to_str().unwrap().to_owned();
    let (data, file) = (real(place.data()), real(place.path().join("drawgate.toml")));
    assert_eq!(args(&["connect", "claude"]), ["mcp", "--data", &data, "--config", &file]);
    let none = args(&["--config", "none", "--data", ".drawgate", "connect", "claude"]);
    assert_eq!(none, ["mcp", "--data", &data, "--config", "none"]);
    std::fs::remove_file(place.path().join("drawgate.toml")).unwrap();
    assert_eq!(args(&["connect", "claude"]), ["mcp", "--data", &data]);
}

#[test]
fn no_file_is_read_where_none_is_named() {
    let place = TestFolder::new("this is no configuration");
    let tools = place.run(&["--config", "none", "--data", ".drawgate", "tools", "list"]);
    assert!(text(&tools.stdout).contains("vfs_read"), "{}", text(&tools.stderr));
}

#[test]
fn a_service_is_installed_and_removed() {
    let user = User::new();
    let data = user.path("three/it's 100% $mine");
    let data = data.to_str().unwrap();
    let unit = user.path("home/.config/systemd/user/drawgate.service");
    let absent = user.run("one", &["service", "remove", "--file-only"]);
    assert!(text(&absent.stderr).contains("the service is not installed"));
    user.ok("one", &["service", "install", "--file-only", "--data", data, "--manager", "systemd"]);
    let written = std::fs::read_to_string(&unit).unwrap();
    let command = format!("\"{PROGRAM}\" \"serve\" \"--data\" ");
    assert!(written.contains(&format!("ExecStart={command}")), "{written}");
    assert!(written.contains("it's 100%% $$mine\""), "{written}");
    // Its own judge, where there is one.
    if let Ok(judged) =
        Command::new("systemd-analyze").args(["verify", "--user"]).arg(&unit).output()
    {
        let said = text(&judged.stderr);
        assert!(!said.contains("drawgate.service"), "{said}");
    }
    user.ok("one", &["service", "install", "--file-only"]);
    let written = std::fs::read_to_string(&unit).unwrap();
    assert!(written.contains(&format!("ExecStart=\"{PROGRAM}\" \"serve\"\n")), "{written}");
    user.ok("one", &["service", "remove", "--file-only"]);
    assert!(!unit.exists());
    user.ok("one", &["service", "install", "--file-only", "--manager", "launchd", "--data", data]);
    let list = user.path("home/Library/LaunchAgents/drawgate.plist");
    let list = std::fs::read_to_string(list).unwrap();
    assert!(list.contains("<string>serve</string>\n    <string>--data</string>"), "{list}");
}

/// A folder with an installed and enabled toolpack, `own`.
fn with_toolpack() -> TestFolder {
    let author = TestFolder::new("");
    let source = author.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let tool = serde_json::json!({
        "name": "say", "type": "command", "description": "Says it.", "command_template": "echo it",
        "parameters": { "type": "object", "properties": {} },
    });
    let manifest =
        serde_json::json!({ "id": "own", "name": "Own", "version": "1.0.0", "tools": [tool] });
    std::fs::write(source.join("toolpack.json"), manifest.to_string()).unwrap();
    author.ok(&["toolpacks", "install", "source"]);
    author.ok(&["toolpacks", "enable", "own"]);
    assert!(author.ok(&["tools", "list"]).contains("Says it."));
    author
}

/// As the version before kept it: in a lock of its own, in the author's manifest, and in the store.
#[test]
fn toolpacks_of_the_version_before_are_taken_over() {
    for was_enabled_here in [true, false] {
        let place = with_toolpack();
        let (lock, old) = (place.path().join("drawgate.lock"), place.path().join("toolpacks.lock"));
        let mut entries: Value = serde_json::from_slice(&std::fs::read(&lock).unwrap()).unwrap();
        let mut entries = entries["toolpacks"].take();
        let content_hash = entries["own"]["contentHash"].clone();
        for new in ["enabled", "accepted"] {
            entries["own"].as_object_mut().unwrap().remove(new).unwrap();
        }
        std::fs::remove_file(&lock).unwrap();
        std::fs::write(&old, json!({ "format": 1, "toolpacks": entries }).to_string()).unwrap();
        let manifest = place.path().join("toolpacks/own/toolpack.json");
        let authored = std::fs::read_to_string(&manifest).unwrap();
        std::fs::write(&manifest, authored.replacen('{', "{\"enabled\": true, ", 1)).unwrap();
        if was_enabled_here {
            let body = json!({ "contentHashes": [content_hash] }).to_string();
            let store = rusqlite::Connection::open(place.data().join("drawgate.db")).unwrap();
            let sql = "INSERT INTO document (kind, id, body) VALUES ('toolpack', 'own', ?1)";
            store.execute(sql, [body]).unwrap();
        }
        let tools = place.run(&["tools", "list"]);
        assert_eq!(text(&tools.stdout).contains("Says it."), was_enabled_here, "{tools:?}");
        assert!(lock.exists() && !old.exists());
        place.ok(&["toolpacks", "lock", "verify"]);
        let state = place.json(&["toolpacks", "list"])["toolpacks"][0]["state"].clone();
        assert_eq!(state, "enabled", "as its manifest said");
    }
}

#[test]
fn a_toolpack_that_came_with_a_folder_does_not_run() {
    let author = with_toolpack();
    let victim = TestFolder::new("");
    copy(&author.path().join("toolpacks"), &victim.path().join("toolpacks"));
    let lock = "drawgate.lock";
    std::fs::copy(author.path().join(lock), victim.path().join(lock)).unwrap();
    let tools = victim.run(&["tools", "list"]);
    assert!(!text(&tools.stdout).contains("Says it."), "{}", text(&tools.stdout));
    assert!(
        text(&tools.stderr).contains("drawgate toolpacks enable own"),
        "{}",
        text(&tools.stderr)
    );
    assert!(!victim.run(&["tools", "call", "say"]).status.success());
    victim.ok(&["toolpacks", "enable", "own"]);
    assert!(victim.ok(&["tools", "list"]).contains("Says it."), "the owner has looked at it");
}

#[test]
fn toolpacks_of_the_users_own_gateway_work_from_every_folder() {
    let user = User::new();
    let pack = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/toolpacks/project-search");
    for data in [&[][..], &["--data", "elsewhere"]] {
        let with = |args: &[&'static str]| [args, data].concat();
        user.ok("one", &[&["toolpacks", "install", pack][..], data].concat());
        user.ok("one", &with(&["toolpacks", "enable", "project-search"]));
        let doctor = user.run("one", &with(&["toolpacks", "doctor", "project-search"]));
        assert!(doctor.status.success(), "{}{}", text(&doctor.stdout), text(&doctor.stderr));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
