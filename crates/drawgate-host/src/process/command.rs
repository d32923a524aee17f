//! From a description to a started child.

#![expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{Access, access};
use tokio::process::Command;

use super::without_blocking_others;
use super::{Processes, Running, SetAside, Spawn, SpawnError, Terminal, launcher, open_files};
use crate::egress::Reach;
use crate::egress::proxy::ProxyAccess;
use crate::sandbox::launch::{self, Started};
use crate::sandbox::plan::Request;
use crate::sandbox::wire::{Enforced, Swept};
use crate::sandbox::{Confinement, Profile, SandboxError};

pub(super) fn spawn(processes: &Processes, spawn: &Spawn) -> Result<Running, SpawnError> {
    match spawn.confinement.as_ref().filter(|held| held.profile != Profile::None) {
        Some(confinement) => spawn_boxed(processes, spawn, confinement, None),
        None => spawn_plain(processes, spawn),
    }
}

pub(super) fn spawn_on(
    processes: &Processes,
    spawn: &Spawn,
    terminal: &Terminal,
) -> Result<Running, SpawnError> {
    let confinement = spawn.confinement.as_ref().filter(|held| held.profile != Profile::None);
    let confinement = confinement
        .ok_or_else(|| SpawnError::Refused("a terminal is for programs in a sandbox".to_owned()))?;
    spawn_boxed(processes, spawn, confinement, Some(terminal))
}

fn spawn_boxed(
    processes: &Processes,
    spawn: &Spawn,
    confinement: &Confinement,
    terminal: Option<&Terminal>,
) -> Result<Running, SpawnError> {
    let mut started = start_boxed(processes, spawn, confinement, terminal)?;
    if processes.proven.get().is_none() {
        match without_blocking_others(|| started.wait()) {
            Ok(enforced) => {
                let _known = processes.proven.set(enforced);
            }
            Err(error) => {
                started.end();
                return Err(error.into());
            }
        }
    }
    let has_network = confinement.profile == Profile::Network;
    let access = processes.egress.clone().map(|egress| ProxyAccess {
        egress,
        reach: if has_network { confinement.reach.clone() } else { Reach::nobody() },
        internal: confinement.internal.clone().filter(|_| has_network),
        refused: spawn.refused_hosts.clone(),
    });
    let failed = |source| SpawnError::Start { program: spawn.program.clone(), source };
    let (streams, boxed) =
        started.run(access, listener(processes, spawn, confinement)).map_err(failed)?;
    Ok(Running::in_box(streams, boxed))
}

/// Passes on what a box set aside, with whose it was.
fn listener(
    processes: &Processes,
    spawn: &Spawn,
    confinement: &Confinement,
) -> Option<launch::SweepListener> {
    let listener = processes.listener.clone()?;
    let (program, workspace) = (spawn.program.clone(), confinement.workspace.clone());
    Some(Box::new(move |Swept { folder, removed, left }| {
        let (program, workspace) = (program.clone(), workspace.clone());
        listener(SetAside { program, workspace, folder, names: removed, left });
    }))
}

fn start_boxed(
    processes: &Processes,
    spawn: &Spawn,
    confinement: &Confinement,
    terminal: Option<&Terminal>,
) -> Result<Started, SpawnError> {
    let launcher = processes.launcher_or_why()?;
    let has_proxy = spawn.has_proxy(confinement);
    if has_proxy && processes.egress.is_none() {
        return Err(SandboxError::NoEgress.into());
    }
    environment(&processes.inherited, &spawn.env)?;
    // Only in the gateway's own `PATH`: the other may be the author's of what is confined.
    let program = find(&spawn.program, processes.inherited.get("PATH"))
        .ok_or_else(|| SpawnError::NotFound(spawn.program.clone()))?;
    let request = Request {
        program: &program,
        args: &spawn.args,
        given: &spawn.env,
        inherited: &processes.inherited,
        authorities: processes.authorities(),
        working_dir: spawn.working_dir.as_deref(),
        programs: &spawn.programs,
        trusted: &processes.trusted,
        has_proxy,
        confinement,
    };
    let failed = |source| SpawnError::Start { program: spawn.program.clone(), source };
    let mut plan = request.plan()?;
    let folder_use = processes.folders.enter(plan.writable(), &plan.unprotected);
    plan.absent = folder_use.absent.clone();
    plan.cgroups = processes.proven.get().map(|first| first.cgroups.clone()).unwrap_or_default();
    let memory = processes.memory.enter();
    let order = launch::Order { plan: &plan, terminal: terminal.map(Terminal::far) };
    launch::start(&processes.fork_server, launcher, &order, folder_use, memory).map_err(failed)
}

/// Builds a box for a program that does nothing, and takes it down.
pub(super) fn try_box(
    processes: &Processes,
    confinement: &Confinement,
) -> Result<Enforced, SandboxError> {
    let spawn = Spawn { program: "true".to_owned(), ..Spawn::default() };
    match start_boxed(processes, &spawn, confinement, None) {
        Ok(mut started) => {
            let enforced = started.wait();
            started.end();
            enforced
        }
        Err(SpawnError::Sandbox(error)) => Err(error),
        Err(error) => {
            Err(SandboxError::Program { program: spawn.program, reason: error.to_string() })
        }
    }
}

fn spawn_plain(processes: &Processes, spawn: &Spawn) -> Result<Running, SpawnError> {
    let environment = environment(&processes.inherited, &spawn.env)?;
    if let Some(dir) = spawn.working_dir.as_ref().filter(|dir| !dir.is_dir()) {
        return Err(SpawnError::WorkingDir(dir.clone()));
    }
    // Looked up here, because a launcher could report a missing program only by its exit code.
    let program = find(&spawn.program, environment.get("PATH"))
        .ok_or_else(|| SpawnError::NotFound(spawn.program.clone()))?;
    let mut command = command(processes.launcher.as_deref(), &program);
    command
        .args(&spawn.args)
        .env_clear()
        .envs(&environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(dir) = &spawn.working_dir {
        command.current_dir(dir);
    }
    let failed = |source| SpawnError::Start { program: spawn.program.clone(), source };
    Running::in_group(command.spawn().map_err(failed)?).map_err(failed)
}

fn command(launcher: Option<&Path>, program: &Path) -> Command {
    match launcher {
        None => Command::new(program),
        Some(path) => {
            let mut command = Command::new(path);
            command.arg(launcher::SUBCOMMAND).arg(std::process::id().to_string());
            command.arg(open_files::of_children()).arg(program);
            command
        }
    }
}

fn environment(
    inherited: &BTreeMap<String, OsString>,
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, OsString>, SpawnError> {
    let mut all = inherited.clone();
    for (name, value) in given {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(SpawnError::Variable(name.escape_debug().to_string()));
        }
        all.insert(name.clone(), value.into());
    }
    Ok(all)
}

/// A name with a slash is a path; any other is looked up in `PATH`.
pub(super) fn find(program: &str, path: Option<&OsString>) -> Option<PathBuf> {
    if program.is_empty() || program.contains('\0') {
        return None;
    }
    let executable = |file: &Path| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| executable(file));
    }
    let path = path.map_or(OsStr::new("/usr/bin:/bin"), OsString::as_os_str);
    // A relative folder would be one of the gateway's own, or of whoever wrote there.
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|dir| dir.join(program)).find(|file| executable(file))
}
