//! `drawgate config`: is the configuration right, and what does it come to?

use std::process::ExitCode;

use super::exit::Exit;
use super::{Globals, Output};
use drawgate_runtime::config::{Config, Problem};

#[derive(Debug, clap::Subcommand)]
pub(super) enum ConfigCommand {
    /// Check the file and report every problem with its location
    Check,
    /// Show what is in force; secrets are never shown
    Show,
    /// Print the JSON Schema of the configuration file, for editors
    Schema,
    /// Print the JSON Schema of the policy file, for editors
    PolicySchema,
}

pub(super) fn run(command: &ConfigCommand, globals: &Globals) -> anyhow::Result<ExitCode> {
    let out = Output::new(globals.json);
    let pretty = |value: &serde_json::Value| {
        anyhow::Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
    };
    match command {
        ConfigCommand::Check => return check(globals, out),
        ConfigCommand::Show => {
            let loaded = super::load(globals.target()?.source)?;
            out.raw(pretty(&loaded.config.redacted())?.as_bytes())?;
        }
        ConfigCommand::Schema => out.raw(pretty(&Config::json_schema())?.as_bytes())?,
        ConfigCommand::PolicySchema => {
            out.raw(pretty(&drawgate_core::policy::Rules::json_schema())?.as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(globals: &Globals, out: Output) -> anyhow::Result<ExitCode> {
    let (problems, file, exit) = match super::load(globals.target()?.source) {
        Ok(loaded) => (loaded.warnings, loaded.path, Exit::Done),
        Err(errors) => (errors.problems, None, Exit::Configuration),
    };
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    let good = exit == Exit::Done;
    out.either(&serde_json::json!({ "valid": good, "problems": texts }), || {
        let mut lines = texts.clone();
        if good {
            lines.push(match file {
                Some(file) => format!("{}: valid", file.display()),
                None => "no configuration file: defaults are in force".to_owned(),
            });
        }
        lines.join("\n")
    })?;
    Ok(exit.into())
}
