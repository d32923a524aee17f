//! Profiles in words.

use std::fmt::Write as _;

use crate::cli::screen::local_time as time;
use drawgate_agents::profile::{Budget, Invoker, Problem, Profile};
use drawgate_runtime::operations::ShownProfile;
use drawgate_runtime::profiles::ProfileState;

use crate::cli::agents::joined;
use crate::cli::diff;

/// One line of the list.
pub(super) fn row(shown: &ShownProfile) -> Vec<String> {
    let model = shown.profile.as_ref().and_then(|profile| profile.model.clone());
    let problem = shown.problems.first().map(ToString::to_string).unwrap_or_default();
    vec![
        shown.name.clone(),
        state(shown.state).to_owned(),
        model.unwrap_or_default(),
        shown.profile.as_ref().map(tools).unwrap_or_default(),
        shown.path.display().to_string(),
        problem,
    ]
}

/// Everything about a profile.
pub(super) fn shown(shown: &ShownProfile) -> String {
    let mut text = format!("{}: {}", shown.name, state(shown.state));
    if let Some(at) = shown.accepted_at {
        let _ = write!(text, ", accepted {}", time(at));
    }
    let _ = writeln!(text, "\nfile          {}", shown.path.display());
    if let Some(profile) = &shown.profile {
        let _ = writeln!(text, "content       {}", profile.hash);
        text.push_str(&terms(profile));
    }
    text.push_str(&problems(&shown.problems));
    text.push_str(&warnings(&shown.warnings));
    if let Some(profile) = &shown.profile {
        for tool in &profile.custom {
            let _ = writeln!(text, "\nprompt of `{}`:\n{}", tool.name, tool.prompt.trim_end());
        }
        let _ = writeln!(text, "\ninstructions:\n{}", profile.instructions);
    }
    text
}

/// What a person should know before accepting a profile.
pub(super) fn abilities(shown: &ShownProfile, profile: &Profile) -> String {
    let change = match shown.state {
        ProfileState::Changed => "changed since it was accepted",
        ProfileState::New | ProfileState::Accepted | ProfileState::Broken | ProfileState::Gone => {
            "new"
        }
    };
    let mut text = format!("{} ({change}), {}\n", shown.name, shown.path.display());
    text.push_str(&terms(profile));
    text.push_str(&warnings(&shown.warnings));
    if let Some(change) = &shown.change {
        text.push_str("what has changed:\n");
        for (mark, line) in diff::lines(&change.before, &change.now) {
            let _ = writeln!(text, "  {} {line}", mark.sign());
        }
    }
    let _ = writeln!(text, "`drawgate profiles show {}` shows its instructions", shown.name);
    text
}

/// What was accepted.
pub(super) fn accepted(accepted: &[ShownProfile], chosen: &[ShownProfile]) -> String {
    match (accepted, chosen) {
        ([], [only]) if only.state == ProfileState::Accepted => {
            format!("`{}` is accepted already", only.name)
        }
        ([], _) => "nothing was accepted".to_owned(),
        (all, _) => {
            let names: Vec<String> = all.iter().map(|shown| format!("`{}`", shown.name)).collect();
            format!("accepted {}", names.join(", "))
        }
    }
}

/// Problems, a line each.
pub(super) fn problems(all: &[Problem]) -> String {
    lines("problem", all)
}

/// Warnings, a line each.
pub(super) fn warnings(all: &[Problem]) -> String {
    lines("warning", all)
}

fn lines(word: &str, all: &[Problem]) -> String {
    let mut text = String::new();
    for found in all {
        let _ = writeln!(text, "  {word}: {found}");
    }
    text
}

/// What its runs may do and use up.
fn terms(profile: &Profile) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key:<13} {value}");
    };
    line("description", &profile.description);
    line("model", profile.model.as_deref().unwrap_or("that of the caller, or the default"));
    match profile.invoker {
        Invoker::Api => {}
        program @ (Invoker::Claude | Invoker::Codex | Invoker::Gemini | Invoker::Opencode) => {
            line("program", &format!("{}, in a sandbox", program.as_str()));
        }
    }
    line("tools", &tools(profile));
    if !profile.tools.denied.is_empty() {
        line("denied", &profile.tools.denied.join(", "));
    }
    if let Some(agents) = &profile.tools.agents {
        line("agents", &list(agents));
    }
    for tool in &profile.custom {
        let model = tool.model.as_deref().unwrap_or("the same model");
        let open = if tool.public { ", open to all callers" } else { "" };
        line("own tool", &format!("{} ({model}{open}): {}", tool.name, tool.description));
    }
    let ceiling = profile.ceiling.as_deref().map(|ceiling| match ceiling {
        [] => "no capabilities".to_owned(),
        some => joined(some),
    });
    line("ceiling", ceiling.as_deref().unwrap_or("none: all that its caller may do"));
    line("budget", &budget(&profile.budget));
    if let Some(turns) = profile.max_turns {
        line("turns", &turns.to_string());
    }
    if profile.public {
        line("public", "callers may use it as a tool");
    }
    text
}

fn tools(profile: &Profile) -> String {
    profile.tools.allowed.as_deref().map_or_else(|| "all".to_owned(), list)
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn budget(budget: &Budget) -> String {
    let Budget { tokens, cost_usd, seconds, tool_calls, runs } = budget;
    let counts = [(tokens, "tokens"), (seconds, "s"), (tool_calls, "tool calls"), (runs, "runs")];
    let counts =
        counts.into_iter().filter_map(|(count, unit)| Some(format!("{} {unit}", (*count)?)));
    let all: Vec<String> = counts.chain(cost_usd.map(|cost| format!("{cost} USD"))).collect();
    if all.is_empty() { "none of its own".to_owned() } else { all.join(", ") }
}

const fn state(state: ProfileState) -> &'static str {
    match state {
        ProfileState::Accepted => "accepted",
        ProfileState::New => "waits: new",
        ProfileState::Changed => "waits: changed",
        ProfileState::Broken => "has problems",
        ProfileState::Gone => "file is gone",
    }
}
