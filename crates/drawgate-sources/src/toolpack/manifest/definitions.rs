//! Hashes of what each tool is, for the lock: an update can then name the tools that changed.

use std::collections::BTreeMap;
use std::path::Path;

use drawgate_core::canonical;
use serde_json::{Value, json};

use super::check::expanded;
use super::types::{Connector, Manifest, Tool};
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
                        all.insert(name.clone(), self.hash(tool, &name, behind.as_ref()));
                    }
                }
                (Some(_), None) => {
                    all.insert(tool.label(), self.hash(tool, &tool.label(), None));
                }
                (None, _) => {
                    let name = tool.name.clone().unwrap_or_default();
                    let operation =
                        document.and_then(|it| Some((it, it.operation(tool.remote_name()).ok()?)));
                    let behind = operation.map(|(document, operation)| behind(document, operation));
                    all.insert(name.clone(), self.hash(tool, &name, behind.as_ref()));
                }
            }
        }
        all
    }

    fn hash(&self, tool: &Tool, name: &str, behind: Option<&Value>) -> String {
        let settings = self.connector(tool).and_then(Connector::settings);
        let of = match settings {
            Some(settings) => settings.definition(tool, behind),
            None => json!({ "template": tool.command_template, "sandbox": tool.sandbox }),
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
}

fn document<'a>(connector: &'a Connector, folder: &Path) -> Option<(&'a str, Document)> {
    Some((&connector.id, connector.settings()?.document(folder)?))
}

/// What a call of an operation is.
fn behind(document: &Document, operation: &Operation) -> Value {
    let definition = document.definition(operation, &operation.id).ok();
    json!({ "method": operation.method.as_str(), "path": operation.path, "definition": definition })
}
