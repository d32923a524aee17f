//! One attempt, and the evidence that it left.

use std::path::Path;

use tokio::process::Command;

use super::lab::{Lab, VICTIM};
use super::outcome::{Outcome, observe};
use super::table::{Oracle, Row};
use crate::support::eventually;

/// Gives a command a terminal of its own and passes on what it writes there.
const WITH_TERMINAL: &str =
    "import os,pty,sys;sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

/// Gives a command an open file with a secret, as a careless gateway would.
const WITH_DESCRIPTOR: &str = r#"exec 9<"$TG_SECRET_FILE"; exec "$@""#;

/// How long an attempt may run in the box, in seconds; those that never end by themselves get less.
const LONG: &str = "90";
const SHORT: &str = "3";

/// Exit codes of `drawgate sandbox exec` that are not the command's own.
const TIMED_OUT: i32 = 124;
const NOT_STARTED: i32 = 125;

/// Tries a row in the box. What is returned should be nothing.
pub(super) async fn attack(lab: &mut Lab, row: &Row, options: &[&str]) -> Vec<String> {
    let seconds = if row.is("timeout") { SHORT } else { LONG };
    let options = [&["--timeout", seconds], options].concat();
    let args = lab.exec_args(&options, row.command);
    let program = lab.program_path().to_owned();
    let mut evidence = perform(lab, row, &program, &args).await;
    for text in &mut evidence {
        *text = format!("{} ({:?}, {options:?}): {text}", row.name, lab.caller);
    }
    evidence
}

/// Tries a row without any box, to see that the lab notices.
pub(super) async fn attack_bare(lab: &mut Lab, row: &Row) -> Vec<String> {
    perform(lab, row, "sh", &["-c".to_owned(), row.command.to_owned()]).await
}

async fn perform(lab: &mut Lab, row: &Row, program: &str, args: &[String]) -> Vec<String> {
    lab.reset();
    let before = ["tcp", "unix", "abs"].map(|socket| (socket, lab.connections(socket)));
    let mut command = command(lab, row, program);
    command.args(args);
    let listens = row.oracles.contains(&Oracle::Unreach);
    let probe = listens.then(|| lab.variable("TG_LISTEN").parse().unwrap());
    let Some(outcome) = observe(&mut command, probe).await else {
        return vec!["never ended".to_owned()];
    };
    let mut evidence = misrun(row, program, &outcome);
    if outcome.stdout.contains(&lab.canary()) || outcome.stderr.contains(&lab.canary()) {
        evidence.push("a secret in the output".to_owned());
    }
    for oracle in &row.oracles {
        evidence.extend(consult(lab, oracle, &before, &outcome).await);
    }
    let head: String = outcome.stdout.chars().take(2000).collect();
    let tail: String = outcome.stderr.chars().take(2000).collect();
    let code = outcome.code;
    let circumstances = format!("\n  exit {code}, stdout: {head:?}\n  stderr: {tail:?}");
    for text in &mut evidence {
        text.push_str(&circumstances);
    }
    evidence
}

/// A command with a terminal of its own, in the lab's surroundings.
pub(super) fn on_terminal(lab: &Lab, program: &str) -> Command {
    let mut command = lab.bare("python3");
    command.args(["-c", WITH_TERMINAL, program]);
    command
}

fn command(lab: &Lab, row: &Row, program: &str) -> Command {
    if row.is("pty") {
        return on_terminal(lab, program);
    }
    if row.is("descriptor") {
        let mut command = lab.bare("sh");
        command.args(["-c", WITH_DESCRIPTOR, "sh", program]);
        return command;
    }
    lab.bare(program)
}

/// Whether the attempt was not made at all, or not stopped in time.
fn misrun(row: &Row, program: &str, outcome: &Outcome) -> Vec<String> {
    if program == "sh" {
        return Vec::new();
    }
    let expected = match outcome.code {
        TIMED_OUT => row.is("timeout"),
        NOT_STARTED => false,
        _ => !row.is("timeout"),
    };
    if expected { Vec::new() } else { vec![format!("ended with {}", outcome.code)] }
}

async fn consult(
    lab: &mut Lab,
    oracle: &Oracle,
    before: &[(&str, usize)],
    outcome: &Outcome,
) -> Option<String> {
    match oracle {
        Oracle::Quiet => outcome.stdout.contains("ESCAPED").then(|| "says so".to_owned()),
        Oracle::NoFile(path) => {
            let path = lab.expand(path);
            // A link that leads nowhere is there, too.
            let found = Path::new(&path).symlink_metadata().is_ok();
            found.then(|| {
                // Some of these are outside of the lab.
                if !path.starts_with(lab.variable("TG_WS")) {
                    let _gone = std::fs::remove_file(&path);
                }
                format!("`{path}` is there")
            })
        }
        Oracle::Same(path) => {
            let path = lab.expand(path);
            let same = std::fs::read_to_string(&path).is_ok_and(|text| text == VICTIM);
            (!same).then(|| format!("`{path}` has changed"))
        }
        Oracle::Alive => (!lab.is_alive()).then(|| "the gateway is dead".to_owned()),
        Oracle::NoProc => {
            let tag = lab.variable("TG_TAG").to_owned();
            eventually("no survivor", async || survivors(&tag).is_empty().then_some(())).await;
            None
        }
        Oracle::Ends => None,
        Oracle::NoCore => {
            let is_core = |file: &Path| {
                file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"core"))
            };
            find(&lab.workspace(), &is_core).map(|file| format!("core file `{file}`"))
        }
        Oracle::NoSuid => {
            find(&lab.workspace(), &has_set_id).map(|file| format!("`{file}` has a set-id bit"))
        }
        Oracle::NoConn(socket) => {
            let (_, was) = before.iter().find(|(name, _)| name == socket)?;
            (lab.connections(socket) != *was).then(|| format!("connected to {socket}"))
        }
        Oracle::Unreach => outcome.reached.then(|| "its port can be reached".to_owned()),
    }
}

fn has_set_id(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    file.symlink_metadata().is_ok_and(|data| !data.is_symlink() && data.mode() & 0o6000 != 0)
}

/// The first file below a folder for which something holds.
fn find(folder: &Path, holds: &dyn Fn(&Path) -> bool) -> Option<String> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        if holds(&entry.path()) {
            return Some(entry.path().display().to_string());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Some(found) = find(&entry.path(), holds)
        {
            return Some(found);
        }
    }
    None
}

/// Processes with a word in their environment or arguments.
pub(super) fn survivors(word: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let marked = processes.filter(|process| {
        ["environ", "cmdline"].iter().any(|file| {
            let content = std::fs::read(process.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&content).contains(word)
        })
    });
    marked.map(|process| process.file_name().display().to_string()).collect()
}
