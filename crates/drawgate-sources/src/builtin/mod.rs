//! Tools that the gateway itself has: files in its workspace.
//!
//! They pass the same gate as everybody's tools.

mod path;
mod specs;
mod workspace;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use drawgate_core::model::{McpManifest, Offer, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use drawgate_host::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::kind::{self, ConfigError, SourceKind};
use path::FilePath;
use workspace::{Contents, Workspace, WorkspaceError};

/// Kind `builtin`.
#[derive(Debug, Clone, Copy)]
pub struct Kind;

/// What an operator may say about the built-in tools.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuiltinConfig {
    /// The folder that holds the workspace's files; it is created if it is missing.
    pub workspace: PathBuf,
}

impl SourceKind for Kind {
    fn name(&self) -> &'static str {
        "builtin"
    }

    fn build(
        &self,
        id: SourceId,
        config: Value,
        _host: &Arc<Host>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        let config: BuiltinConfig = kind::parse(config)?;
        Ok(Arc::new(BuiltinSource::new(id, &config.workspace)?))
    }
}

/// The built-in tools.
#[derive(Debug)]
pub struct BuiltinSource {
    id: SourceId,
    workspace: Arc<Workspace>,
}

impl BuiltinSource {
    /// Opens the workspace, creating its folder with access for its owner alone.
    pub fn new(id: SourceId, workspace: &Path) -> Result<Self, ConfigError> {
        let opened = Workspace::open(workspace);
        let workspace =
            opened.map_err(|error| ConfigError::value("workspace", error.to_string()))?;
        Ok(Self { id, workspace: Arc::new(workspace) })
    }
}

#[async_trait]
impl ToolSource for BuiltinSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Ok(McpManifest {
            server_id: self.id.clone(),
            name: "Drawgate".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: Some("files in the gateway's workspace".to_owned()),
            tools: specs::tools(),
            offer: Offer::default(),
        })
    }

    async fn call(
        &self,
        call: PermittedCall,
        _cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let tool = call.tool().to_owned();
        let workspace = Arc::clone(&self.workspace);
        let work = move || perform(&workspace, &tool, &call.into_arguments());
        let outcome = tokio::task::spawn_blocking(work).await;
        outcome.map_err(|_| SourceError::Protocol("the tool broke off".to_owned()))?
    }
}

fn perform(
    workspace: &Workspace,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<ToolOutput, SourceError> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
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
    let mut lines: Vec<String> =
        listing.files.iter().map(|file| format!("{} ({} bytes)", file.path, file.size)).collect();
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

fn delete(workspace: &Workspace, path: &FilePath) -> Result<ToolOutput, WorkspaceError> {
    workspace.delete(path)?;
    Ok(ToolOutput::text(format!("deleted `{path}`")))
}

#[cfg(test)]
#[path = "builtin_tests.rs"]
mod tests;
