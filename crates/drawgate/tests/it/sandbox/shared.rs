//! What several boxes use together, and who is stopped for it.

use std::path::Path;

use drawgate::cli::machine::secrets;
use drawgate_host::Host;
use drawgate_host::egress::Reach;
use drawgate_host::process::{Running, Spawn};
use drawgate_host::sandbox::{
    ArgumentPaths, Confinement, Limit, Profile, ResourceLimits, SandboxError,
};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::PROGRAM;

/// Says that it has so many MiB, and waits.
const HOLD: &str =
    "import sys\nx = b'x' * (int(sys.argv[1]) << 20)\nprint('ready', flush=True)\nsys.stdin.read()";

fn host() -> Host {
    Host::new(secrets(), Some(PROGRAM.into())).unwrap()
}

fn start(host: &Host, workspace: &Path, limits: ResourceLimits, command: &[&str]) -> Running {
    let confinement = Confinement {
        profile: Profile::Strict,
        workspace: workspace.to_owned(),
        read: Vec::new(),
        write: Vec::new(),
        internal: None,
        unprotected: Vec::new(),
        arguments: ArgumentPaths::Ignored,
        reach: Reach::nobody(),
        limits,
    };
    let spawn = Spawn {
        program: command[0].to_owned(),
        args: command[1..].iter().map(|word| (*word).to_owned()).collect(),
        confinement: Some(confinement),
        ..Spawn::default()
    };
    host.processes.spawn(&spawn).unwrap()
}

async fn is_ready(running: &mut Running) -> bool {
    let mut line = String::new();
    BufReader::new(running.take_stdout().unwrap()).read_line(&mut line).await.unwrap();
    line == "ready\n"
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_boxes_use_too_much_memory_the_largest_is_stopped() {
    let (host, workspace) = (host(), TempDir::new().unwrap());
    host.processes.limit_memory(Some(320));
    let hold = |mib| {
        let command = ["python3", "-c", HOLD, mib];
        start(&host, workspace.path(), ResourceLimits::default(), &command)
    };
    let mut small = hold("100");
    assert!(is_ready(&mut small).await);
    let mut large = hold("400");
    assert!(!large.wait().await.unwrap().success());
    let failure = large.box_failure().await;
    assert_eq!(failure, Some(SandboxError::TotalMemory { most: 320 }));
    assert!(failure.unwrap().is_shared());
    // The small one goes on to its own end.
    drop(small.take_stdin());
    assert!(small.wait().await.unwrap().success());
    assert_eq!(small.box_failure().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_box_is_not_blamed_for_what_another_may_have_written() {
    const WRITE: &str = "head -c 33554432 /dev/zero > big; cat";
    let limits = ResourceLimits { disk_mb: 8, ..ResourceLimits::default() };
    let (limit, most) = (Limit::Disk, 8);
    let (host, workspace) = (host(), TempDir::new().unwrap());
    let mut innocent = start(&host, workspace.path(), limits, &["sh", "-c", "echo ready; cat"]);
    assert!(is_ready(&mut innocent).await);
    let mut writer = start(&host, workspace.path(), limits, &["sh", "-c", WRITE]);
    for running in [&mut writer, &mut innocent] {
        running.wait().await.unwrap();
        let failure = running.box_failure().await;
        assert_eq!(failure, Some(SandboxError::SharedLimit { limit, most }));
    }
    // Alone, there is no doubt.
    let workspace = TempDir::new().unwrap();
    let mut alone = start(&host, workspace.path(), limits, &["sh", "-c", WRITE]);
    alone.wait().await.unwrap();
    assert_eq!(alone.box_failure().await, Some(SandboxError::Limit { limit, most }));
}
