//! APIs as connectors of toolpacks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use drawgate_core::model::{SourceId, shown_name};
use drawgate_core::source::ToolSource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    AuthConfig, Credential, Document, ListedOperation, OpenApiConfig, OpenApiSource, Operations,
};
use crate::configure::resolve;
use crate::kind::ConfigError;
use crate::toolpack::manifest::{ConnectorCheck, Tool, inside, is_reference, spec_file};
use crate::toolpack::{ConnectorKind, ConnectorSettings, PackContext, Selection};

/// Type `openapi`.
pub(super) struct Openapi;

/// An HTTP API. Strings of the form `env:NAME` are replaced by that variable's value.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenapiConnector {
    /// The `OpenAPI` document, as a file of the pack.
    pub spec_path: Option<String>,
    /// The `OpenAPI` document, as an address.
    pub spec_url: Option<String>,
    /// The API's address, in place of the document's first server.
    pub base_url: Option<String>,
    /// Further headers, such as an API key.
    pub headers: BTreeMap<String, String>,
    /// Credentials by the name of their security scheme in the document.
    pub auth: AuthConfig,
    /// How long a call may take.
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u64>,
    /// How often a call that failed without effect is tried again.
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<u32>,
    /// How many calls the API gets at once.
    #[schemars(range(min = 1, max = 256))]
    pub concurrency: Option<usize>,
}

impl ConnectorKind for Openapi {
    fn description(&self) -> &'static str {
        "An HTTP API that an `OpenAPI` document describes."
    }

    fn settings_description(&self) -> &'static str {
        "For type `openapi`: the API."
    }

    fn tool_description(&self) -> &'static str {
        "An operation of an API."
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<OpenapiConnector>()
    }

    fn condition(&self) -> Option<Value> {
        Some(json!({ "oneOf": [{ "required": ["spec_path"] }, { "required": ["spec_url"] }] }))
    }

    fn example(&self) -> &'static str {
        "\"openapi\": { \"spec_path\": … }"
    }

    fn read(&self, settings: &Value) -> serde_json::Result<Arc<dyn ConnectorSettings>> {
        Ok(Arc::new(OpenapiConnector::deserialize(settings)?))
    }

    fn has_operations(&self) -> bool {
        true
    }
}

impl ConnectorSettings for OpenapiConnector {
    fn check(&self, check: &mut ConnectorCheck<'_>) {
        match (&self.spec_path, &self.spec_url) {
            (Some(_), Some(_)) => check.problem(
                "spec_url",
                "there are both `spec_path` and `spec_url`",
                "keep one of them",
            ),
            (None, None) if !check.knows("spec_path") && !check.knows("spec_url") => check.problem(
                "",
                "`spec_path` or `spec_url` is needed",
                "give the OpenAPI document as a file of the pack or by its address",
            ),
            (Some(_), None) | (None, Some(_) | None) => {}
        }
        for (key, url) in self.addresses() {
            match template(url) {
                Some(reason) => check.problem(
                    &key,
                    reason,
                    "write the whole address, or `env:NAME` to take it from the environment",
                ),
                None => check.address(&key, url),
            }
        }
        check.headers("headers", &self.headers);
        check.references("auth");
    }

    fn check_files(
        &self,
        folder: Option<&Path>,
        check: &mut ConnectorCheck<'_>,
    ) -> Option<Document> {
        let spec = self.spec_path.as_deref()?;
        if check.reference("spec_path", spec) {
            return None;
        }
        if let Err(reason) = inside(spec) {
            check.problem("spec_path", reason, "name a file of the pack, such as `spec/api.json`");
            return None;
        }
        let file = spec_file(folder?, spec);
        let read = file.and_then(|file| Document::read(&file).map_err(|error| error.to_string()));
        let document = match read {
            Ok(document) => document,
            Err(reason) => {
                let advice = "put an OpenAPI 3 document there, as JSON or YAML";
                check.problem("spec_path", reason, advice);
                return None;
            }
        };
        self.check_servers(&document, check);
        // Credentials are for schemes that the document has, and that can be sent.
        for (scheme, reason) in document.auth_faults(&self.auth) {
            check.fault_in("auth", &scheme, reason);
        }
        Some(document)
    }

    fn document(&self, folder: &Path) -> Option<Document> {
        let spec = self.spec_path.as_deref().filter(|spec| is_reference(spec).is_none())?;
        Document::read(&spec_file(folder, spec).ok()?).ok()
    }

    fn timeout_seconds(&self) -> Option<u64> {
        self.timeout_seconds
    }

    fn addresses(&self) -> Vec<(String, &str)> {
        let own = [("spec_url", &self.spec_url), ("base_url", &self.base_url)];
        let own = own.into_iter().filter_map(|(key, url)| Some((key.to_owned(), url.as_deref()?)));
        let tokens = self.auth.iter().filter_map(|(scheme, credential)| match credential {
            Credential::Client(client) => {
                Some((format!("auth.{scheme}.token_url"), client.token_url.as_deref()?))
            }
            Credential::Text(_) | Credential::Password(_) => None,
        });
        own.chain(tokens).collect()
    }

    fn file_addresses(&self, folder: &Path) -> Vec<String> {
        // With `base_url` the document's servers are without effect, but for where tokens are fetched.
        let asks = self.auth.values().any(|credential| match credential {
            Credential::Client(client) => client.token_url.is_none(),
            Credential::Text(_) | Credential::Password(_) => false,
        });
        if self.base_url.is_some() && !asks {
            return Vec::new();
        }
        let document = self.document(folder);
        document.iter().flat_map(Document::addresses).map(|url| url.to_string()).collect()
    }

    fn definition(&self, tool: &Tool, operation: Option<&Value>) -> Value {
        json!({
            "connector": tool.connector_id,
            "operation": operation,
            "operationId": tool.operation_id,
        })
    }

    fn renames_tools(&self) -> bool {
        true
    }

    fn build(
        &self,
        id: SourceId,
        tools: Selection<'_>,
        pack: &PackContext<'_>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        // A tool's own time may be longer than its connector's.
        let own = tools.tools().filter_map(|tool| tool.timeout_seconds);
        let spec_path = self.spec_path.as_deref().map(|spec| located(spec, pack)).transpose()?;
        let config = OpenApiConfig {
            api: Self {
                spec_path,
                timeout_seconds: own.chain(self.timeout_seconds).max(),
                ..self.clone()
            },
            hosts: Some(pack.hosts(self)?),
            operations: match tools {
                Selection::Named(tools) => {
                    Operations::Listed(tools.iter().map(|tool| listed(tool)).collect())
                }
                Selection::Operations(tool) => Operations::Chosen(tool.choice()),
            },
        };
        Ok(Arc::new(OpenApiSource::new(id, config, pack.host())?))
    }
}

impl OpenapiConnector {
    /// Requests must go somewhere, and what lies inside must be declared like every other address.
    fn check_servers(&self, document: &Document, check: &mut ConnectorCheck<'_>) {
        if self.base_url.is_some() || check.knows("base_url") {
            return;
        }
        if let Err(error) = document.base_url() {
            return check.fault("base_url", error.to_string());
        }
        for url in document.addresses() {
            check.declared("base_url", url.as_str());
        }
    }
}

fn listed(tool: &Tool) -> ListedOperation {
    ListedOperation {
        name: tool.name.clone().unwrap_or_default(),
        operation_id: tool.remote_name().to_owned(),
        description: None,
    }
}

/// The file of a document. One that a variable names is the operator's, wherever it is.
fn located(spec: &str, pack: &PackContext<'_>) -> Result<String, ConfigError> {
    let file = if is_reference(spec).is_none() {
        spec_file(pack.folder(), spec).map_err(|reason| ConfigError::value("spec_path", reason))?
    } else {
        let named = resolve("spec_path", spec, &pack.host().secrets)?;
        pack.folder().join(named.expose())
    };
    Ok(file.to_string_lossy().into_owned())
}

/// Why an address is a template: nothing fills in the variables of an OpenAPI document's servers.
fn template(url: &str) -> Option<String> {
    let (_, rest) = url.split_once('{')?;
    let (name, _) = rest.split_once('}')?;
    Some(format!("`{{{}}}` is not filled in", shown_name(name)))
}
