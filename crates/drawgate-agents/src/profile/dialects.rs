//! The fields and tools of other programs, as data.
//!
//! There is one set of fields for all files: those of Drawgate, of Claude Code, of `OpenCode` and of
//! Gemini CLI. Nothing depends on which program a file was written for.

/// A field of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Name,
    Description,
    Model,
    Tools,
    DeniedTools,
    Agents,
    Permission,
    Invoker,
    Ceiling,
    Budget,
    MaxTurns,
    TimeoutMinutes,
    Temperature,
    Public,
    Kind,
    Disabled,
}

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is read as this field.
    Read(Field),
    /// It is about another program alone.
    Ignored,
    /// It asks for something that is not done here; why.
    Warned(&'static str),
}

use Field::{
    Agents, Budget, Ceiling, DeniedTools, Description, Disabled, Invoker, Kind, MaxTurns, Model,
    Name, Permission, Public, Temperature, TimeoutMinutes, Tools,
};
use Meaning::{Ignored, Read, Warned};

const PERMISSIONS: &str = "ignored: a file can't permit calls; grants and policy rules do";
const HOOKS: &str = "ignored: a file can't start programs";
const SERVERS: &str = "ignored: add servers to the configuration, and name their tools in `tools`";
const SKILLS: &str = "ignored: skills are not loaded; put what matters into the text";
const MODEL_SETTINGS: &str = "ignored: it is not passed to the model";
const PROMPT: &str = "ignored: the text below the front matter is what the model is told";
const ISOLATION: &str = "ignored: runs share the workspace";

/// Every key that a file may have.
pub(super) const KEYS: &[(&str, Meaning)] = &[
    ("name", Read(Name)),
    ("description", Read(Description)),
    ("model", Read(Model)),
    ("tools", Read(Tools)),
    ("agents", Read(Agents)),
    ("invoker", Read(Invoker)),
    ("ceiling", Read(Ceiling)),
    ("budget", Read(Budget)),
    ("max_turns", Read(MaxTurns)),
    ("temperature", Read(Temperature)),
    ("public", Read(Public)),
    // Claude Code.
    ("allowed-tools", Read(Tools)),
    ("disallowedTools", Read(DeniedTools)),
    ("disallowed-tools", Read(DeniedTools)),
    ("maxTurns", Read(MaxTurns)),
    ("disabled", Read(Disabled)),
    ("permissionMode", Warned(PERMISSIONS)),
    ("hooks", Warned(HOOKS)),
    ("mcpServers", Warned(SERVERS)),
    ("skills", Warned(SKILLS)),
    ("memory", Warned("ignored: runs remember nothing of earlier ones")),
    ("isolation", Warned(ISOLATION)),
    ("initialPrompt", Warned(PROMPT)),
    ("effort", Warned(MODEL_SETTINGS)),
    ("background", Ignored),
    ("color", Ignored),
    ("argument-hint", Ignored),
    ("proactive", Ignored),
    // OpenCode.
    ("permission", Read(Permission)),
    ("permissions", Read(Permission)),
    ("steps", Read(MaxTurns)),
    ("maxSteps", Read(MaxTurns)),
    ("disable", Read(Disabled)),
    ("prompt", Warned(PROMPT)),
    ("top_p", Warned(MODEL_SETTINGS)),
    ("options", Warned(MODEL_SETTINGS)),
    ("variant", Warned(MODEL_SETTINGS)),
    ("reasoningEffort", Warned(MODEL_SETTINGS)),
    ("textVerbosity", Warned(MODEL_SETTINGS)),
    ("mode", Ignored),
    ("hidden", Ignored),
    // Gemini CLI.
    ("kind", Read(Kind)),
    ("timeout_mins", Read(TimeoutMinutes)),
    ("mcp_servers", Warned(SERVERS)),
    ("display_name", Ignored),
    ("extensions", Ignored),
    // What authors add for themselves.
    ("author", Ignored),
    ("category", Ignored),
    ("created", Ignored),
    ("displayName", Ignored),
    ("id", Ignored),
    ("keywords", Ignored),
    ("license", Ignored),
    ("metadata", Ignored),
    ("tags", Ignored),
    ("title", Ignored),
    ("type", Ignored),
    ("updated", Ignored),
    ("version", Ignored),
];

/// What becomes of a key.
pub(super) fn meaning(key: &str) -> Option<Meaning> {
    KEYS.iter().find(|(name, _)| *name == key).map(|(_, meaning)| *meaning)
}

/// The keys that are read.
pub(super) fn read_keys() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(|(_, meaning)| matches!(meaning, Read(_))).map(|(name, _)| *name)
}

/// The tool that starts other agents.
pub(super) const SPAWN: &str = "spawn_agent";

/// Tools of other programs, and the one that does the same here.
const TOOLS: &[(&str, Option<&str>)] = &[
    // Claude Code.
    ("Agent", Some(SPAWN)),
    ("Task", Some(SPAWN)),
    ("Read", Some("vfs_read")),
    ("Write", Some("vfs_write")),
    ("Edit", Some("vfs_write")),
    ("MultiEdit", Some("vfs_write")),
    ("Glob", Some("vfs_list")),
    ("LS", Some("vfs_list")),
    ("WebFetch", Some("web_fetch")),
    ("WebSearch", Some("web_search")),
    ("AskUserQuestion", None),
    ("Bash", None),
    ("BashOutput", None),
    ("ExitPlanMode", None),
    ("Grep", None),
    ("KillShell", None),
    ("LSP", None),
    ("NotebookEdit", None),
    ("NotebookRead", None),
    ("SendMessage", None),
    ("Skill", None),
    ("SlashCommand", None),
    ("TaskCreate", None),
    ("TaskGet", None),
    ("TaskList", None),
    ("TaskUpdate", None),
    ("TodoRead", None),
    ("TodoWrite", None),
    ("ToolSearch", None),
    // OpenCode.
    ("edit", Some("vfs_write")),
    ("glob", Some("vfs_list")),
    ("list", Some("vfs_list")),
    ("patch", Some("vfs_write")),
    ("read", Some("vfs_read")),
    ("task", Some(SPAWN)),
    ("webfetch", Some("web_fetch")),
    ("websearch", Some("web_search")),
    ("write", Some("vfs_write")),
    ("bash", None),
    ("codesearch", None),
    ("grep", None),
    ("lsp", None),
    ("question", None),
    ("skill", None),
    ("todoread", None),
    ("todowrite", None),
    // Gemini CLI.
    ("glob_files", Some("vfs_list")),
    ("google_web_search", Some("web_search")),
    ("list_directory", Some("vfs_list")),
    ("read_file", Some("vfs_read")),
    ("read_many_files", Some("vfs_read")),
    ("replace", Some("vfs_write")),
    ("write_file", Some("vfs_write")),
    ("activate_skill", None),
    ("grep_search", None),
    ("run_shell_command", None),
    ("save_memory", None),
    ("search_file_content", None),
    ("write_todos", None),
];

/// What a name in a list of tools stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolName {
    /// Tools of this gateway.
    Here(String),
    /// A tool of another program that nothing here replaces.
    Elsewhere,
}

/// Translates the name of a tool. `mcp__SERVER__TOOL` is what Claude Code calls the tool of a server.
pub(super) fn tool(name: &str) -> ToolName {
    if let Some(rest) = name.strip_prefix("mcp__").filter(|rest| !rest.is_empty()) {
        let all = if rest.contains("__") { rest.to_owned() } else { format!("{rest}__*") };
        return ToolName::Here(all);
    }
    match TOOLS.iter().find(|(other, _)| *other == name) {
        Some((_, Some(here))) => ToolName::Here((*here).to_owned()),
        Some((_, None)) => ToolName::Elsewhere,
        None => ToolName::Here(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{KEYS, TOOLS, ToolName, tool};

    #[test]
    fn every_key_and_every_tool_has_one_row() {
        let keys: BTreeSet<&str> = KEYS.iter().map(|(name, _)| *name).collect();
        assert_eq!(keys.len(), KEYS.len());
        let tools: BTreeSet<&str> = TOOLS.iter().map(|(name, _)| *name).collect();
        assert_eq!(tools.len(), TOOLS.len());
    }

    #[test]
    fn tools_of_servers_have_the_names_that_they_have_here() {
        for (there, here) in [
            ("mcp__time__now", "time__now"),
            ("mcp__time", "time__*"),
            ("mcp__", "mcp__"),
            ("time__now", "time__now"),
        ] {
            assert_eq!(tool(there), ToolName::Here(here.to_owned()), "{there}");
        }
    }
}
