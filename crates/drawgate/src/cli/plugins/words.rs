//! Plugins in words.

use std::fmt::Write as _;

use crate::cli::screen::local_time as time;
use drawgate_agents::plugin::PluginManifest;
use drawgate_agents::plugin::process::Checked;
use drawgate_runtime::operations::{FileChange, PluginPreview, PluginState, ShownPlugin};

use crate::cli::diff;

/// One line of the list.
pub(super) fn row(shown: &ShownPlugin) -> Vec<String> {
    let status = shown.status.as_ref();
    let tools = status.map(|status| status.tools.join(" ")).unwrap_or_default();
    let hooks: Vec<&str> =
        status.iter().flat_map(|status| &status.hooks).map(|hook| hook.as_str()).collect();
    vec![
        shown.record.name.clone(),
        version(shown).to_owned(),
        state(shown.state).to_owned(),
        tools,
        hooks.join(" "),
        shown.record.position.to_string(),
        shown.problem.clone().unwrap_or_default(),
    ]
}

fn version(shown: &ShownPlugin) -> &str {
    match (&shown.record.files, &shown.status) {
        (Some(files), _) => &files.version,
        (None, Some(status)) => &status.version,
        (None, None) => "",
    }
}

const fn state(state: PluginState) -> &'static str {
    match state {
        PluginState::Enabled => "enabled",
        PluginState::Disabled => "disabled",
        PluginState::Failed => "failed",
    }
}

/// Everything about a plugin.
pub(super) fn shown(shown: &ShownPlugin) -> String {
    let record = &shown.record;
    let mut text = format!("{} {}: {}\n", record.name, version(shown), state(shown.state));
    if let Some(problem) = &shown.problem {
        let _ = writeln!(text, "problem       {problem}");
    }
    match &record.files {
        Some(files) => {
            let from = files.from.display();
            let _ = writeln!(text, "added         {} from {from}", time(files.added_at));
            let _ = writeln!(text, "content       {}", files.hash);
        }
        None => text.push_str("added         comes with the gateway\n"),
    }
    if let Some(manifest) = &shown.manifest {
        text.push_str(&permissions(manifest));
    }
    if let Some(status) = &shown.status {
        let tools: Vec<String> =
            status.tools.iter().map(|tool| format!("{}__{tool}", record.name)).collect();
        let _ = writeln!(text, "tools         {}", list(tools.iter().map(String::as_str)));
        let _ =
            writeln!(text, "hooks         {}", list(status.hooks.iter().map(|hook| hook.as_str())));
        let _ = writeln!(text, "failed hooks  {}, not told {}", status.failed, status.dropped);
    }
    let _ = writeln!(text, "position      {}", record.position);
    for (point, hook) in &record.hooks {
        let tools = hook.tools.as_ref().map_or("all tools".to_owned(), |tools| tools.join(" "));
        let (on_failure, mode) = (json_word(hook.on_failure), json_word(hook.mode));
        let _ = writeln!(
            text,
            "{:<13} {mode}, on failure {on_failure}, {} ms, {tools}",
            point.as_str(),
            hook.timeout_ms
        );
    }
    let settings = serde_json::to_string(&record.settings).unwrap_or_default();
    let _ = writeln!(text, "settings      {settings}");
    text
}

fn json_word(value: impl serde::Serialize) -> String {
    let word = serde_json::to_value(value).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

/// A plugin that has been put to work.
pub(super) fn at_work(shown: &ShownPlugin) -> String {
    let name = &shown.record.name;
    let tools = shown.status.iter().flat_map(|status| &status.tools);
    let tools: Vec<String> = tools.map(|tool| format!("`{name}__{tool}`")).collect();
    let tools = if tools.is_empty() { "no tools".to_owned() } else { tools.join(", ") };
    format!("`{name}` is at work: {tools}")
}

/// What a person should know before adding a plugin.
pub(super) fn preview(preview: &PluginPreview) -> String {
    let manifest = &preview.manifest;
    let mut text = match &preview.replaces {
        Some(record) => {
            let old = record.files.as_ref().map_or("", |files| files.version.as_str());
            format!("{} {}, in place of {old}\n", manifest.name, manifest.version)
        }
        None => format!("{} {}, new\n", manifest.name, manifest.version),
    };
    text.push_str(&permissions(manifest));
    for FileChange { path, before, now } in &preview.changes {
        let what = match (before, now) {
            (None, _) => "new",
            (Some(_), None) => "removed",
            (Some(_), Some(_)) => "changed",
        };
        let _ = writeln!(text, "{what} file `{path}`:");
        let [before, now] = [before, now].map(|text| text.as_deref().unwrap_or_default());
        for (mark, line) in diff::lines(before, now) {
            let _ = writeln!(text, "  {} {line}", mark.sign());
        }
    }
    text
}

/// A plugin that can be loaded, and what it asks for.
pub(super) fn checked(checked: &Checked) -> String {
    let Checked { manifest, tools, hooks } = checked;
    let mut text = format!("{} {}: no problems\n", manifest.name, manifest.version);
    let _ = writeln!(text, "tools         {}", list(tools.iter().map(String::as_str)));
    let _ = writeln!(text, "hooks         {}", list(hooks.iter().map(|hook| hook.as_str())));
    text + &permissions(manifest)
}

fn permissions(manifest: &PluginManifest) -> String {
    let allowed = &manifest.permissions;
    let texts = |all: &[String]| list(all.iter().map(String::as_str));
    let mut text = format!("runs          {} ({})\n", manifest.main, manifest.runtime.as_str());
    let read = std::iter::once("its own folder").chain(allowed.read.iter().map(String::as_str));
    let _ = writeln!(text, "reads         {}", list(read));
    let _ = writeln!(text, "writes        {}", texts(&allowed.write));
    let _ = writeln!(text, "reaches       {}", texts(&allowed.hosts));
    let yes_no = |yes: bool| if yes { "yes" } else { "no" };
    let _ = writeln!(text, "uses models   {}", yes_no(allowed.invoke));
    let _ = writeln!(text, "changes calls {}", yes_no(allowed.rewrite));
    let _ =
        writeln!(text, "asked at      {}", list(allowed.hooks.iter().map(|hook| hook.as_str())));
    text
}

fn list<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = all.collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}
