//! What a plugin declares when it is loaded: name, version, tools and hooks, checked whole.

use std::collections::BTreeSet;

use drawgate_core::model::{SourceId, ToolId, shown_name};
use drawgate_core::registry::CompiledSchema;
use drawgate_sources::suggest::nearest;
use serde_json::{Map, Value};

use super::manifest::{FILE, PluginManifest, Runtime};
use super::problems::{Found, Problems};
use super::{Hook, PluginTool};

/// How many tools a plugin may have.
pub const MAX_TOOLS: usize = 128;
/// The longest name of a tool. With the plugin's name it becomes the name that models see.
const MAX_NAME: usize = 64;
/// The longest description of a tool, in bytes.
const MAX_DESCRIPTION: usize = 16 * 1024;
/// The largest schema of a tool's input, in bytes.
const MAX_SCHEMA: usize = 256 * 1024;
/// Where a runner says what kind of value a tool's handler is.
const HANDLER: &str = "dev.drawgate/handler";

/// What a plugin says about itself, as it said it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statement {
    pub(super) name: Value,
    pub(super) version: Value,
    pub(super) hooks: Value,
    pub(super) tools: Value,
}

/// What a plugin declared, after it was checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Declared {
    pub(super) tools: Vec<PluginTool>,
    pub(super) hooks: BTreeSet<Hook>,
}

/// Checks what a plugin says against its manifest.
pub(super) fn check(
    manifest: &PluginManifest,
    id: &SourceId,
    statement: Statement,
) -> Result<Declared, Problems> {
    let mut found = Found::default();
    check_same("name", &statement.name, &manifest.name, &mut found);
    check_same("version", &statement.version, &manifest.version, &mut found);
    let hooks = check_hooks(manifest, &statement.hooks, &mut found);
    let tools =
        ToolCheck { id, runtime: manifest.runtime, names: BTreeSet::new(), found: &mut found }
            .all(statement.tools);
    found.finish(&manifest.name)?;
    Ok(Declared { tools, hooks })
}

fn check_same(field: &str, said: &Value, expected: &str, found: &mut Found) {
    match said.as_str() {
        Some(said) if said == expected => {}
        Some(said) => {
            let said = shown_name(said);
            let message = format!("the plugin says `{said}`, and its {FILE} says `{expected}`");
            found.add(field, message, "write the same in both");
        }
        None => {
            let message = format!("the plugin's definition must have a {field} that is a string");
            found.add(field, message, "write the same as in its manifest");
        }
    }
}

fn check_hooks(manifest: &PluginManifest, said: &Value, found: &mut Found) -> BTreeSet<Hook> {
    let mut hooks = BTreeSet::new();
    let Value::Array(names) = said else {
        found.add("hooks", "it must be an array of names", "");
        return hooks;
    };
    for name in names {
        let shown = shown_name(name.as_str().unwrap_or("?"));
        let Some(hook) = name.as_str().and_then(Hook::of) else {
            let known = Hook::ALL.map(Hook::as_str);
            let near = nearest(&shown, known).map(|near| format!("did you mean `{near}`?"));
            found.add("hooks", format!("unknown hook `{shown}`"), &near.unwrap_or_default());
            continue;
        };
        if !manifest.permissions.hooks.contains(&hook) {
            let message = format!("the plugin has the hook `{hook}` without the permission");
            let hint = format!("add it to `permissions.hooks` in its {FILE}, or remove the hook");
            found.add("hooks", message, &hint);
        }
        hooks.insert(hook);
    }
    hooks
}

struct ToolCheck<'a> {
    id: &'a SourceId,
    runtime: Runtime,
    names: BTreeSet<String>,
    found: &'a mut Found,
}

impl ToolCheck<'_> {
    fn all(mut self, tools: Value) -> Vec<PluginTool> {
        let Value::Array(tools) = tools else {
            let message = format!("it must be an array, not {}", kind(&tools));
            self.found.add("tools", message, "put the tools in `[` and `]`");
            return Vec::new();
        };
        if tools.len() > MAX_TOOLS {
            let message = format!("there are {} tools, and {MAX_TOOLS} at most", tools.len());
            self.found.add("tools", message, "make several plugins of it");
            return Vec::new();
        }
        let check = |(index, tool)| self.one(index, tool);
        tools.into_iter().enumerate().filter_map(check).collect()
    }

    fn one(&mut self, index: usize, tool: Value) -> Option<PluginTool> {
        let Value::Object(mut tool) = tool else {
            let message = format!("a tool must be an object, not {}", kind(&tool));
            self.found.add(&format!("tools[{index}]"), message, "");
            return None;
        };
        let label = match tool.get("name").and_then(Value::as_str) {
            Some(name) if !name.is_empty() => format!("`{}`", shown_name(name)),
            Some(_) | None => format!("tools[{index}]"),
        };
        let name = self.name(&label, tool.shift_remove("name"));
        let description = self.description(&label, tool.shift_remove("description"));
        let schema = self.schema(&label, tool.shift_remove("inputSchema"));
        self.handler(&label, &tool);
        Some(PluginTool { name: name?, description: description?, schema: schema? })
    }

    fn name(&mut self, tool: &str, name: Option<Value>) -> Option<String> {
        let name = self.text(tool, "name", name)?;
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.len() > MAX_NAME {
            let message = format!("it is longer than {MAX_NAME} characters");
            self.found.of_tool(tool, "name", message, "shorten it");
        } else if !name.chars().all(legal) || ToolId::new(self.id, &name).is_err() {
            let message = "it has characters that are not allowed";
            let hint = "use 1 to 64 of `a-z A-Z 0-9 _ -`, and no `-` at the beginning";
            self.found.of_tool(tool, "name", message, hint);
        } else if !self.names.insert(name.clone()) {
            self.found.of_tool(tool, "name", "another tool has the same name", "rename one");
        } else {
            return Some(name);
        }
        None
    }

    fn description(&mut self, tool: &str, description: Option<Value>) -> Option<String> {
        let text = self.text(tool, "description", description)?;
        if text.len() <= MAX_DESCRIPTION {
            return Some(text);
        }
        let message = format!("it is longer than {MAX_DESCRIPTION} bytes");
        self.found.of_tool(tool, "description", message, "models read it with every request");
        None
    }

    /// A text that is not empty.
    fn text(&mut self, tool: &str, field: &str, value: Option<Value>) -> Option<String> {
        let message = match value {
            Some(Value::String(text)) if text.trim().is_empty() => "it is empty".to_owned(),
            Some(Value::String(text)) => return Some(text),
            None | Some(Value::Null) => "it is missing".to_owned(),
            Some(other) => format!("it must be a string, not {}", kind(&other)),
        };
        self.found.of_tool(tool, field, message, "");
        None
    }

    fn schema(&mut self, tool: &str, schema: Option<Value>) -> Option<Value> {
        // As its author calls it.
        let field = match self.runtime {
            Runtime::Node | Runtime::Python => "schema",
            Runtime::Exec => "inputSchema",
        };
        let hint = "write a JSON Schema such as `{\"type\": \"object\", \"properties\": {}}`";
        let Some(Value::Object(map)) = schema else {
            let message = match schema {
                None | Some(Value::Null) => "it is missing".to_owned(),
                Some(other) => format!("it must be an object, not {}", kind(&other)),
            };
            self.found.of_tool(tool, field, message, hint);
            return None;
        };
        let is_for_objects = map.get("type").is_some_and(|kind| kind == "object");
        let schema = Value::Object(map);
        if !is_for_objects {
            self.found.of_tool(tool, field, "it must have `type: object`", hint);
        } else if schema.to_string().len() > MAX_SCHEMA {
            let message = format!("it is larger than {MAX_SCHEMA} bytes");
            self.found.of_tool(tool, field, message, "models read it with every request");
        } else if let Err(error) = CompiledSchema::for_arguments(&schema) {
            self.found.of_tool(tool, field, error.to_string(), hint);
        } else {
            return Some(schema);
        }
        None
    }

    fn handler(&mut self, tool: &str, rest: &Map<String, Value>) {
        let said = rest.get("_meta").and_then(|meta| meta.get(HANDLER)).and_then(Value::as_str);
        let message = match said {
            // Programs that speak the protocol themselves say nothing about it.
            None | Some("function") => return,
            Some("undefined") => "it is missing".to_owned(),
            Some(other) => format!("it must be a function, not {}", shown_name(other)),
        };
        self.found.of_tool(tool, "handler", message, "write an async function");
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
#[path = "declared_tests.rs"]
mod tests;
