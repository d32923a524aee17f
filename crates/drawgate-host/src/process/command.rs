//! From a description to a started child.

#![expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{Access, access};
use tokio::process::Command;

use super::{Processes, Running, Spawn, SpawnError, launcher};

pub(super) fn spawn(processes: &Processes, spawn: &Spawn) -> Result<Running, SpawnError> {
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
    Running::new(command.spawn().map_err(failed)?).map_err(failed)
}

fn command(launcher: Option<&Path>, program: &Path) -> Command {
    match launcher {
        None => Command::new(program),
        Some(path) => {
            let mut command = Command::new(path);
            command.arg(launcher::SUBCOMMAND).arg(std::process::id().to_string()).arg(program);
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
fn find(program: &str, path: Option<&OsString>) -> Option<PathBuf> {
    if program.is_empty() || program.contains('\0') {
        return None;
    }
    let executable = |file: &Path| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| executable(file));
    }
    let path = path.map_or(OsStr::new("/usr/bin:/bin"), OsString::as_os_str);
    std::env::split_paths(path).map(|dir| dir.join(program)).find(|file| executable(file))
}
