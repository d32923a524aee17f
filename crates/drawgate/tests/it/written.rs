//! Files of the user's that commands write, with something else in their place: each way of being something else
//! by each command. Nothing is followed, waited for, written by half or left beside.
#![expect(clippy::disallowed_methods, reason = "tests start the program itself")]

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{PROGRAM, text};
use Kind::{Dangling, Fifo, Folder, Foreign, HardLink, Link, Parent, ReadOnly};

/// What is in the place of a file that is about to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A link to a file.
    Link,
    /// A link to nothing.
    Dangling,
    /// The file, in a folder that is a link which others could have put there.
    Parent,
    Fifo,
    Folder,
    ReadOnly,
    /// Another user's file.
    Foreign,
    /// A second name of a file.
    HardLink,
}

const KINDS: [Kind; 8] = [Link, Dangling, Parent, Fifo, Folder, ReadOnly, Foreign, HardLink];

/// A command that writes a file.
struct Writer {
    args: &'static [&'static str],
    /// The file, or folder, that it writes.
    target: &'static str,
    /// What the file holds before.
    before: &'static str,
    /// What the client's file in the project holds.
    theirs: &'static str,
    /// Where it does its work all the same; everywhere else it is refused.
    works: &'static [Kind],
    /// What else it changes.
    also: &'static [&'static str],
}

const WRITER: Writer =
    Writer { args: &[], target: "", before: "", theirs: "", works: &[HardLink], also: &[] };
const SECRET: &str = r#"{"mcpServers":{"hub":{"url":"https://x.example","headers":{"Authorization":"Bearer s3cr3t-T0ken-9182"}}}}"#;

const CONNECTED: &str =
    r#"{"mcpServers":{"drawgate":{"command":"/usr/bin/drawgate","args":["mcp"]}}}"#;

const WRITERS: &[Writer] = &[
    Writer {
        args: &["connect", "claude", "--write"],
        target: "project/.mcp.json",
        before: "{}",
        ..WRITER
    },
    Writer {
        args: &["connect", "cursor", "--write"],
        target: "project/.cursor/mcp.json",
        before: "{}",
        ..WRITER
    },
    Writer { args: &["connect", "codex", "--write"], target: "home/.codex/config.toml", ..WRITER },
    Writer {
        args: &["connect", "cursor", "--scope", "user", "--write"],
        target: "home/.cursor/mcp.json",
        before: "{} // mine",
        ..WRITER
    },
    Writer {
        args: &["connect", "windsurf", "--write"],
        target: "home/.codeium/windsurf/mcp_config.json",
        before: "{}",
        ..WRITER
    },
    Writer {
        args: &["disconnect", "cursor", "--write"],
        target: "project/.cursor/mcp.json",
        before: CONNECTED,
        ..WRITER
    },
    Writer {
        args: &["disconnect", "claude-desktop", "--write"],
        target: "home/.config/Claude/claude_desktop_config.json",
        before: CONNECTED,
        ..WRITER
    },
    Writer {
        args: &["import", "theirs.toml", "--yes", "--take-out"],
        target: "project/theirs.toml",
        before: "[mcp_servers.a]\ncommand = \"x\"\n",
        ..WRITER
    },
    Writer {
        args: &["import", "theirs.json", "--yes"],
        target: "data/secrets.env",
        theirs: SECRET,
        also: &["drawgate.toml"],
        ..WRITER
    },
    // A link that the operator has put there is followed: people keep such files with their others.
    Writer {
        args: &["servers", "add", "b", "--", "true"],
        target: "drawgate.toml",
        before: CONFIG,
        works: &[Link, HardLink],
        ..WRITER
    },
    Writer { args: &["init", "new.toml"], target: "project/new.toml", works: &[], ..WRITER },
    Writer {
        args: &["init", "new.toml"],
        target: "project/drawgate.schema.json",
        also: &["project/new.toml"],
        ..WRITER
    },
    Writer {
        args: &["service", "install", "--file-only", "--manager", "systemd"],
        target: "home/.config/systemd/user/drawgate.service",
        ..WRITER
    },
    Writer {
        args: &["service", "install", "--file-only", "--manager", "launchd"],
        target: "home/Library/LaunchAgents/drawgate.plist",
        ..WRITER
    },
    Writer {
        args: &["artifacts", "get", "$ARTIFACT", "--output", "out.txt"],
        target: "project/out.txt",
        ..WRITER
    },
    Writer {
        args: &["toolpacks", "new", "hello", "--dir", "packs"],
        target: "project/packs/hello",
        works: &[],
        ..WRITER
    },
    Writer {
        args: &["backup", "copies/one"],
        target: "project/copies/one",
        works: &[Folder],
        ..WRITER
    },
    Writer {
        args: &["--data", "new", "restore", "../copy"],
        target: "project/new",
        works: &[Folder],
        ..WRITER
    },
];

const CONFIG: &str = "[servers.a]\ncommand = \"x\"\n";

/// A user's folders: a home, a project, a gateway's configuration and data.
struct Lab {
    folder: TempDir,
}

impl Lab {
    /// Makes all that a writer needs, with one kind of thing in the place of its file. `None` if it can't be made.
    fn new(data: &Path, writer: &Writer, kind: Kind) -> Option<Self> {
        let lab = Self { folder: TempDir::new().unwrap() };
        for folder in ["home", "project", "elsewhere"] {
            std::fs::create_dir(lab.path(folder)).unwrap();
        }
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(data.join("data")).arg(data.join("copy")).arg(lab.folder.path());
        assert!(copy.status().unwrap().success());
        std::fs::write(lab.path("drawgate.toml"), CONFIG).unwrap();
        std::fs::write(lab.path("project/theirs.json"), writer.theirs).unwrap();
        lab.put(writer, kind)?;
        Some(lab)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, writer: &Writer, kind: Kind) -> Option<()> {
        let (target, victim) = (self.path(writer.target), self.path("elsewhere/victim"));
        let folder = target.parent().unwrap();
        std::fs::create_dir_all(folder).unwrap();
        let _earlier = std::fs::remove_file(&target);
        let write = |path: &Path| std::fs::write(path, writer.before).unwrap();
        match kind {
            Link => {
                write(&victim);
                symlink(&victim, &target).unwrap();
            }
            Dangling => symlink(self.path("elsewhere/none"), &target).unwrap(),
            Parent => self.lead_away(folder),
            Fifo => mknodat(CWD, &target, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
            Folder => {
                std::fs::create_dir(&target).unwrap();
                std::fs::set_permissions(&target, Permissions::from_mode(0o700)).unwrap();
            }
            ReadOnly => {
                write(&target);
                std::fs::set_permissions(&target, Permissions::from_mode(0o400)).unwrap();
            }
            Foreign => {
                write(&target);
                chown(&target, Some(12_345), None).ok()?;
            }
            HardLink => {
                write(&victim);
                std::fs::hard_link(&victim, &target).unwrap();
            }
        }
        Some(())
    }

    /// Puts a link in the place of a folder, where others may write.
    fn lead_away(&self, folder: &Path) {
        let (away, above) = (self.path("elsewhere/folder"), folder.parent().unwrap());
        std::fs::rename(folder, &away).unwrap();
        symlink(&away, folder).unwrap();
        std::fs::set_permissions(above, Permissions::from_mode(0o777)).unwrap();
    }

    /// Runs a command in the project. One that hangs is ended.
    fn run(&self, args: &[&str], artifact: &str) -> Output {
        let mut command = Command::new("timeout");
        command.args(["30", PROGRAM]);
        command.args(args.iter().map(|arg| if *arg == "$ARTIFACT" { artifact } else { arg }));
        command.current_dir(self.path("project")).env("HOME", self.path("home"));
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "DRAWGATE_LISTEN"] {
            command.env_remove(name);
        }
        command.env("DRAWGATE_CONFIG", self.path("drawgate.toml"));
        command.env("DRAWGATE_DATA", self.path("data"));
        command.stdin(std::process::Stdio::null()).output().unwrap()
    }

    /// All that is there, but for what a gateway keeps for itself.
    fn tree(&self, writer: &Writer) -> BTreeMap<String, String> {
        let (mut all, mut folders) = (BTreeMap::new(), vec![self.folder.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name =
                    path.strip_prefix(self.folder.path()).unwrap().to_str().unwrap().to_owned();
                let own = ["data/", "copy/"].iter().any(|own| name.starts_with(own));
                if own && name != writer.target {
                    continue;
                }
                all.insert(name, described(&path));
                if path.symlink_metadata().unwrap().is_dir() {
                    folders.push(path);
                }
            }
        }
        all
    }
}

fn described(path: &Path) -> String {
    let found = path.symlink_metadata().unwrap();
    let mode = found.permissions().mode();
    match found.file_type() {
        kind if kind.is_symlink() => format!("link to {}", path.read_link().unwrap().display()),
        kind if kind.is_file() => {
            format!("{mode:o} {}", String::from_utf8_lossy(&std::fs::read(path).unwrap()))
        }
        kind if kind.is_dir() => "folder".to_owned(),
        kind => format!("{mode:o}, a pipe: {}", kind.is_fifo()),
    }
}

/// A data folder with an output that was too long, and a copy of it.
fn stored() -> (TempDir, String) {
    let place = TempDir::new().unwrap();
    let script = r#"python3 -c 'import json; print(json.dumps(dict(success=True, content=[dict(type="text", text="x" * 2000000)])))'"#;
    let config = format!(
        "[servers.long]\nprotocol = \"call\"\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n\
         manifest = [{{ name = \"run\", description = \"r\", inputSchema = {{ type = \"object\" }} }}]\n"
    );
    std::fs::write(place.path().join("drawgate.toml"), config).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["--config", "drawgate.toml", "--data", "data"]).args(args);
        let output = command.current_dir(place.path()).env("HOME", place.path()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    run(&["tools", "call", "long__run"]);
    let all: serde_json::Value =
        serde_json::from_str(&run(&["artifacts", "list", "--json"])).unwrap();
    run(&["backup", "copy"]);
    (place, all[0]["sha256"].as_str().unwrap_or_else(|| panic!("{all}")).to_owned())
}

fn check(data: &Path, artifact: &str, writer: &Writer, kind: Kind) {
    // Who works in a folder means that folder, and the lab has no other around it.
    let around = Path::new(writer.target).parent();
    if kind == Parent && [Some(Path::new("")), Some(Path::new("project"))].contains(&around) {
        return;
    }
    // A configuration may be a pipe: `--config <(…)`.
    if kind == Fifo && writer.target == "drawgate.toml" {
        return;
    }
    let Some(lab) = Lab::new(data, writer, kind) else { return };
    let before = lab.tree(writer);
    let output = lab.run(writer.args, artifact);
    let mut after = lab.tree(writer);
    let what = format!("{:?}, {}, {kind:?}: {}", writer.args, writer.target, text(&output.stderr));
    assert_ne!(output.status.code(), Some(124), "it hung: {what}");
    assert_eq!(output.status.success(), writer.works.contains(&kind), "{what}");
    let is_link = kind == Link && output.status.success();
    let written = if is_link { "elsewhere/victim" } else { writer.target };
    if output.status.success() {
        assert_ne!(after.get(written), before.get(written).filter(|it| *it != "folder"), "{what}");
    }
    let mut expected = before;
    for name in writer.also.iter().copied().chain(output.status.success().then_some(written)) {
        let is_own = |path: &String| path == name || path.starts_with(&format!("{name}/"));
        expected.retain(|path, _| !is_own(path));
        after.retain(|path, _| !is_own(path));
    }
    assert_eq!(json!(after), json!(expected), "{what}");
    // What was copied is not published by a repository around it.
    for copies in ["data", "project/copies/one"].map(|name| lab.path(name)) {
        let is_there = copies.join("backups").exists() || copies.join("drawgate.db").exists();
        assert!(!is_there || copies.join(".gitignore").exists(), "{what}");
    }
}

#[test]
fn no_command_is_led_astray_by_what_is_in_the_place_of_a_file() {
    let (place, artifact) = stored();
    let (data, artifact) = (place.path(), artifact.as_str());
    std::thread::scope(|scope| {
        for part in WRITERS.chunks(WRITERS.len().div_ceil(2)) {
            scope.spawn(move || {
                for writer in part {
                    for kind in KINDS {
                        check(data, artifact, writer, kind);
                    }
                }
            });
        }
    });
}
