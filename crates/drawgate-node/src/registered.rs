//! What the program has registered since the gateway was opened: servers, manifests, tools.

use std::collections::BTreeMap;

use drawgate_core::model::{ErrorCode, McpManifest, McpToolSpec, Offer, SourceId};
use drawgate_core::registry::BadTool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fault::Fault;

/// What the program has registered.
pub(crate) struct Registered {
    /// The configuration that the gateway was opened with.
    document: Value,
    servers: BTreeMap<SourceId, Value>,
    /// The sources that are a part of the program, each with its manifest as long as nobody performs its
    /// calls.
    pub(crate) declared: BTreeMap<SourceId, Option<McpManifest>>,
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

    /// Refuses an id that has a server, or tools that somebody performs.
    pub(crate) fn check_free(&self, id: &SourceId) -> Result<(), Fault> {
        let configured = self.document.get("servers").and_then(|servers| servers.get(id.as_str()));
        let performed = self.declared.get(id).is_some_and(Option::is_none);
        if configured.is_some() || performed || self.servers.contains_key(id) {
            let message = format!("server id `{id}` is taken; give each server an id of its own");
            return Err(Fault::new(ErrorCode::Conflict, message));
        }
        Ok(())
    }

    /// The manifest that waits for somebody to perform its calls.
    pub(crate) fn promised(&self, id: &SourceId) -> Option<&McpManifest> {
        self.declared.get(id)?.as_ref()
    }
}

/// A manifest as it is given, its tools not yet read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GivenManifest {
    pub(crate) server_id: String,
    name: String,
    version: String,
    description: Option<String>,
    tools: Vec<Value>,
}

impl GivenManifest {
    /// JavaScript tools, which come without a manifest around them.
    pub(crate) fn of_tools(
        server_id: String,
        tools: Vec<Value>,
        promised: Option<&McpManifest>,
    ) -> Self {
        let name = promised.map_or_else(|| server_id.clone(), |it| it.name.clone());
        let version = promised.map(|it| it.version.clone()).unwrap_or_default();
        let description = promised.and_then(|it| it.description.clone());
        Self { server_id, name, version, description, tools }
    }

    /// Reads it, or names every tool that is not one.
    pub(crate) fn read(self) -> Result<McpManifest, Fault> {
        let id = source_id(&self.server_id)?;
        let mut faults = Vec::new();
        let mut tools = Vec::new();
        for (index, tool) in self.tools.into_iter().enumerate() {
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
        if !faults.is_empty() {
            let message = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return Err(Fault::invalid(message).with(json!({ "faults": faults })));
        }
        let Self { name, version, description, .. } = self;
        Ok(McpManifest {
            server_id: id,
            name,
            version,
            description,
            tools,
            offer: Offer::default(),
        })
    }
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
        Some(manifest) => {
            let manifest: GivenManifest = serde_json::from_value(manifest)
                .map_err(|error| Fault::invalid(format!("manifest: {error}")))?;
            if manifest.server_id != id.as_str() {
                let message = format!(
                    "the manifest of `{id}` names `{}` as its server",
                    manifest.server_id.escape_debug()
                );
                return Err(Fault::invalid(message));
            }
            Some(manifest.read()?.tools)
        }
        None if table.contains_key("protocol") => None,
        None => promised.map(|manifest| manifest.tools.clone()),
    };
    if let Some(tools) = tools {
        table.entry("protocol").or_insert_with(|| "call".into());
        let tools =
            serde_json::to_value(tools).map_err(|error| Fault::invalid(error.to_string()))?;
        table.insert("manifest".to_owned(), tools);
    }
    Ok(Value::Object(table))
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
