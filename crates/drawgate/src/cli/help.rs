//! The help of the program itself: its commands by what they are for.

/// Commands by what they are for, in the order in which people meet them.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Daily",
        &["serve", "import", "connect", "disconnect", "servers", "tools", "approvals", "status"],
    ),
    ("Access", &["agents", "grants", "keys", "packs", "secrets"]),
    ("Build", &["toolpacks", "plugins", "sandbox"]),
    ("Run agents", &["run", "runs", "threads", "tasks", "profiles", "providers"]),
    (
        "Operate",
        &[
            "init",
            "config",
            "service",
            "mcp",
            "audit",
            "artifacts",
            "backup",
            "restore",
            "completions",
            "help",
        ],
    ),
];

/// The same program, whose help has its commands in groups. The rest of it is clap's own.
pub(super) fn grouped(program: clap::Command) -> clap::Command {
    let help = program.clone().render_help().ansi().to_string();
    match in_groups(&help) {
        Some(help) => program.override_help(help),
        None => program,
    }
}

/// A help text with the entries of its commands in another order, each group below its title.
fn in_groups(help: &str) -> Option<String> {
    let (before, rest) = help.split_once("Commands:")?;
    let (heading, rest) = rest.split_once('\n')?;
    let (list, after) = rest.split_once("\n\n")?;
    let mut entries: Vec<(String, Vec<&str>)> = Vec::new();
    for line in list.lines() {
        let is_first = line.starts_with("  ") && !line.starts_with("   ");
        match entries.last_mut() {
            Some((_, lines)) if !is_first => lines.push(line),
            _ => entries.push((first_word(line), vec![line])),
        }
    }
    let mut shown = Vec::new();
    for (title, names) in GROUPS {
        shown.push(title);
        for name in names {
            let lines = entries.iter().filter(|(known, _)| known == name);
            shown.extend(lines.flat_map(|(_, lines)| lines));
        }
    }
    Some(format!("{before}Commands:{heading}\n{}\n\n{after}", shown.join("\n")))
}

/// The first word of a line, without what colours it.
fn first_word(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, text)| text));
    let plain = rest.fold(first, |plain, text| plain + text);
    plain.split_whitespace().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group_and_in_the_help() {
        let mut program = Cli::command();
        program.build();
        let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
        let mut visible: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, visible);
        let help = grouped(Cli::command()).render_help().to_string();
        assert!(help.contains("Commands:\nDaily\n  serve"), "{help}");
        for name in named {
            assert_eq!(help.matches(&format!("\n  {name} ")).count(), 1, "{name}: {help}");
        }
    }
}
