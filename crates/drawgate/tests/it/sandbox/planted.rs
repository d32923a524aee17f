//! What programs leave behind for others, and in the kernel's tables, where it must not stay.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use drawgate::cli::machine::secrets;
use drawgate_host::Host;
use drawgate_host::egress::Reach;
use drawgate_host::process::{SetAside, Spawn};
use drawgate_host::sandbox::{ArgumentPaths, Confinement, Profile, ResourceLimits};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::caller::Caller;
use super::lab::Lab;
use super::outcome::run;
use crate::support::PROGRAM;

/// Modes that would keep what was planted in its place, with the one that the workspace has then.
const CLOSED: &[(&str, u32)] = &[
    ("chmod 555 .git .", 0o555),
    ("chmod 666 .", 0o666),
    ("chmod 000 .git/hooks .git; chmod 000 .", 0o000),
    ("mkdir .drawgate-removed; chmod 000 .drawgate-removed; chmod 500 .git .", 0o500),
];

/// Takes the modes away again, for a test that is not run by root.
fn open_up(workspace: &Path) {
    for folder in [workspace.to_owned(), workspace.join(".git")] {
        std::fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    }
}

#[tokio::test]
async fn no_mode_keeps_it_in_its_place() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let workspace = lab.workspace();
        for (close, mode) in CLOSED {
            lab.reset();
            let plant = "echo x > .mcp.json; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit";
            let outcome = run(&mut lab.exec(&[], &format!("{plant}; {close}"))).await;
            assert_eq!(outcome.code, 0, "{caller:?} {close}: {outcome:?}");
            let found = workspace.metadata().unwrap().permissions().mode() & 0o7777;
            assert_eq!(found, *mode, "{caller:?} {close}: its mode is its own");
            open_up(&workspace);
            for name in [".mcp.json", ".git/hooks"] {
                let stays = workspace.join(name).symlink_metadata().is_ok();
                assert!(!stays, "{caller:?} {close}: `{name}` stays");
            }
        }
    }
}

#[tokio::test]
async fn a_closed_folder_does_not_make_old_files_new() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let workspace = lab.workspace();
        std::fs::create_dir(workspace.join(".git")).unwrap();
        std::fs::write(workspace.join(".git/config"), "old").unwrap();
        for path in [".git", ".git/config"] {
            caller.own(&workspace.join(path));
        }
        for command in ["chmod 000 .git", "chmod 700 .git"] {
            let outcome = run(&mut lab.exec(&[], command)).await;
            assert_eq!(outcome.code, 0, "{caller:?} {command}: {outcome:?}");
        }
        let config = std::fs::read_to_string(workspace.join(".git/config"));
        assert_eq!(config.unwrap(), "old", "{caller:?}");
    }
}

#[tokio::test]
async fn instructions_for_agents_are_neither_changed_nor_left() {
    const OLD: [&str; 3] = ["AGENTS.md", ".git/hooks/pre-commit", ".github/workflows/ci.yml"];
    const NEW: [&str; 3] = ["CLAUDE.md", ".cursorrules", ".vscode/tasks.json"];
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let at = |name: &str| lab.workspace().join(name);
        for name in OLD {
            let made = format!("mkdir -p $(dirname {name}); echo mine > {name}");
            assert_eq!(run(lab.bare("sh").args(["-c", &made])).await.code, 0);
        }
        let attack = "for f in AGENTS.md .git/hooks/pre-commit .github/workflows/ci.yml; do \
                        echo evil > $f; mv $f $f.x; done; mv .git x; mv .github y; mkdir .vscode; \
                      for f in CLAUDE.md .cursorrules .vscode/tasks.json; do echo evil > $f; done";
        run(&mut lab.exec(&[], attack)).await;
        for name in OLD {
            let text = std::fs::read_to_string(at(name)).unwrap();
            assert_eq!(text, "mine\n", "{caller:?} {name}");
        }
        for name in NEW {
            assert!(at(name).symlink_metadata().is_err(), "{caller:?} {name}");
        }
        let open = ["--unprotected", "AGENTS.md", "--unprotected", "CLAUDE.md"];
        run(&mut lab.exec(&open, attack)).await;
        for (name, is_there) in
            [("AGENTS.md.x", true), ("CLAUDE.md", true), (".cursorrules", false)]
        {
            assert_eq!(at(name).exists(), is_there, "{caller:?} {name}");
        }
    }
}

/// Sends descriptors that nobody takes, as many as it may, and stays.
const CROWD: &str = r#"
exec python3 -c '
import array, socket, sys
kept, sent = [], 0
try:
    while True:
        pair = socket.socketpair()
        kept.append(pair)
        rights = array.array("i", [0] * 250)
        pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        sent += len(rights)
except OSError: pass
print(sent, flush=True)
sys.stdin.read()
'"#;

/// `drawgate sandbox exec` by somebody who may open so many files.
fn with_files(lab: &Lab, files: &str, options: &[&str], shell: &str) -> Command {
    let mut command = lab.bare("prlimit");
    command.arg(format!("--nofile={files}")).arg(lab.program_path());
    command.args(lab.exec_args(options, shell));
    command
}

#[tokio::test]
async fn descriptors_on_their_way_keep_nobody_from_starting() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        for (files, fewest) in [("1024:8192", 1000), ("1024:1024", 700)] {
            let mut crowd = with_files(&lab, files, &["--stdin"], CROWD);
            let mut crowd = crowd.stdin(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(crowd.stdout.take().unwrap()).lines();
            let sent: u32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
            assert!(sent >= fewest, "{caller:?} {files}: only {sent}");
            for profile in ["workspace", "network"] {
                let options = ["--profile", profile];
                let outcome = run(&mut with_files(&lab, files, &options, "echo works")).await;
                assert_eq!(outcome.stdout, "works\n", "{caller:?} {files} {sent}: {outcome:?}");
            }
            drop(crowd.stdin.take());
            assert!(crowd.wait().await.unwrap().success());
        }
    }
}

#[tokio::test]
async fn children_outside_of_a_box_may_open_as_many_files_as_ever() {
    let lab = Lab::new(Caller::Myself);
    let options = ["--profile", "none"];
    let outcome = run(&mut with_files(&lab, "512:8192", &options, "ulimit -Sn; ulimit -Hn")).await;
    assert_eq!(outcome.stdout, "512\n8192\n", "{outcome:?}");
}

const FOLDERS: usize = 40;
const NAMES: [&str; 20] = [
    ".aider.conf.yml",
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".config/autostart",
    ".config/direnv",
    ".config/environment.d",
    ".config/systemd",
    ".devcontainer",
    ".devcontainer.json",
    ".dir-locals.el",
    ".git/commondir",
    ".git/config.worktree",
    ".pnpmfile.cjs",
    ".windsurf",
    ".xprofile",
    ".yarnrc.yml",
    "drawgate.toml",
    "toolpacks.lock",
];

#[tokio::test(flavor = "multi_thread")]
async fn each_folder_is_told_of_by_its_name() {
    let top = TempDir::new().unwrap();
    let folder = |number: usize| top.path().canonicalize().unwrap().join(format!("f{number}"));
    let folders: Vec<PathBuf> = (0..FOLDERS).map(folder).collect();
    for folder in &folders {
        std::fs::create_dir(folder).unwrap();
    }
    let host = Host::new(secrets(), Some(PROGRAM.into())).unwrap();
    let heard: Arc<Mutex<Vec<SetAside>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    let processes = host.processes.telling(move |told| hearing.lock().unwrap().push(told));
    let confinement = Confinement {
        profile: Profile::Workspace,
        workspace: folders[0].clone(),
        read: Vec::new(),
        write: folders[1..].to_vec(),
        arguments: ArgumentPaths::Ignored,
        reach: Reach::nobody(),
        internal: None,
        unprotected: Vec::new(),
        limits: ResourceLimits::default(),
    };
    let plant =
        format!("for f in ../f*; do (cd $f && mkdir -p {}) || exit 1; done", NAMES.join(" "));
    let spawn = Spawn {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), plant],
        confinement: Some(confinement),
        ..Spawn::default()
    };
    let status = processes.spawn(&spawn).unwrap().wait().await.unwrap();
    assert_eq!(status.code(), Some(0));
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    let by_folder: BTreeMap<PathBuf, SetAside> =
        heard.into_iter().map(|told| (told.folder.clone(), told)).collect();
    for folder in &folders {
        let told = &by_folder[folder];
        let mut names = told.names.clone();
        names.sort();
        assert_eq!((names, told.left.len()), (NAMES.map(str::to_owned).to_vec(), 0));
        assert_eq!(told.workspace, folders[0]);
    }
}
