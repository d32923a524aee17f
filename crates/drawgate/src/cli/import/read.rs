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

fn parse(format: Format, text: &str) -> anyhow::Result<Value> {
    match format {
        Format::Json if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Format::Json => json::parse(text.as_bytes()).map_err(|error| {
            let has_comments = text.lines().any(|line| line.trim_start().starts_with("//"));
            let advice =
                if has_comments { "; remove the comments, which JSON does not have" } else { "" };
            anyhow::anyhow!("{error}{advice}")
        }),
        Format::Toml => {
            let table: toml::Table = text.parse()?;
            Ok(serde_json::to_value(table)?)
        }
    }
}
