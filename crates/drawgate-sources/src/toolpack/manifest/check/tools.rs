//! Tools: each with what its type needs, under a name that is free.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use drawgate_core::model::{ToolAnnotations, shape, shown_name};
use drawgate_core::registry::{CompiledSchema, skeleton};
use serde_json::Value;

use super::super::problem::{Sink, element, member};
use super::super::types::{PackProfile, Tool};
use super::Draft;
use super::files::{Documents, expanded};
use super::programs::check_program;
use super::text::check_text;
use crate::command::Template;
use crate::suggest::nearest;
use crate::toolpack::ConnectorKind;

/// Most tools of a pack when whole APIs are written out.
const MAX_EXPANDED: usize = 5_000;
/// Most patterns, and the longest one.
const MAX_PATTERNS: usize = 256;
const MAX_PATTERN: usize = 256;
/// Longest template, and longest name that a server or a document has for a tool.
const MAX_TEMPLATE: usize = 8192;
const MAX_REMOTE: usize = 256;
/// Longest prefix.
const MAX_PREFIX: usize = 32;

static BUILTIN: LazyLock<Vec<String>> =
    LazyLock::new(|| crate::builtin::specs::tools().into_iter().map(|tool| tool.name).collect());

pub(super) fn check(draft: &Draft, folder: Option<&Path>, documents: &Documents, sink: &mut Sink) {
    let mut names = Names::default();
    for (index, tool) in draft.tools.iter().enumerate() {
        let path = element("$.tools", index);
        let Some(tool) = tool else { continue };
        check_name(tool, &path, &mut names, sink);
        if let Some(description) = &tool.description {
            check_text(&member(&path, "description"), description, sink);
        }
        check_members(draft, tool, &path, sink);
        check_parameters(tool, &path, sink);
        check_annotations(tool, &path, sink);
        check_sandbox(draft, tool, &path, sink);
        if tool.is_command() {
            check_template(draft, tool, &path, folder, sink);
        } else {
            check_connector(draft, tool, &path, documents, sink);
        }
    }
    // Written-out names come last, so that a clash is reported where a whole API is imported.
    for (index, tool) in draft.tools.iter().enumerate() {
        let Some(tool) = tool.as_ref().filter(|tool| tool.operations.is_some()) else { continue };
        check_whole(draft, tool, &element("$.tools", index), documents, &mut names, sink);
    }
}

/// Who has which name. Names that look alike count as the same, as they do in the gateway.
#[derive(Default)]
struct Names {
    /// Names and their places, by what look-alikes have in common.
    taken: BTreeMap<String, (String, String)>,
}

impl Names {
    /// Takes a name for a place, or says who has it.
    fn take(&mut self, name: &str, path: &str) -> Result<(), String> {
        let (skeleton, shown) = (skeleton(name), shown_name(name));
        if let Some(builtin) = BUILTIN.iter().find(|builtin| self::skeleton(builtin) == skeleton) {
            return Err(if builtin == name {
                format!("`{shown}` is the name of a built-in tool")
            } else {
                format!("the name `{shown}` looks like `{builtin}`, a built-in tool")
            });
        }
        if let Some((twin, first)) = self.taken.get(&skeleton) {
            return Err(if twin == name {
                format!("the name `{shown}` is used twice, first at {first}")
            } else {
                format!("the name `{shown}` looks like `{}` at {first}", shown_name(twin))
            });
        }
        self.taken.insert(skeleton, (name.to_owned(), path.to_owned()));
        Ok(())
    }
}

fn check_name(tool: &Tool, path: &str, names: &mut Names, sink: &mut Sink) {
    let path = member(path, "name");
    match (&tool.name, tool.operations) {
        (Some(_), Some(_)) => sink.add(
            &path,
            "`name` has no meaning for a whole API, whose tools have the operations' names",
            "remove it; `prefix` gives them a common beginning",
        ),
        (None, None) if sink.knows(&path) => {}
        (None, None) => sink.add(&path, "`name` is missing", "add one such as `list_pets`"),
        (None, Some(_)) => {}
        (Some(name), None) if !is_tool_name(name) => {
            let message = format!("`{}` is not a tool's name", shown_name(name));
            let rule = "use a letter, then 1 to 63 of `a-z 0-9 _`";
            let advice = match repaired(name) {
                Some(better) => format!("{rule}, such as `{better}`"),
                None => rule.to_owned(),
            };
            sink.add(&path, message, advice);
        }
        (Some(name), None) => {
            if let Err(message) = names.take(name, &path) {
                sink.add(&path, message, "choose another name");
            }
        }
    }
}

/// `[a-z][a-z0-9_]{1,63}`.
fn is_tool_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    starts && (2..=64).contains(&name.len()) && name.chars().all(legal)
}

/// What the author may have meant.
fn repaired(name: &str) -> Option<String> {
    let mut better = String::new();
    for c in name.chars() {
        match c {
            'A'..='Z' => {
                if better.ends_with(|last: char| last.is_ascii_lowercase()) {
                    better.push('_');
                }
                better.push(c.to_ascii_lowercase());
            }
            'a'..='z' | '0'..='9' => better.push(c),
            _ if !better.ends_with('_') => better.push('_'),
            _ => {}
        }
    }
    let better = better.trim_matches('_').to_owned();
    Some(better).filter(|better| is_tool_name(better))
}

/// Members that another type of tool would have.
fn check_members(draft: &Draft, tool: &Tool, path: &str, sink: &mut Sink) {
    let whole = tool.operations.is_some();
    let kind = draft.kinds.connector(&tool.kind);
    let has_operations = kind.is_some_and(ConnectorKind::has_operations);
    let present = [
        ("connector_id", tool.connector_id.is_some(), kind.is_some()),
        ("remote_tool", tool.remote_tool.is_some(), kind.is_some() && !has_operations),
        ("operation_id", tool.operation_id.is_some(), has_operations && !whole),
        ("operations", whole, has_operations),
        ("include", !tool.include.is_empty(), has_operations && whole),
        ("exclude", !tool.exclude.is_empty(), has_operations && whole),
        ("prefix", tool.prefix.is_some(), has_operations && whole),
        ("command_template", tool.command_template.is_some(), tool.is_command()),
        ("description", tool.description.is_some(), !whole),
        ("parameters", tool.parameters.is_some(), !whole),
        ("annotations", tool.annotations.is_some(), !whole),
    ];
    for (key, _, _) in present.into_iter().filter(|(_, there, fits)| *there && !*fits) {
        let kind = &tool.kind;
        let (message, advice) = match key {
            "include" | "exclude" | "prefix" if has_operations => (
                format!("`{key}` has no meaning without `operations`"),
                "add `\"operations\": \"*\"`, or remove it",
            ),
            _ if has_operations && whole => (
                format!("`{key}` has no meaning for a whole API"),
                "remove it, or name the operation in a tool of its own",
            ),
            _ => (
                format!("`{key}` has no meaning for a tool of type `{kind}`"),
                "remove it, or change `type`",
            ),
        };
        sink.add(&member(path, key), message, advice);
    }
    check_lengths(tool, path, sink);
    check_patterns(tool, path, sink);
}

fn check_lengths(tool: &Tool, path: &str, sink: &mut Sink) {
    for (key, text) in [("remote_tool", &tool.remote_tool), ("operation_id", &tool.operation_id)] {
        let Some(text) = text else { continue };
        if text.is_empty() || text.len() > MAX_REMOTE || text.contains(char::is_control) {
            let message = format!("`{}` is not a name", shown_name(text));
            sink.add(&member(path, key), message, "name it as the server does");
        }
    }
}

fn check_patterns(tool: &Tool, path: &str, sink: &mut Sink) {
    for (key, patterns) in [("include", &tool.include), ("exclude", &tool.exclude)] {
        let path = member(path, key);
        if patterns.len() > MAX_PATTERNS {
            let message = format!("{} are too many", patterns.len());
            sink.add(&path, message, format!("use at most {MAX_PATTERNS}"));
        }
        for (index, pattern) in patterns.iter().enumerate() {
            let bad = pattern.is_empty() || pattern.contains(char::is_control);
            if bad || pattern.len() > MAX_PATTERN {
                let message = format!("`{}` is not a pattern", shown_name(pattern));
                let advice = "use an operation's id, with `*` for any characters";
                sink.add(&element(&path, index), message, advice);
            }
        }
    }
    let Some(prefix) = &tool.prefix else { return };
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = prefix.starts_with(|c: char| c.is_ascii_lowercase());
    if !starts || prefix.len() > MAX_PREFIX || !prefix.chars().all(legal) {
        let message = format!("`{}` can't begin a tool's name", shown_name(prefix));
        let advice = format!("use a letter, then up to {} of `a-z 0-9 _`", MAX_PREFIX - 1);
        sink.add(&member(path, "prefix"), message, advice);
    }
}

fn check_parameters(tool: &Tool, path: &str, sink: &mut Sink) {
    let Some(parameters) = &tool.parameters else { return };
    if let Err(error) = CompiledSchema::for_object(&Value::Object(parameters.clone())) {
        let advice =
            "write a JSON Schema such as `{ \"type\": \"object\", \"properties\": { … } }`";
        sink.add(&member(path, "parameters"), error.to_string(), advice);
    }
}

fn check_annotations(tool: &Tool, path: &str, sink: &mut Sink) {
    let Some(annotations) = &tool.annotations else { return };
    let path = member(path, "annotations");
    let value = Value::Object(annotations.clone());
    let advice = "use `requiresConfirmation`, `requiredScopes`, `policyAction`, or hints such as \
                  `\"readOnlyHint\": true`";
    for misfit in shape::misfits(shape::TOOL_ANNOTATIONS, &value).unwrap_or_default() {
        sink.add(&path, misfit.to_string(), advice);
    }
    match serde_json::from_value::<ToolAnnotations>(value) {
        Ok(read) => {
            if let Some(unknown) = read.unknown() {
                let message = format!("annotation `{}` is not supported", shown_name(unknown));
                sink.add(&path, message, advice);
            }
        }
        Err(error) => sink.add(&path, error.to_string(), advice),
    }
}

fn check_sandbox(draft: &Draft, tool: &Tool, path: &str, sink: &mut Sink) {
    let path = member(path, "sandbox");
    match tool.sandbox {
        Some(_) if !tool.is_command() => {
            let message = format!(
                "`sandbox` has no meaning for a tool of type `{}`; it is for programs that are run for each call",
                tool.kind
            );
            sink.add(&path, message, "remove it");
        }
        Some(PackProfile::Network) if draft.permissions.hosts.is_empty() => {
            let message = "the sandbox `network` is for packs that declare hosts";
            sink.add(&path, message, "add `permissions.hosts`, or use `workspace`");
        }
        Some(_) | None => {}
    }
}

fn check_template(draft: &Draft, tool: &Tool, path: &str, folder: Option<&Path>, sink: &mut Sink) {
    let has_bad_parameters = sink.knows(&member(path, "parameters"));
    let path = member(path, "command_template");
    let Some(template) = tool.command_template.as_deref() else {
        if !sink.knows(&path) {
            sink.add(
                &path,
                "`command_template` is missing; a tool of type `command` needs it",
                "add one such as `gh issue list --limit {{limit}}`",
            );
        }
        return;
    };
    if template.len() > MAX_TEMPLATE {
        let message = format!("it is longer than {MAX_TEMPLATE} bytes");
        return sink.add(&path, message, "put a script into the pack and run it");
    }
    if has_bad_parameters {
        // What the template makes of them would only repeat it.
        return;
    }
    let template = match Template::parse(template, &tool.parameters()) {
        Ok(template) => template,
        Err(error) => return sink.fault(&path, error.to_string()),
    };
    check_program(draft, &path, template.program(), sink);
    if let Some(script) = template.script() {
        check_program(draft, &path, &script, sink);
    }
    if folder.is_none() || sink.knows(&path) {
        return;
    }
    if let Err(error) = template.located(folder) {
        sink.fault(&path, error.to_string());
    }
}

fn check_connector(draft: &Draft, tool: &Tool, path: &str, documents: &Documents, sink: &mut Sink) {
    let at = member(path, "connector_id");
    let Some(id) = tool.connector_id.as_deref() else {
        if !sink.knows(&at) {
            let message =
                format!("`connector_id` is missing; a tool of type `{}` needs it", tool.kind);
            sink.add(&at, message, "name one of the manifest's `connectors`");
        }
        return;
    };
    let Some((index, connector)) = draft.connector(id) else {
        if draft.ids.iter().any(|known| known == id) {
            return;
        }
        let advice = match nearest(id, draft.ids.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "add it to `connectors`".to_owned(),
        };
        return sink.add(&at, format!("unknown connector `{}`", shown_name(id)), advice);
    };
    if connector.kind != tool.kind {
        let message = format!(
            "the connector `{id}` is of type `{}`, and the tool of type `{}`",
            connector.kind, tool.kind
        );
        return sink.add(&at, message, "change one of them");
    }
    if let (Some(document), None) = (documents.get(&index), tool.operations)
        && let Err(error) = document.operation(tool.remote_name())
    {
        let advice = match error.suggestion() {
            Some(near) => format!("did you mean `{}`?", shown_name(near)),
            None => "name an operation of the OpenAPI document".to_owned(),
        };
        let message = format!("unknown operation `{}`", shown_name(tool.remote_name()));
        let key = if tool.operation_id.is_some() { "operation_id" } else { "name" };
        sink.add(&member(path, key), message, advice);
    }
}

fn check_whole(
    draft: &Draft,
    tool: &Tool,
    path: &str,
    documents: &Documents,
    names: &mut Names,
    sink: &mut Sink,
) {
    let connector = tool.connector_id.as_deref().and_then(|id| draft.connector(id));
    let Some(document) = connector.and_then(|(index, _)| documents.get(&index)) else { return };
    let path = member(path, "operations");
    let all = match expanded(document, tool) {
        Ok(all) => all,
        Err(error) => {
            let advice = "check `include` and `exclude` against the document's operations";
            return sink.add(&path, error.to_string(), advice);
        }
    };
    if all.len() > MAX_EXPANDED {
        let message = format!("{} operations are too many", all.len());
        let advice = format!("use at most {MAX_EXPANDED}; narrow them with `include` or `exclude`");
        return sink.add(&path, message, advice);
    }
    for (name, operation) in all {
        if let Err(message) = names.take(&name, &path) {
            let message = format!("operation `{}`: {message}", shown_name(&operation.id));
            sink.add(&path, message, "use `prefix`, or leave the operation out with `exclude`");
        }
    }
}
