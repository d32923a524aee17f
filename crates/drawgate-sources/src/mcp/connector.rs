//! MCP servers as connectors of toolpacks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use drawgate_core::model::{SourceId, shown_name};
use drawgate_core::source::ToolSource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

use super::McpSource;
use super::config::McpConfig;
use crate::kind::ConfigError;
use crate::openapi::Document;
use crate::server::{Connection, ServerConfig, Transport};
use crate::setting::Setting;
use crate::toolpack::manifest::{ConnectorCheck, inside, is_bundled};
use crate::toolpack::{ConnectorKind, ConnectorSettings, PackContext, Selection};

/// The shortest time in which a server must start, even if its calls must be faster.
const START_SECONDS: u64 = 30;

/// Type `mcp`.
pub(super) struct Mcp;

/// An MCP server. Strings of the form `env:NAME` are replaced by that variable's value.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpConnector {
    /// `stdio` for a program, `streamable_http` for an address; it may be left out.
    pub transport: Option<PackTransport>,
    /// For `streamable_http`: the address.
    pub url: Option<String>,
    /// For `streamable_http`: further headers, such as `Authorization`.
    pub headers: BTreeMap<String, String>,
    /// For `stdio`: the program. A relative path begins in the pack's folder.
    pub command: Option<String>,
    /// For `stdio`: its arguments.
    pub args: Vec<String>,
    /// For `stdio`: its environment.
    pub env: BTreeMap<String, String>,
    /// For `stdio`: the folder inside the pack that it starts in; the pack's own by default.
    pub working_dir: Option<String>,
    /// How long a call may take.
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u64>,
    /// How often a call that could not be sent is tried again; never by default.
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<u32>,
    /// How many calls the server gets at once.
    #[schemars(range(min = 1, max = 1024))]
    pub concurrency: Option<usize>,
}

/// How a pack reaches an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PackTransport {
    /// A program that the gateway starts, in the sandbox.
    Stdio,
    /// An address.
    StreamableHttp,
}

impl McpConnector {
    /// The transport, said or implied.
    fn transport(&self) -> Option<PackTransport> {
        match (self.transport, &self.command, &self.url) {
            (Some(transport), _, _) => Some(transport),
            (None, Some(_), None) => Some(PackTransport::Stdio),
            (None, None, Some(_)) => Some(PackTransport::StreamableHttp),
            (None, _, _) => None,
        }
    }

    fn check_program(&self, check: &mut ConnectorCheck<'_>) {
        match self.command.as_deref() {
            Some("") => check.problem("command", "it is empty", "name the server's program"),
            Some(command) => check.program("command", command),
            None if check.knows("command") => {}
            None => check.problem(
                "command",
                "`command` is missing; a server with transport `stdio` is a program",
                "name it, such as `node`",
            ),
        }
        check.words("args", &self.args);
        check.variables("env", &self.env);
    }

    fn server(&self, pack: &PackContext<'_>) -> Result<ServerConfig, ConfigError> {
        let settings = |map: BTreeMap<String, String>| {
            map.into_iter().map(|(name, value)| (name, Setting::from(value))).collect()
        };
        match self.transport() {
            Some(PackTransport::Stdio) => Ok(ServerConfig {
                connection: Connection {
                    transport: Some(Transport::Stdio),
                    command: self.command.as_deref().map(|it| located(it, pack.folder())),
                    args: self.args.clone(),
                    env: settings(pack.environment(self.env.clone())),
                    working_dir: Some(
                        pack.folder().join(self.working_dir.as_deref().unwrap_or(".")),
                    ),
                    ..Connection::default()
                },
                sandbox: Some(pack.sandbox()),
                hosts: None,
            }),
            Some(PackTransport::StreamableHttp) => Ok(ServerConfig {
                connection: Connection {
                    transport: Some(Transport::StreamableHttp),
                    url: self.url.clone(),
                    headers: settings(self.headers.clone()),
                    ..Connection::default()
                },
                sandbox: None,
                hosts: Some(pack.hosts(self)?),
            }),
            None => Err(ConfigError::Missing {
                field: "transport",
                why: "give `command` for a server that is a program, or `url` for one on the network",
            }),
        }
    }
}

/// A relative path of a program begins in the pack's folder; a bare name is looked up in `PATH`.
fn located(command: &str, folder: &Path) -> String {
    if is_bundled(command) {
        folder.join(command).to_string_lossy().into_owned()
    } else {
        command.to_owned()
    }
}

impl ConnectorKind for Mcp {
    fn description(&self) -> &'static str {
        "An MCP server."
    }

    fn settings_description(&self) -> &'static str {
        "For type `mcp`: the server."
    }

    fn tool_description(&self) -> &'static str {
        "A tool of an MCP server."
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<McpConnector>()
    }

    fn example(&self) -> &'static str {
        "\"mcp\": { \"transport\": \"stdio\", \"command\": … }"
    }

    fn read(&self, settings: &Value) -> serde_json::Result<Arc<dyn ConnectorSettings>> {
        Ok(Arc::new(McpConnector::deserialize(settings)?))
    }
}

impl ConnectorSettings for McpConnector {
    fn check(&self, check: &mut ConnectorCheck<'_>) {
        let stdio_only = [
            ("command", self.command.is_some()),
            ("args", !self.args.is_empty()),
            ("env", !self.env.is_empty()),
            ("working_dir", self.working_dir.is_some()),
        ];
        let http_only = [("url", self.url.is_some()), ("headers", !self.headers.is_empty())];
        match self.transport() {
            Some(PackTransport::Stdio) => {
                unused(&http_only, "a server with transport `stdio` is a program", check);
                self.check_program(check);
            }
            Some(PackTransport::StreamableHttp) => {
                let why = "a server with transport `streamable_http` is an address";
                unused(&stdio_only, why, check);
                match &self.url {
                    Some(url) => check.address("url", url),
                    None if check.knows("url") => {}
                    None => check.problem(
                        "url",
                        "`url` is missing; a server with transport `streamable_http` is reached by it",
                        "add one such as `https://mcp.example.com`",
                    ),
                }
            }
            None if check.knows("") => {}
            None => check.problem(
                "transport",
                "`transport` is missing",
                "use `stdio` with `command`, or `streamable_http` with `url`",
            ),
        }
        check.headers("headers", &self.headers);
    }

    fn check_files(
        &self,
        folder: Option<&Path>,
        check: &mut ConnectorCheck<'_>,
    ) -> Option<Document> {
        let dir = self.working_dir.as_deref()?;
        if let Err(reason) = inside(dir) {
            check.problem("working_dir", reason, "name a folder of the pack, or leave it out");
        } else if folder.is_some_and(|folder| !folder.join(dir).is_dir()) {
            let message = format!("the pack has no folder `{}`", shown_name(dir));
            let advice = "add it to the pack, or leave `working_dir` out";
            check.problem("working_dir", message, advice);
        }
        None
    }

    fn timeout_seconds(&self) -> Option<u64> {
        self.timeout_seconds
    }

    fn retries(&self) -> u32 {
        self.retries.unwrap_or(0)
    }

    fn program(&self) -> Option<(&str, &[String])> {
        match self.transport() {
            Some(PackTransport::Stdio) => Some((self.command.as_deref()?, &self.args)),
            Some(PackTransport::StreamableHttp) | None => None,
        }
    }

    fn addresses(&self) -> Vec<(String, &str)> {
        match (self.transport(), &self.url) {
            (Some(PackTransport::StreamableHttp), Some(url)) => vec![("url".to_owned(), url)],
            (Some(_) | None, _) => Vec::new(),
        }
    }

    fn build(
        &self,
        id: SourceId,
        _tools: Selection<'_>,
        pack: &PackContext<'_>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        let seconds = self.timeout_seconds.unwrap_or(0).max(START_SECONDS);
        let config = McpConfig {
            start_timeout_ms: seconds.saturating_mul(1000),
            concurrency: self.concurrency,
            ..McpConfig::new(self.server(pack)?)
        };
        Ok(Arc::new(McpSource::new(id, config, pack.host())?))
    }
}

fn unused(members: &[(&str, bool)], why: &str, check: &mut ConnectorCheck<'_>) {
    for (key, _) in members.iter().filter(|(_, present)| *present) {
        let message = format!("`{key}` has no meaning here; {why}");
        check.problem(key, message, "remove it, or change `transport`");
    }
}
