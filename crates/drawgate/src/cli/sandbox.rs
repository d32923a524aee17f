//! `drawgate sandbox`: try the box that tools run in, and see what this machine can enforce.

mod doctor;
mod exec;
mod streams;
mod terminal;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use super::Globals;
use super::output::Output;

/// The longest time limit that is taken: a day.
const LONGEST: Duration = Duration::from_hours(24);

#[derive(Debug, clap::Subcommand)]
pub(super) enum SandboxCommand {
    /// Run any command in the box that tools run in, and try to break out
    Exec(Box<exec::ExecArgs>),
    /// Show what this machine can enforce, part by part, and which profiles work; exits 1 if the
    /// default one does not
    Doctor,
}

/// Needs neither a configuration nor a data folder.
pub(super) async fn run(command: &SandboxCommand, globals: &Globals) -> anyhow::Result<ExitCode> {
    match command {
        SandboxCommand::Exec(args) => Ok(exec::run(args, globals).await),
        SandboxCommand::Doctor => doctor::run(Output::new(globals.json)),
    }
}
