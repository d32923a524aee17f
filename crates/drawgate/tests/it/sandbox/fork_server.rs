//! The process that boxes come from: one for all, with one thread, and replaced when it is killed or
//! hangs.

use std::path::Path;

use drawgate::cli::machine::secrets;
use drawgate_host::Host;
use drawgate_host::egress::Reach;
use drawgate_host::process::{Running, Spawn};
use drawgate_host::sandbox::{ArgumentPaths, Confinement, Profile, ResourceLimits};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{PROGRAM, eventually};

pub(super) struct Boxes {
    host: Host,
    workspace: TempDir,
}

impl Boxes {
    pub(super) fn new() -> Self {
        let host = Host::new(secrets(), Some(PROGRAM.into())).unwrap();
        Self { host, workspace: TempDir::new().unwrap() }
    }

    pub(super) fn shell(&self, script: &str) -> Running {
        let confinement = Confinement {
            profile: Profile::Strict,
            workspace: self.workspace.path().to_owned(),
            read: Vec::new(),
            write: Vec::new(),
            arguments: ArgumentPaths::Ignored,
            reach: Reach::nobody(),
            internal: None,
            unprotected: Vec::new(),
            limits: ResourceLimits::default(),
        };
        let spawn = Spawn {
            program: "sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            confinement: Some(confinement),
            ..Spawn::default()
        };
        self.host.processes.spawn(&spawn).unwrap()
    }

    pub(super) fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    pub(super) async fn code(&self, script: &str) -> Option<i32> {
        self.shell(script).wait().await.unwrap().code()
    }
}

/// The parent of a box's init.
pub(super) fn fork_server(running: &Running) -> Pid {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.pid())).unwrap();
    let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap();
    Pid::from_raw(parent.parse().unwrap()).unwrap()
}

fn path(process: Pid, file: &str) -> String {
    format!("/proc/{}/{file}", process.as_raw_nonzero())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_with_one_thread_makes_all_boxes() {
    let boxes = Boxes::new();
    let (first, second) = (boxes.shell("cat"), boxes.shell("cat"));
    assert_ne!(first.pid(), second.pid());
    let fork_server = fork_server(&first);
    assert_eq!(fork_server, self::fork_server(&second));
    // What another thread holds at the moment of a copy would stay locked in the copy for ever.
    assert_eq!(std::fs::read_dir(path(fork_server, "task")).unwrap().count(), 1);
    drop((first, second));
    let children = || {
        std::fs::read_to_string(path(
            fork_server,
            &format!("task/{}/children", fork_server.as_raw_nonzero()),
        ))
        .unwrap()
    };
    eventually("it keeps no dead ones", async || children().is_empty().then_some(())).await;
    drop(boxes);
    eventually("it ends with the gateway", async || {
        let stat = std::fs::read_to_string(path(fork_server, "stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_it_is_replaced_and_its_boxes_go_on() {
    let boxes = Boxes::new();
    let mut before = boxes.shell("read line; echo got $line; exit 4");
    let fork_server = fork_server(&before);
    kill_process(fork_server, Signal::KILL).unwrap();
    for code in [0, 3] {
        assert_eq!(boxes.code(&format!("exit {code}")).await, Some(code));
    }
    before.take_stdin().unwrap().write_all(b"word\n").await.unwrap();
    let mut lines = BufReader::new(before.take_stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("got word"));
    assert_eq!(before.wait().await.unwrap().code(), Some(4));
    assert_eq!(before.wait().await.unwrap().code(), Some(4), "a second wait answers the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_it_is_killed_and_replaced() {
    let boxes = Boxes::new();
    let before = boxes.shell("cat");
    let stopped = fork_server(&before);
    kill_process(stopped, Signal::STOP).unwrap();
    let after = boxes.shell("cat");
    assert_ne!(fork_server(&after), stopped);
    eventually("the one that hung is gone", async || {
        let stat = std::fs::read_to_string(path(stopped, "stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z")).then_some(())
    })
    .await;
    assert_eq!(boxes.code("exit 3").await, Some(3));
}

/// A box that has planted something, and waits for a line.
async fn planted(boxes: &Boxes) -> Running {
    let mut running = boxes.shell("echo evil > .mcp.json; echo up; read line; exit 4");
    let mut line = String::new();
    let mut output = BufReader::new(running.take_stdout().unwrap());
    output.read_line(&mut line).await.unwrap();
    assert_eq!(line, "up\n");
    assert!(boxes.workspace.path().join(".mcp.json").exists());
    running
}

fn init(running: &Running) -> Pid {
    Pid::from_raw(i32::try_from(running.pid()).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn being_asked_to_end_keeps_nobody_from_cleaning_up() {
    let boxes = Boxes::new();
    let mut running = planted(&boxes).await;
    let fork_server = fork_server(&running);
    // As a service manager does it: everybody at once.
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        kill_process(init(&running), signal).unwrap();
        kill_process(fork_server, signal).unwrap();
    }
    running.take_stdin().unwrap().write_all(b"word\n").await.unwrap();
    assert_eq!(running.wait().await.unwrap().code(), Some(4));
    assert!(!boxes.workspace.path().join(".mcp.json").exists());
    let after = boxes.shell("cat");
    assert_eq!(self::fork_server(&after), fork_server, "it is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_can_be_asked_to_end() {
    let boxes = Boxes::new();
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let status = boxes.shell(&format!("kill -{signal} $$; sleep 300")).wait().await.unwrap();
        assert!(std::os::unix::process::ExitStatusExt::signal(&status).is_some(), "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_cleans_up_after_an_init_that_was_killed() {
    let boxes = Boxes::new();
    let mut running = planted(&boxes).await;
    kill_process(init(&running), Signal::KILL).unwrap();
    running.wait().await.unwrap();
    assert!(!boxes.workspace.path().join(".mcp.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_box_whose_init_is_killed_has_ended_by_a_signal() {
    let boxes = Boxes::new();
    let mut running = boxes.shell("echo up; sleep 300");
    let mut lines = BufReader::new(running.take_stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("up"));
    kill_process(init(&running), Signal::KILL).unwrap();
    let status = running.wait().await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    assert_eq!(lines.next_line().await.unwrap(), None, "nobody is left to write");
}
