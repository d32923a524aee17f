//! Puts an entry into a client's file without losing anything else that is in it.

use drawgate_core::json::{self, JsonError};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::client::{Entry, Format};

/// Why a file can't be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Not in the language that the client reads.
    #[error("line {line}, column {column} is not valid {language}: {message}; {advice}")]
    Malformed {
        /// The language.
        language: &'static str,
        /// The line, from one.
        line: usize,
        /// The column, from one.
        column: usize,
        /// What the parser says.
        message: String,
        /// What to do.
        advice: &'static str,
    },
    /// Readable, but in a way that other programs may read otherwise.
    #[error("the file can't be changed safely: {0}")]
    Ambiguous(#[from] JsonError),
    /// Something else stands where the servers belong.
    #[error("`{key}` is not {expected}; correct it by hand and run the command again")]
    Unexpected {
        /// The key.
        key: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// The entry is there, with other content, in a file whose comments must survive.
    #[error("the file has [{0}] already, with other content; replace that table by hand")]
    Present(String),
}

const BY_HAND: &str = "correct it, or add the entry by hand";
const COMMENTS: &str = "the file has comments, which would be lost; add the entry by hand";

/// Keys that say how a server is reached. Of an entry that is there already these are replaced;
/// others, such as `timeout` or `trust`, are the user's and stay.
const REACH_KEYS: [&str; 7] =
    ["type", "command", "args", "url", "httpUrl", "headers", "bearer_token_env_var"];

/// The whole new content of the file.
pub(super) fn merge(entry: &Entry, existing: Option<&str>) -> Result<String, MergeError> {
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

fn merge_json(entry: &Entry, text: &str) -> Result<String, MergeError> {
    if text.trim().is_empty() {
        return Ok(pretty(&entry.alone(), "  "));
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| malformed_json(text, &error))?;
    let before = json::parse(text.as_bytes())?;
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

fn add_input(root: &mut Map<String, Value>, input: &Value) -> Result<(), MergeError> {
    let inputs = root.entry("inputs").or_insert_with(|| json!([]));
    let inputs = inputs.as_array_mut().ok_or_else(|| unexpected("inputs", "an array"))?;
    if !inputs.iter().any(|present| present.get("id") == input.get("id")) {
        inputs.push(input.clone());
    }
    Ok(())
}

/// Appends a table. Editing one that is there could lose comments, so that is left to people.
fn merge_toml(entry: &Entry, text: &str) -> Result<String, MergeError> {
    let before: toml::Table = text.parse().map_err(|error| malformed_toml(text, &error))?;
    let path = format!("{}.{}", entry.servers_key, entry.name);
    let servers = before.get(entry.servers_key);
    if let Some(present) = servers.and_then(|servers| servers.get(&entry.name)) {
        let ours = toml::Value::try_from(&entry.server);
        return if ours.as_ref() == Ok(present) {
            Ok(text.to_owned())
        } else {
            Err(MergeError::Present(path))
        };
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

fn unexpected(key: &str, expected: &'static str) -> MergeError {
    MergeError::Unexpected { key: key.to_owned(), expected }
}

fn malformed_json(text: &str, error: &serde_json::Error) -> MergeError {
    let line_text = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let commented = line_text.contains("//") || line_text.contains("/*");
    let message = error.to_string();
    MergeError::Malformed {
        language: "JSON",
        line: error.line(),
        column: error.column(),
        message: message.split(" at line ").next().unwrap_or_default().to_owned(),
        advice: if commented { COMMENTS } else { BY_HAND },
    }
}

fn malformed_toml(text: &str, error: &toml::de::Error) -> MergeError {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    MergeError::Malformed {
        language: "TOML",
        line: before.matches('\n').count() + 1,
        column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
        message: error.message().to_owned(),
        advice: BY_HAND,
    }
}

/// The white space before the first indented line, so that the file keeps its look.
fn indentation(text: &str) -> &str {
    let indented =
        text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    indented.map_or("  ", |line| line.split(|c: char| !c.is_whitespace()).next().unwrap_or("  "))
}

fn pretty(value: &Value, indent: &str) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    if value.serialize(&mut serializer).is_err() {
        return value.to_string();
    }
    bytes.push(b'\n');
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_string())
}
