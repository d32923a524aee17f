//! What the program has registered since the gateway was opened: servers, manifests, tools.

use std::collections::BTreeMap;

use drawgate_core::model::{ErrorCode, McpManifest, McpToolSpec, Offer, SourceId};
use drawgate_core::registry::BadTool;
use drawgate_runtime::Runtime;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fault::Fault;

/// What the program has registered.
pub(crate) struct Registered {
    /// The configuration that the gateway was opened with.
    document: Value,
    servers: BTreeMap<SourceId, Value>,
    /// The sources that are a part of the program.
    pub(crate) declared: BTreeMap<SourceId, Declared>,
}

/// A source that is a part of the program: a manifest, functions, or both.
#[derive(Clone)]
pub(crate) struct Declared {
    /// What `registerManifest` gave.
    pub(crate) manifest: Option<McpManifest>,
    /// The tools of `registerTools`, as they were given.
    pub(crate) functions: Option<Vec<McpToolSpec>>,
}

impl Declared {
    /// What is offered: functions are held to the manifest, in whatever order the two came.
    pub(crate) fn offered(&self, id: &SourceId) -> McpManifest {
        let manifest = self.manifest.clone().unwrap_or_else(|| McpManifest {
            server_id: id.clone(),
            name: id.to_string(),
            version: String::new(),
            description: None,
            tools: Vec::new(),
            offer: Offer::default(),
        });
        let Some(functions) = self.functions.clone() else { return manifest };
        let held = functions.into_iter().map(|function| {
            match manifest.tools.iter().find(|tool| tool.name == function.name) {
                Some(declared) => function.held_to(declared.clone()),
                None => function,
            }
        });
        McpManifest { tools: held.collect(), ..manifest }
    }
}

impl Registered {
    pub(crate) fn new(document: Value) -> Self {
        Self { document, servers: BTreeMap::new(), declared: BTreeMap::new() }
    }

    /// The configuration with all registered servers, and perhaps one more.
    pub(crate) fn document(&self, more: Option<(&SourceId, &Value)>) -> Value {
        let mut document = self.document.clone();
        if let Value::Object(members) = &mut document {
            let servers = members.entry("servers").or_insert_with(|| json!({}));
            if let Value::Object(servers) = servers {
                let all = self.servers.iter().chain(more);
                servers.extend(all.map(|(id, server)| (id.to_string(), server.clone())));
            }
        }
        document
    }

    pub(crate) fn add_server(&mut self, id: SourceId, server: Value) {
        self.servers.insert(id, server);
    }

    pub(crate) fn forget_servers(&mut self) {
        self.servers.clear();
    }

    /// Refuses an id that has a server or functions.
    pub(crate) fn check_free(&self, id: &SourceId) -> Result<(), Fault> {
        let has_functions = self.declared.get(id).is_some_and(|it| it.functions.is_some());
        if has_functions || self.server(id).is_some() {
            let message = format!("server id `{id}` is taken; give each server an id of its own");
            return Err(Fault::new(ErrorCode::Conflict, message));
        }
        Ok(())
    }

    /// The table of a server that was registered or configured.
    pub(crate) fn server(&self, id: &SourceId) -> Option<&Value> {
        let configured = || self.document.get("servers")?.get(id.as_str());
        self.servers.get(id).or_else(configured)
    }

    /// The manifest that was registered under an id without a server.
    pub(crate) fn promised(&self, id: &SourceId) -> Option<&McpManifest> {
        self.declared.get(id)?.manifest.as_ref()
    }
}

/// Reads a manifest, or says everything that is wrong with it.
pub(crate) fn read_manifest(
    given: Map<String, Value>,
    runtime: &Runtime,
) -> Result<McpManifest, Fault> {
    let mut given = Members { left: given, wrong: Vec::new() };
    let id = given.needed_text("serverId").map(|text| SourceId::new(&text));
    if let Some(Err(error)) = &id {
        given.wrong.push(error.to_string());
    }
    let (name, version) = (given.needed_text("name"), given.needed_text("version"));
    let description = given.text("description");
    let tools = if let Some(Value::Array(tools)) = given.left.shift_remove("tools") {
        Some(tools)
    } else {
        given.wrong.push("`tools` must be a list of tools".to_owned());
        None
    };
    let Members { left, mut wrong } = given;
    wrong.extend(left.keys().map(|key| format!("there is no `{}`", key.escape_debug())));
    let wrong =
        wrong.into_iter().map(|reason| json!({ "reason": format!("the manifest: {reason}") }));
    let mut faults: Vec<Value> = wrong.collect();
    let known = id.and_then(Result::ok);
    let of_tools = known.as_ref().zip(tools).map(|(id, tools)| read_tools(id, tools, runtime));
    let tools = match of_tools {
        Some(Ok(tools)) => Some(tools),
        Some(Err(bad)) => {
            faults.extend(bad);
            None
        }
        None => None,
    };
    match (known, name, version, tools) {
        (Some(server_id), Some(name), Some(version), Some(tools)) if faults.is_empty() => {
            let offer = Offer::default();
            Ok(McpManifest { server_id, name, version, description, tools, offer })
        }
        _ => Err(Fault::of_faults(&faults)),
    }
}

/// The members of an object that was given, and what is wrong with those that were read.
struct Members {
    left: Map<String, Value>,
    wrong: Vec<String>,
}

impl Members {
    fn text(&mut self, key: &str) -> Option<String> {
        match self.left.shift_remove(key) {
            Some(Value::String(text)) => Some(text),
            None | Some(Value::Null) => None,
            Some(_) => {
                self.wrong.push(format!("`{key}` must be a string"));
                None
            }
        }
    }

    fn needed_text(&mut self, key: &str) -> Option<String> {
        let is_there = self.left.get(key).is_some_and(|value| !value.is_null());
        if !is_there {
            self.wrong.push(format!("`{key}` is missing"));
        }
        self.text(key)
    }
}

/// Reads definitions of tools, or says what is wrong with each of them.
pub(crate) fn read_tools(
    id: &SourceId,
    given: Vec<Value>,
    runtime: &Runtime,
) -> Result<Vec<McpToolSpec>, Vec<Value>> {
    let mut faults = Vec::new();
    let mut tools = Vec::new();
    for (index, tool) in given.into_iter().enumerate() {
        let name = tool.get("name").and_then(Value::as_str).map(str::to_owned);
        match McpToolSpec::deserialize(tool) {
            Ok(spec) => tools.push(spec),
            Err(error) => faults.push(BadTool {
                source_id: id.clone(),
                tool: name.unwrap_or_else(|| format!("tools[{index}]")),
                reason: error.to_string(),
            }),
        }
    }
    faults.extend(runtime.declared_faults(id, tools.clone()));
    if faults.is_empty() { Ok(tools) } else { Err(faults.iter().map(bad_tool).collect()) }
}

/// A tool that can't be offered, as `details` show it.
pub(crate) fn bad_tool(bad: &BadTool) -> Value {
    json!({ "tool": bad.tool, "reason": bad.to_string() })
}

pub(crate) fn source_id(text: &str) -> Result<SourceId, Fault> {
    SourceId::new(text).map_err(|error| Fault::invalid(error.to_string()))
}

/// Keys of a server whose members are settings with names of their own.
const NESTED: [&str; 2] = ["oauth", "permissions"];

/// The table of a server in the configuration, from the object that JavaScript gives. `promised` is the
/// manifest that was registered under its id.
pub(crate) fn server_table(
    id: &SourceId,
    given: Map<String, Value>,
    promised: Option<&McpManifest>,
    runtime: &Runtime,
) -> Result<Value, Fault> {
    let mut table = snake_keys(given);
    table.shift_remove("server_id");
    if let Some(auth) = table.shift_remove("auth") {
        table.insert("oauth".to_owned(), auth);
    }
    if let Some(name) = table.shift_remove("name") {
        table.entry("description").or_insert(name);
    }
    for key in NESTED {
        if let Some(Value::Object(members)) = table.get_mut(key) {
            *members = snake_keys(std::mem::take(members));
        }
    }
    if let Some(Value::Object(tools)) = table.get_mut("tools") {
        for tool in tools.values_mut().filter_map(Value::as_object_mut) {
            *tool = snake_keys(std::mem::take(tool));
        }
    }
    let tools = match table.shift_remove("manifest") {
        Some(Value::Object(manifest)) => {
            let manifest = read_manifest(manifest, runtime)?;
            if manifest.server_id != *id {
                let other = manifest.server_id;
                let message = format!("the manifest of `{id}` names `{other}` as its server");
                return Err(Fault::invalid(message));
            }
            Some(manifest.tools)
        }
        Some(_) => return Err(Fault::invalid("`manifest` must be an object")),
        None => promised.map(|manifest| manifest.tools.clone()),
    };
    if let Some(tools) = tools {
        let is_mcp =
            matches!(table.get("transport"), Some(how) if how == "sse" || how == "websocket");
        let protocol = if is_mcp { "mcp" } else { "call" };
        table.entry("protocol").or_insert_with(|| protocol.into());
        table.insert("manifest".to_owned(), json!(tools));
    }
    Ok(Value::Object(table))
}

/// The table of a server with a manifest that came after it.
pub(crate) fn with_manifest(table: &Value, manifest: &McpManifest) -> Result<Value, Fault> {
    let mut table = table.clone();
    match table.as_object_mut() {
        Some(members) if !members.contains_key("manifest") => {
            members.insert("manifest".to_owned(), json!(manifest.tools));
            Ok(table)
        }
        _ => Err(has_manifest(&manifest.server_id)),
    }
}

/// The refusal of a second manifest.
pub(crate) fn has_manifest(id: &SourceId) -> Fault {
    Fault::new(ErrorCode::Conflict, format!("server id `{id}` has a manifest already"))
}

/// `workingDir` becomes `working_dir`; what is written like that already stays.
fn snake_keys(map: Map<String, Value>) -> Map<String, Value> {
    map.into_iter().map(|(key, value)| (snake(&key), value)).collect()
}

fn snake(key: &str) -> String {
    let mut snake = String::with_capacity(key.len());
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
