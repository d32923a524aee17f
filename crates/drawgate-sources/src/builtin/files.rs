//! The tools that work on files of the workspace.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use drawgate_core::model::ToolOutput;
use drawgate_core::registry::visible_line;
use drawgate_core::source::SourceError;
use serde_json::{Map, Value, json};

use super::path::FilePath;
use super::workspace::{Contents, Workspace, WorkspaceError};

pub(super) fn perform(
    workspace: &Workspace,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<ToolOutput, SourceError> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    if let Err(error) = workspace.check() {
        return Ok(ToolOutput::failure(error.to_string()));
    }
    let path = || FilePath::new(text("path")).map_err(WorkspaceError::Path);
    let outcome = match tool {
        "vfs_read" => path().and_then(|path| read(workspace, &path)),
        "vfs_write" => {
            path().and_then(|path| write(workspace, &path, text("content"), text("encoding")))
        }
        "vfs_list" => list(workspace, text("prefix")),
        "vfs_delete" => path().and_then(|path| delete(workspace, &path)),
        other => return Err(SourceError::Protocol(format!("there is no built-in tool `{other}`"))),
    };
    // A missing file is the tool's answer, which a model can act upon.
    Ok(outcome.unwrap_or_else(|error| ToolOutput::failure(error.to_string())))
}

fn read(workspace: &Workspace, path: &FilePath) -> Result<ToolOutput, WorkspaceError> {
    Ok(match workspace.read(path)? {
        Contents::Text(text) => ToolOutput::text(text),
        Contents::Binary(bytes) => ToolOutput {
            content: vec![json!({ "type": "resource", "resource": {
                "uri": format!("workspace:///{}", path.as_uri_path()),
                "mimeType": "application/octet-stream",
                "blob": STANDARD.encode(bytes),
            } })],
            ..ToolOutput::default()
        },
    })
}

fn write(
    workspace: &Workspace,
    path: &FilePath,
    content: &str,
    encoding: &str,
) -> Result<ToolOutput, WorkspaceError> {
    let decoded;
    let bytes = if encoding == "base64" {
        decoded = STANDARD.decode(content).map_err(|_| WorkspaceError::Encoding)?;
        decoded.as_slice()
    } else {
        content.as_bytes()
    };
    workspace.write(path, bytes)?;
    Ok(ToolOutput::text(format!("wrote {} bytes to `{path}`", bytes.len())))
}

fn list(workspace: &Workspace, prefix: &str) -> Result<ToolOutput, WorkspaceError> {
    let listing = workspace.list(prefix)?;
    let files = listing.files.iter();
    let mut lines: Vec<String> =
        files.map(|file| format!("{} ({} bytes)", on_one_line(&file.path), file.size)).collect();
    if listing.truncated {
        lines.push("there are more files; give a longer `prefix`".to_owned());
    }
    if lines.is_empty() {
        lines.push("no files".to_owned());
    }
    let files: Vec<Value> =
        listing.files.iter().map(|file| json!({ "path": file.path, "size": file.size })).collect();
    let structured = json!({ "files": files, "truncated": listing.truncated });
    Ok(ToolOutput { structured: Some(structured), ..ToolOutput::text(lines.join("\n")) })
}

/// The name of a file must not add lines to a list, nor write control sequences to a terminal. The
/// exact names are in the structured answer.
fn on_one_line(name: &str) -> String {
    visible_line(name).replace('\t', "\\t")
}

fn delete(workspace: &Workspace, path: &FilePath) -> Result<ToolOutput, WorkspaceError> {
    workspace.delete(path)?;
    Ok(ToolOutput::text(format!("deleted `{path}`")))
}
