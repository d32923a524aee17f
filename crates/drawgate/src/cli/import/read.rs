//! Servers as they stand in the files of MCP clients.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

use super::super::client_files::Format;
use super::super::files;

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

impl Entry {
    /// The keys that lead to it.
    pub(super) fn keys(&self) -> Vec<&str> {
        self.section.iter().chain([&self.name]).map(String::as_str).collect()
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
    let whole = Format::of(path)
        .parse(&files::without_mark(text))
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
