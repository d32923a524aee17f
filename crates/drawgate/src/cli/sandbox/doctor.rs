//! `drawgate sandbox doctor`: what this machine can enforce, and what to do about the rest.

use std::process::ExitCode;

use drawgate_host::sandbox::{Abilities, Ability, Enforcement, Profile};

use super::super::machine;
use super::super::output::Output;

/// Builds a box of each profile; all found out by trying.
pub(super) fn run(out: Output) -> anyhow::Result<ExitCode> {
    let host = machine::host()?;
    let abilities = Abilities::probe(&host.processes);
    out.either(&*abilities, || explain(&abilities))?;
    let works = abilities.allows(Profile::default()).is_ok();
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn explain(abilities: &Abilities) -> String {
    let mut lines = Vec::new();
    for (profile, works) in &abilities.profiles {
        let default = if *profile == Profile::default() { " (the default)" } else { "" };
        lines.push(match works {
            Ok(()) => format!("profile `{profile}`{default}: works"),
            Err(error) => format!("profile `{profile}`{default}: does not work: {error}"),
        });
    }
    lines.push(String::new());
    let width = abilities.parts.iter().map(|ability| ability.part.len()).max().unwrap_or_default();
    lines.extend(abilities.parts.iter().map(|ability| part(ability, width)));
    if abilities.allows(Profile::default()).is_err() {
        lines.push(String::new());
        lines.push(
            "Calls that need a profile which does not work are refused; only `none`, named by the \
             operator for a tool, runs without the box. docs/sandbox.md says what a machine needs."
                .to_owned(),
        );
    }
    lines.join("\n")
}

fn part(ability: &Ability, width: usize) -> String {
    let word = match ability.enforced {
        Enforcement::Yes => "yes",
        Enforcement::Partly => "partly",
        Enforcement::No => "no",
    };
    let line = format!("{:width$}  {word:6}  {}", ability.part, ability.how);
    match ability.advice {
        Some(advice) => format!("{line}\n{:width$}  {:6}  better: {advice}", "", ""),
        None => line,
    }
}
