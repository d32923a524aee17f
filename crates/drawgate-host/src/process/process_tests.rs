use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::*;

fn processes() -> Processes {
    let environment = BTreeMap::from([
        ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("LD_PRELOAD".to_owned(), "/tmp/evil.so".to_owned()),
        ("API_TOKEN".to_owned(), "hunter2".to_owned()),
    ]);
    Processes::new(&Secrets::new(environment), None)
}

fn shell(script: &str) -> Spawn {
    Spawn {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        ..Spawn::default()
    }
}

/// Members of a process group that still run.
fn alive(group: u32) -> usize {
    let stat = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries
        .filter_map(|entry| stat(entry.file_name().to_str()?))
        .filter_map(|stat| {
            let fields: Vec<String> =
                stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
            Some((fields.first()?.clone(), fields.get(2)?.parse::<u32>().ok()?))
        })
        .filter(|(state, its_group)| *its_group == group && state != "Z" && state != "X")
        .count()
}

async fn until_none_alive(group: u32) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    while alive(group) > 0 {
        ticks.tick().await;
    }
}

async fn output(spawn: &Spawn) -> String {
    let mut running = processes().spawn(spawn).unwrap();
    let mut text = String::new();
    running.take_stdout().unwrap().read_to_string(&mut text).await.unwrap();
    running.wait().await.unwrap();
    text
}

#[tokio::test]
async fn the_environment_is_exact() {
    let mut spawn = Spawn { program: "env".to_owned(), ..Spawn::default() };
    spawn.env.insert("GIVEN".to_owned(), "yes".to_owned());
    assert_eq!(output(&spawn).await, "GIVEN=yes\nPATH=/usr/local/bin:/usr/bin:/bin\n");
    spawn.env.insert("LD_LIBRARY_PATH".to_owned(), "/operator/said/so".to_owned());
    assert!(output(&spawn).await.contains("LD_LIBRARY_PATH=/operator/said/so"));
}

#[tokio::test]
async fn arguments_are_not_interpreted() {
    let spawn = Spawn {
        program: "printf".to_owned(),
        args: vec!["%s".to_owned(), "$(id); `id` > /tmp/x".to_owned()],
        ..Spawn::default()
    };
    assert_eq!(output(&spawn).await, "$(id); `id` > /tmp/x");
}

#[tokio::test]
async fn what_can_not_be_started_is_named() {
    let message = |spawn: &Spawn| processes().spawn(spawn).unwrap_err().to_string();
    let missing = Spawn { program: "no-such-program".to_owned(), ..Spawn::default() };
    assert!(message(&missing).starts_with("there is no program `no-such-program`"));
    let not_executable = Spawn { program: "/etc/passwd".to_owned(), ..Spawn::default() };
    assert!(message(&not_executable).starts_with("there is no program `/etc/passwd`"));
    let nowhere = Spawn { working_dir: Some("/no/such/folder".into()), ..shell("true") };
    assert!(message(&nowhere).contains("`/no/such/folder` does not exist"));
    let bad_variable =
        Spawn { env: BTreeMap::from([("A=B".to_owned(), String::new())]), ..shell("true") };
    assert!(message(&bad_variable).contains("`A=B`"));
}

#[tokio::test]
async fn a_leader_that_exits_takes_its_group_along() {
    let mut running = processes().spawn(&shell("sleep 600 & sleep 600 & exit 3")).unwrap();
    let group = running.pid();
    assert_eq!(running.wait().await.unwrap().code(), Some(3));
    assert_eq!(running.wait().await.unwrap().code(), Some(3), "a second wait answers the same");
    until_none_alive(group).await;
}

#[tokio::test]
async fn stopping_is_polite_first_and_reaches_grandchildren() {
    let script = "trap 'echo asked; exit 0' TERM; sleep 600 & echo ready; wait";
    let mut running = processes().spawn(&shell(script)).unwrap();
    let mut lines = BufReader::new(running.take_stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
    running.stop(Duration::from_secs(20)).await.unwrap();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("asked"));
    until_none_alive(running.pid()).await;
}

#[tokio::test]
async fn who_ignores_the_request_is_killed() {
    let script = "trap '' TERM; echo ready; while :; do sleep 600; done";
    let mut running = processes().spawn(&shell(script)).unwrap();
    let mut lines = BufReader::new(running.take_stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
    let status = running.stop(Duration::from_millis(20)).await.unwrap();
    assert!(!status.success());
    until_none_alive(running.pid()).await;
}

#[tokio::test]
async fn dropping_kills_and_reaps() {
    let mut running = processes().spawn(&shell("sleep 600 & echo ready; cat")).unwrap();
    let group = running.pid();
    let mut stdin = running.take_stdin().unwrap();
    stdin.write_all(b"x").await.unwrap();
    let mut lines = BufReader::new(running.take_stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
    drop(running);
    until_none_alive(group).await;
    // The runtime's reaper has taken the zombie, too.
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    while std::path::Path::new(&format!("/proc/{group}")).exists() {
        ticks.tick().await;
    }
}

#[tokio::test]
async fn without_a_launcher_there_is_no_sandbox_and_nothing_runs() {
    use crate::egress::Reach;
    use crate::sandbox::{ArgumentPaths, Profile, ResourceLimits};
    let workspace = tempfile::tempdir().unwrap();
    let confinement = Confinement {
        profile: Profile::Strict,
        workspace: workspace.path().to_owned(),
        read: Vec::new(),
        write: Vec::new(),
        arguments: ArgumentPaths::Ignored,
        reach: Reach::nobody(),
        internal: None,
        unprotected: Vec::new(),
        limits: ResourceLimits::default(),
    };
    let spawn = Spawn { confinement: Some(confinement.clone()), ..shell("true") };
    let error = processes().spawn(&spawn).unwrap_err();
    assert!(matches!(error, SpawnError::Sandbox(SandboxError::NoLauncher(_))), "{error}");
    // An operator who says `none` gets none.
    let open = Confinement { profile: Profile::None, ..confinement };
    let spawn = Spawn { confinement: Some(open), ..shell("exit 7") };
    let mut running = processes().spawn(&spawn).unwrap();
    assert_eq!(running.wait().await.unwrap().code(), Some(7));
    assert_eq!(running.box_failure().await, None);
}
