//! What the sandbox costs: a program that does nothing, started plainly and in the box.
//!
//! Measured from the start to the known end, as a gateway does it: the same code, with the program
//! under measure as the launcher.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use drawgate_host::Host;
use drawgate_host::egress::Reach;
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::{ArgumentPaths, Confinement, Profile, ResourceLimits};
use drawgate_host::secrets::Secrets;
use serde::Serialize;
use tempfile::TempDir;

use super::Plan;
use super::gateway::Program;
use crate::histogram::Histogram;

/// The program that is started.
const NOTHING: &str = "/usr/bin/true";

/// The ways to start it, in turn. The first is the base of what the others add.
const WAYS: [Way; 5] = [
    Way { name: "plain", profile: None },
    Way { name: "gateway, no box", profile: Some(Profile::None) },
    Way { name: "strict", profile: Some(Profile::Strict) },
    Way { name: "workspace", profile: Some(Profile::Workspace) },
    Way { name: "network", profile: Some(Profile::Network) },
];

#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// None: started by this program itself.
    profile: Option<Profile>,
}

/// Times from the start of a program to its end, in milliseconds.
#[derive(Serialize)]
pub(crate) struct Spawned {
    pub(crate) name: &'static str,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// What it adds to the plain p50 and p99.
    pub(crate) added_p50_ms: Option<f64>,
    pub(crate) added_p99_ms: Option<f64>,
}

/// Starts the program again and again, every way in turn.
pub(crate) async fn spawns(program: &Program, plan: Plan) -> Result<Vec<Spawned>> {
    eprintln!("{} starts of a program, plainly and in the box", plan.spawns);
    let path = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    let host = Host::new(Secrets::new(path), Some(program.path().to_owned()))?;
    let workspace = TempDir::with_prefix("drawgate-bench-")?;
    let mut times: [Histogram; 5] = std::array::from_fn(|_| Histogram::new());
    for round in 0..=plan.spawns {
        for (way, histogram) in WAYS.iter().zip(&mut times) {
            let took = one(&host, *way, &workspace).await;
            let took = took.with_context(|| format!("a start with `{}`", way.name))?;
            // The first round pays for what is only read or asked once.
            if round > 0 {
                histogram.record(took);
            }
        }
    }
    Ok(WAYS.iter().zip(&times).map(|(way, histogram)| spawned(way, histogram, &times)).collect())
}

async fn one(host: &Host, way: Way, workspace: &TempDir) -> Result<Duration> {
    let Some(profile) = way.profile else { return plain().await };
    let confinement = Confinement {
        profile,
        workspace: workspace.path().to_owned(),
        read: Vec::new(),
        write: Vec::new(),
        arguments: ArgumentPaths::Ignored,
        reach: Reach::nobody(),
        internal: None,
        unprotected: Vec::new(),
        limits: ResourceLimits::default(),
    };
    let spawn = Spawn {
        program: NOTHING.to_owned(),
        working_dir: Some(workspace.path().to_owned()),
        confinement: Some(confinement),
        ..Spawn::default()
    };
    let begin = Instant::now();
    let mut running = host.processes.spawn(&spawn)?;
    let status = running.wait().await?;
    let took = begin.elapsed();
    if let Some(failure) = running.box_failure().await {
        return Err(failure.into());
    }
    if !status.success() {
        bail!("`{NOTHING}` ended with {status}");
    }
    Ok(took)
}

async fn plain() -> Result<Duration> {
    let begin = Instant::now();
    let mut command = tokio::process::Command::new(NOTHING);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let status = command.spawn()?.wait().await?;
    let took = begin.elapsed();
    if !status.success() {
        bail!("`{NOTHING}` ended with {status}");
    }
    Ok(took)
}

fn spawned(way: &Way, times: &Histogram, all: &[Histogram]) -> Spawned {
    let at = |times: &Histogram, per_mille| times.quantile(per_mille).as_secs_f64() * 1e3;
    let added = |per_mille| {
        let base = all.first().filter(|_| way.profile.is_some())?;
        Some(at(times, per_mille) - at(base, per_mille))
    };
    Spawned {
        name: way.name,
        p50_ms: at(times, 500),
        p99_ms: at(times, 990),
        added_p50_ms: added(500),
        added_p99_ms: added(990),
    }
}
