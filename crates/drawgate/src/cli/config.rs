//! `drawgate config`: is the configuration right, and what does it come to?

use std::path::Path;
use std::process::ExitCode;

use super::exit::Exit;
use super::running::Running;
use super::{Globals, Output};
use drawgate_runtime::config::{Config, Loaded, Problem};

#[derive(Debug, clap::Subcommand)]
pub(super) enum ConfigCommand {
    /// Check the file and report every problem with its location; says whether a running gateway has it in
    /// force
    Check,
    /// Show what is in force; secrets are never shown
    Show,
    /// Print the JSON Schema of the configuration file, for editors
    Schema,
    /// Print the JSON Schema of the policy file, for editors
    PolicySchema,
}

pub(super) async fn run(command: &ConfigCommand, globals: &Globals) -> anyhow::Result<ExitCode> {
    let out = Output::new(globals.json);
    let pretty = |value: &serde_json::Value| {
        anyhow::Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
    };
    match command {
        ConfigCommand::Check => return check(globals, out).await,
        ConfigCommand::Show => {
            let mut loaded = super::load(globals.target()?.source)?;
            loaded.config.listen = globals.listen.unwrap_or(loaded.config.listen);
            out.raw(pretty(&loaded.config.redacted())?.as_bytes())?;
        }
        ConfigCommand::Schema => out.raw(pretty(&Config::json_schema())?.as_bytes())?,
        ConfigCommand::PolicySchema => {
            out.raw(pretty(&drawgate_core::policy::Rules::json_schema())?.as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn check(globals: &Globals, out: Output) -> anyhow::Result<ExitCode> {
    let target = globals.target()?;
    let loaded = super::load(target.source.clone());
    let force = match &loaded {
        Ok(loaded) => in_force(loaded, &target.data(loaded)).await,
        Err(_) => None,
    };
    let (problems, file, exit) = match loaded {
        Ok(loaded) => (loaded.warnings, loaded.path, Exit::Done),
        Err(errors) => (errors.problems, None, Exit::Configuration),
    };
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    let good = exit == Exit::Done;
    out.either(&serde_json::json!({ "valid": good, "problems": texts, "gateway": force }), || {
        let mut lines = texts.clone();
        if good {
            lines.push(match file {
                Some(file) => format!("{}: valid", file.display()),
                None => "no configuration file: defaults are in force".to_owned(),
            });
        }
        lines.extend(force.clone());
        lines.join("\n")
    })?;
    Ok(exit.into())
}

/// Whether the gateway that runs on the data folder has this very configuration in force, in words; nothing
/// where none runs.
async fn in_force(loaded: &Loaded, data: &Path) -> Option<String> {
    let running = Running::find(data).await?;
    // An edit counts once it has not changed for a moment, which this one need not wait for.
    let _followed_later = running.look().await;
    let configuration = running.status().await.ok()?.configuration;
    let (now, pending) = (configuration.in_force, configuration.pending);
    Some(match pending {
        _ if now.config_hash == loaded.text_hash => {
            "the running gateway has it in force".to_owned()
        }
        Some(pending) => format!("the running gateway can't put it in force: {}", pending.problem),
        None => "the running gateway has not put it in force yet".to_owned(),
    })
}
