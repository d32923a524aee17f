//! Hashes of what each tool is, for the lock: an update can then name the tools that changed.

use std::collections::BTreeMap;
use std::path::Path;

use drawgate_core::canonical;
use serde_json::{Value, json};

use super::check::{expanded, is_reference, spec_file};
use super::types::{Connector, Manifest, Tool, ToolKind};
use crate::openapi::{Document, Operation};

impl Manifest {
    /// SHA-256 of each tool's definition, by name: name, description, parameters, and the command or
    /// the operation behind it. Of tools that only a server knows, it is what the manifest says; a whole
    /// API without its document in the pack is one entry, `connector:*`.
    #[must_use]
    pub fn definitions(&self, folder: &Path) -> BTreeMap<String, String> {
        let documents: BTreeMap<&str, Document> =
            self.connectors.iter().filter_map(|connector| document(connector, folder)).collect();
        let mut all = BTreeMap::new();
        for tool in &self.tools {
            let document = tool.connector_id.as_deref().and_then(|id| documents.get(id));
            match (tool.operations, document.and_then(|document| expanded(document, tool).ok())) {
                (Some(_), Some(operations)) => {
                    for (name, operation) in operations {
                        let behind = document.map(|document| behind(document, operation));
                        all.insert(name.clone(), hash(tool, &name, behind.as_ref()));
                    }
                }
                (Some(_), None) => {
                    all.insert(tool.label(), hash(tool, &tool.label(), None));
                }
                (None, _) => {
                    let name = tool.name.clone().unwrap_or_default();
                    let operation =
                        document.and_then(|it| Some((it, it.operation(tool.remote_name()).ok()?)));
                    let behind = operation.map(|(document, operation)| behind(document, operation));
                    all.insert(name.clone(), hash(tool, &name, behind.as_ref()));
                }
            }
        }
        all
    }
}

fn document<'a>(connector: &'a Connector, folder: &Path) -> Option<(&'a str, Document)> {
    let spec = connector.openapi.as_ref()?.spec_path.as_deref()?;
    let file = is_reference(spec).is_none().then(|| spec_file(folder, spec).ok()).flatten()?;
    Some((&connector.id, Document::read(&file).ok()?))
}

/// What a call of an operation is.
fn behind(document: &Document, operation: &Operation) -> Value {
    let definition = document.definition(operation, &operation.id).ok();
    json!({ "method": operation.method.as_str(), "path": operation.path, "definition": definition })
}

fn hash(tool: &Tool, name: &str, behind: Option<&Value>) -> String {
    let of = match tool.kind {
        ToolKind::Command => json!({ "template": tool.command_template, "sandbox": tool.sandbox }),
        ToolKind::Mcp => {
            json!({ "connector": tool.connector_id, "remoteTool": tool.remote_name() })
        }
        ToolKind::Openapi => json!({
            "connector": tool.connector_id,
            "operation": behind,
            "operationId": tool.operation_id,
        }),
    };
    canonical::hash(&json!({
        "name": name,
        "type": tool.kind,
        "description": tool.description,
        "parameters": tool.parameters,
        "annotations": tool.annotations,
        "of": of,
    }))
}
