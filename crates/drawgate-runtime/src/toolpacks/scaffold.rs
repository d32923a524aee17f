//! `toolpacks new`: the smallest pack that works.

use std::fs;
use std::path::{Path, PathBuf};

use drawgate_sources::toolpack::FILE as MANIFEST;
use serde_json::json;

use super::error::{Code, ToolpackError};
use super::id::PackId;
use super::tree::FILE_MODE;
use crate::files;

/// Makes a pack in a new folder, whose name becomes the pack's id. Gives the files it made.
pub fn scaffold(folder: &Path) -> Result<Vec<PathBuf>, ToolpackError> {
    let folder = std::path::absolute(folder).map_err(ToolpackError::io("make", folder))?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let id: PackId = name
        .parse()
        .map_err(|error| ToolpackError::rejected(Code::Manifest, format!("{error}")))?;
    if folder.symlink_metadata().is_ok() {
        return Err(ToolpackError::Exists(folder));
    }
    fs::create_dir_all(&folder).map_err(ToolpackError::io("make", &folder))?;
    let contents = [(MANIFEST, manifest(&id)), ("README.md", readme(&id))];
    let write = |(name, content): (&str, String)| {
        let path = folder.join(name);
        files::write_new(&path, content.as_bytes(), FILE_MODE)
            .map_err(ToolpackError::io("write", &path))?;
        Ok(path)
    };
    contents.into_iter().map(write).collect()
}

fn manifest(id: &PackId) -> String {
    let manifest = json!({
        "id": id,
        "name": id,
        "version": "0.1.0",
        "description": "Says hello.",
        "enabled": false,
        "tools": [{
            "name": tool(id),
            "type": "command",
            "description": "Says hello to somebody.",
            "command_template": "printf -- 'Hello, %s!\\n' {{name}}",
            "parameters": {
                "type": "object",
                "properties": {
                    "name": { "type": "string", "description": "Whom to say hello to." }
                },
                "required": ["name"]
            }
        }]
    });
    format!("{manifest:#}\n")
}

/// A tool's name after the pack's, so that two new packs do not collide.
fn tool(id: &PackId) -> String {
    let stem: String = id
        .as_str()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .take(50)
        .collect();
    let lead = if stem.starts_with(|c: char| c.is_ascii_digit()) { "pack_" } else { "" };
    format!("{lead}{stem}_hello")
}

fn readme(id: &PackId) -> String {
    let tool = tool(id);
    format!(
        "# {id}

A toolpack for Drawgate. `toolpack.json` says which tools it has.

    drawgate toolpacks install ./{id}
    drawgate toolpacks enable {id}
    drawgate tools call {tool} name=you

A command is split into words first and filled in afterwards: what a caller gives for `{{{{name}}}}` stays
one word, whatever is in it, and no shell ever sees it. It runs in a sandbox, without network and with
a folder of its own. If it needs more, say so:

    \"permissions\": {{
      \"paths\": {{ \"read\": [\"~/notes\"], \"write\": [] }},
      \"hosts\": [\"api.example.com\"],
      \"env\": [\"EXAMPLE_TOKEN\"]
    }}

Whoever installs the pack is shown these, and the tools are held to them.
"
    )
}

#[cfg(test)]
#[path = "scaffold_tests.rs"]
mod tests;
