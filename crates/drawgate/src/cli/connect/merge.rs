//! Puts an entry into a client's file without losing anything else that is in it.

use anyhow::{anyhow, bail};
use drawgate_core::json;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::client::{Entry, Format};

const BY_HAND: &str = "correct it, or add the entry by hand";
const COMMENTS: &str = "the file has comments, which would be lost; add the entry by hand";

/// Keys that say how a server is reached. Of an entry that is there already these are replaced;
/// others, such as `timeout` or `trust`, are the user's and stay.
const REACH_KEYS: [&str; 7] =
    ["type", "command", "args", "url", "httpUrl", "headers", "bearer_token_env_var"];

/// The whole new content of the file.
pub(super) fn merge(entry: &Entry, existing: Option<&str>) -> anyhow::Result<String> {
    let text = existing.unwrap_or_default();
    match entry.format {
        Format::Json => merge_json(entry, text),
        Format::Toml => merge_toml(entry, text),
    }
}

impl Entry {
    /// What a file with nothing else in it would hold.
    pub(super) fn snippet(&self) -> String {
        match self.format {
            Format::Json => pretty(&self.alone(), "  "),
            Format::Toml => self.toml_table(),
        }
    }

    fn alone(&self) -> Value {
        let mut root = Map::new();
        if let Some(input) = &self.input {
            root.insert("inputs".to_owned(), json!([input]));
        }
        root.insert(self.servers_key.to_owned(), json!({ &self.name: self.server }));
        Value::Object(root)
    }

    fn toml_table(&self) -> String {
        let content = toml::to_string(&self.server).unwrap_or_default();
        format!("[{}.{}]\n{content}", self.servers_key, self.name)
    }
}

fn merge_json(entry: &Entry, text: &str) -> anyhow::Result<String> {
    if text.trim().is_empty() {
        return Ok(pretty(&entry.alone(), "  "));
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| malformed_json(text, &error))?;
    let before = json::parse(text.as_bytes())
        .map_err(|error| anyhow!("the file can't be changed safely: {error}"))?;
    let mut root = before.clone();
    let map = root.as_object_mut().ok_or_else(|| unexpected("the file", "an object"))?;
    if let Some(input) = &entry.input {
        add_input(map, input)?;
    }
    let servers = map.entry(entry.servers_key).or_insert_with(|| json!({}));
    let servers =
        servers.as_object_mut().ok_or_else(|| unexpected(entry.servers_key, "an object"))?;
    let server = servers.entry(entry.name.as_str()).or_insert_with(|| json!({}));
    let server = server.as_object_mut().ok_or_else(|| unexpected(&entry.name, "an object"))?;
    if entry.server.iter().any(|(key, value)| server.get(key) != Some(value))
        || REACH_KEYS
            .iter()
            .any(|key| server.contains_key(*key) && !entry.server.contains_key(*key))
    {
        let kept: Vec<(String, Value)> = std::mem::take(server).into_iter().collect();
        let kept = kept.into_iter().filter(|(key, _)| !REACH_KEYS.contains(&key.as_str()));
        *server = entry.server.clone().into_iter().chain(kept).collect();
    }
    Ok(if root == before { text.to_owned() } else { pretty(&root, indentation(text)) })
}

fn add_input(root: &mut Map<String, Value>, input: &Value) -> anyhow::Result<()> {
    let inputs = root.entry("inputs").or_insert_with(|| json!([]));
    let inputs = inputs.as_array_mut().ok_or_else(|| unexpected("inputs", "an array"))?;
    if !inputs.iter().any(|present| present.get("id") == input.get("id")) {
        inputs.push(input.clone());
    }
    Ok(())
}

/// Appends a table. Editing one that is there could lose comments, so that is left to people.
fn merge_toml(entry: &Entry, text: &str) -> anyhow::Result<String> {
    let before: toml::Table = text.parse().map_err(|error| malformed_toml(text, &error))?;
    let path = format!("{}.{}", entry.servers_key, entry.name);
    let servers = before.get(entry.servers_key);
    if let Some(present) = servers.and_then(|servers| servers.get(&entry.name)) {
        let ours = toml::Value::try_from(&entry.server);
        if ours.as_ref() != Ok(present) {
            bail!("the file has [{path}] already, with other content; replace that table by hand");
        }
        return Ok(text.to_owned());
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let merged = format!("{text}{gap}{}", entry.toml_table());
    // `mcp_servers = { … }` can't be extended by a table below it.
    if merged.parse::<toml::Table>().is_err() {
        return Err(unexpected(entry.servers_key, "written as tables"));
    }
    Ok(merged)
}

fn unexpected(key: &str, expected: &str) -> anyhow::Error {
    anyhow!("`{key}` is not {expected}; correct it by hand and run the command again")
}

fn malformed_json(text: &str, error: &serde_json::Error) -> anyhow::Error {
    let line_text = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let commented = line_text.contains("//") || line_text.contains("/*");
    let (line, column) = (error.line(), error.column());
    let advice = if commented { COMMENTS } else { BY_HAND };
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    anyhow!("line {line}, column {column} is not valid JSON: {message}; {advice}")
}

fn malformed_toml(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let message = error.message();
    anyhow!("line {line}, column {column} is not valid TOML: {message}; {BY_HAND}")
}

/// The white space before the first indented line, so that the file keeps its look.
pub(in super::super) fn indentation(text: &str) -> &str {
    let indented =
        text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    indented.map_or("  ", |line| line.split(|c: char| !c.is_whitespace()).next().unwrap_or("  "))
}

pub(in super::super) fn pretty(value: &Value, indent: &str) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    if value.serialize(&mut serializer).is_err() {
        return value.to_string();
    }
    bytes.push(b'\n');
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_string())
}
