//! Servers as they stand in the files of MCP clients.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use drawgate_core::json;
use serde_json::{Map, Value};

/// The largest file that is read.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// One server in a client's file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) file: PathBuf,
    /// The keys that lead to the object or table that holds it.
    pub(super) section: Vec<String>,
    /// The client's name for it.
    pub(super) name: String,
    pub(super) server: Map<String, Value>,
}

/// The language of a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Toml,
}

impl Format {
    pub(super) fn of(path: &Path) -> Self {
        let is_toml = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("toml"));
        if is_toml { Self::Toml } else { Self::Json }
    }
}

/// The servers of a file, for all folders and for the project; `None` if there is no such file.
pub(super) fn file(path: &Path, project: &Path) -> anyhow::Result<Option<Vec<Entry>>> {
    let text = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // One that is written by nobody would be waited for.
        Ok(found) if !found.is_file() => bail!("`{}` is not a file", path.display()),
        Ok(found) if found.len() > MAX_FILE => bail!("`{}` is too large", path.display()),
        _ => std::fs::read_to_string(path)
            .with_context(|| format!("can't read `{}`", path.display()))?,
    };
    let whole = parse(Format::of(path), &text)
        .with_context(|| format!("`{}` can't be read", path.display()))?;
    let mut all = Vec::new();
    for section in sections(Format::of(path), project) {
        let found = section.iter().try_fold(&whole, |value, key| value.get(key));
        let Some(found) = found else { continue };
        let servers = found.as_object().with_context(|| {
            format!("`{}` of `{}` is not an object", section.join("."), path.display())
        })?;
        for (name, server) in servers {
            let server = server
                .as_object()
                .with_context(|| format!("`{name}` of `{}` is not an object", path.display()))?;
            let (file, section) = (path.to_owned(), section.clone());
            all.push(Entry { file, section, name: name.clone(), server: server.clone() });
        }
    }
    Ok(Some(all))
}

/// Where clients keep their servers: Claude Code also by project, Visual Studio Code in two places.
fn sections(format: Format, project: &Path) -> Vec<Vec<String>> {
    let keys = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect();
    match format {
        Format::Toml => vec![keys(&["mcp_servers"])],
        Format::Json => vec![
            keys(&["mcpServers"]),
            keys(&["servers"]),
            keys(&["mcp", "servers"]),
            keys(&["projects", &project.to_string_lossy(), "mcpServers"]),
        ],
    }
}

/// JSON as editors write it, without its comments and without commas before a closing bracket. Blanks take
/// their place, so that places in errors stay the same.
pub(super) fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    // Where a comma stands that nothing but blanks and comments has followed so far.
    let mut comma = None;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => c.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        if part.starts_with("//") || part.starts_with("/*") {
            plain.extend(part.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            match (c, comma) {
                ('}' | ']', Some(at)) => plain.replace_range(at..=at, " "),
                _ if c.is_whitespace() => {}
                _ => comma = None,
            }
            if c == ',' {
                comma = Some(plain.len());
            }
            plain.push_str(part);
        }
        rest = after;
    }
    plain
}

/// The bytes of a string that a text begins with, with its quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = true;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' if !is_escaped => is_escaped = true,
            _ => is_escaped = false,
        }
    }
    text.len()
}

fn parse(format: Format, text: &str) -> anyhow::Result<Value> {
    match format {
        Format::Json if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Format::Json => {
            let strict = json::parse(text.as_bytes());
            let read = strict.or_else(|_| json::parse(without_comments(text).as_bytes()));
            read.map_err(|error| anyhow::anyhow!("{error}"))
        }
        Format::Toml => {
            let table: toml::Table = text.parse()?;
            Ok(serde_json::to_value(table)?)
        }
    }
}
