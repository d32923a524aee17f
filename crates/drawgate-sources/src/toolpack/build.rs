//! From a manifest to the sources behind its tools: one for all commands, one for each connector.
//!
//! A source that can't be made, for want of a variable above all, takes only its own tools with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::canonical::sha256_hex;
use drawgate_core::model::SourceId;
use drawgate_host::Host;
use drawgate_host::egress::{Admission, HostRule, Reach};
use drawgate_host::process::SpawnError;
use serde_json::{Value, json};

use super::config::ToolpackConfig;
use super::grounds::Grounds;
use super::manifest::{
    Address, Connector, ConnectorKind, Manifest, McpConnector, OpenapiConnector, PackTransport,
    Tool, ToolKind, address, is_bundled, is_reference, spec_file,
};
use super::part::{Part, Wanted, Wants};
use super::permissions::document_addresses;
use super::seal::Seal;
use crate::kind;

/// How long a server may take to start at least, whatever its calls may.
const START_SECONDS: u64 = 30;
/// The longest id of a source.
const MAX_ID: usize = 64;

/// Everything that the parts of a pack are made of.
pub(super) struct Builder<'a> {
    pub(super) id: &'a SourceId,
    pub(super) manifest: &'a Manifest,
    pub(super) config: &'a ToolpackConfig,
    pub(super) grounds: &'a Grounds,
    pub(super) host: &'a Arc<Host>,
}

/// The machine for a pack's sources: programs start only as long as the pack is what was loaded. A
/// login belongs to a server that the operator configured; no pack gets one by choosing the server's
/// name.
pub(super) fn host_for(seal: &Arc<Seal>, host: &Host) -> Arc<Host> {
    let seal = Arc::clone(seal);
    Arc::new(Host {
        secrets: Arc::clone(&host.secrets),
        egress: Arc::clone(&host.egress),
        processes: host.processes.clone(),
        start_check: Some(Arc::new(move || seal.check().map_err(SpawnError::Refused))),
        clock: Arc::clone(&host.clock),
        ids: Arc::clone(&host.ids),
        credentials: None,
    })
}

impl Builder<'_> {
    /// Every part, in the order of the manifest.
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let commands = self.tools(|tool| tool.kind == ToolKind::Command);
        if !commands.is_empty() {
            let config = self.commands(&commands);
            parts.push(self.part("commands", "command", Ok(config), wanted(&commands)));
        }
        for connector in &self.manifest.connectors {
            self.connector(connector, &mut parts);
        }
        parts
    }

    fn connector(&self, connector: &Connector, parts: &mut Vec<Part>) {
        let of = |tool: &Tool| tool.connector_id.as_ref() == Some(&connector.id);
        let named = self.tools(|tool| of(tool) && tool.operations.is_none());
        let (id, kind) = (connector.id.as_str(), connector.kind.as_str());
        match (connector.kind, &connector.mcp, &connector.openapi) {
            (ConnectorKind::Mcp, Some(mcp), _) if !named.is_empty() => {
                let config = self.mcp(connector, mcp);
                let part = self.part(id, kind, config, wanted(&named));
                parts.push(part.with(mcp.retries.unwrap_or(0), mcp.timeout_seconds));
            }
            (ConnectorKind::Openapi, _, Some(openapi)) => {
                if !named.is_empty() {
                    let listed: Value = named.iter().map(|(_, tool)| listed(tool)).collect();
                    let config = self.openapi(openapi, &listed, &named);
                    let mut wants = wanted(&named);
                    wants.by_own_name();
                    let part = self.part(id, kind, config, wants);
                    parts.push(part.with(0, openapi.timeout_seconds));
                }
                for whole in self.tools(|tool| of(tool) && tool.operations.is_some()) {
                    let (place, tool) = whole;
                    let chosen = serde_json::to_value(tool.choice()).unwrap_or_default();
                    let config = self.openapi(openapi, &chosen, &[whole]);
                    let wants = Wants::All { place, label: tool.label(), timeout: seconds(tool) };
                    let part = self.part(id, kind, config, wants);
                    parts.push(part.with(0, openapi.timeout_seconds));
                }
            }
            (ConnectorKind::Mcp | ConnectorKind::Openapi, _, _) => {}
        }
    }

    fn tools(&self, fits: impl Fn(&Tool) -> bool) -> Vec<(usize, &Tool)> {
        self.manifest.tools.iter().enumerate().filter(|(_, tool)| fits(tool)).collect()
    }

    fn part(
        &self,
        label: &str,
        kind: &'static str,
        config: Result<Value, String>,
        wants: Wants,
    ) -> Part {
        let source = config.and_then(|config| {
            let id = inner_id(self.id, label).map_err(|error| error.to_string())?;
            kind::build(kind, id, config, self.host).map_err(|error| error.to_string())
        });
        Part::new(label, kind, source, wants)
    }

    fn commands(&self, tools: &[(usize, &Tool)]) -> Value {
        let env = self.manifest.permissions.env.iter();
        let env: BTreeMap<String, String> =
            env.map(|name| (name.clone(), format!("env:{name}"))).collect();
        let tool = |tool: &Tool| {
            let profile = self.config.command_profile(self.manifest, tool);
            compact(json!({
                "name": tool.name,
                "description": tool.description,
                "command_template": tool.command_template,
                "parameters": tool.parameters(),
                "timeout_seconds": tool.timeout_seconds,
                "annotations": tool.annotations,
                "sandbox": self.grounds.sandbox(profile),
                "env": self.grounds.environment(profile, env.clone()),
            }))
        };
        let tools: Vec<Value> = tools.iter().map(|(_, it)| tool(it)).collect();
        json!({ "folder": self.grounds.folder, "tools": tools })
    }

    fn mcp(&self, connector: &Connector, mcp: &McpConnector) -> Result<Value, String> {
        let start = mcp.timeout_seconds.unwrap_or(0).max(START_SECONDS) * 1000;
        let mut config = match mcp.transport() {
            Some(PackTransport::Stdio) => {
                let profile = self.config.connector_profile(self.manifest, connector);
                let dir = self.grounds.folder.join(mcp.working_dir.as_deref().unwrap_or("."));
                let command = mcp.command.as_deref().unwrap_or_default();
                json!({
                    "transport": "stdio",
                    "command": bundled(command, &self.grounds.folder),
                    "args": mcp.args,
                    "env": self.grounds.environment(profile, mcp.env.clone()),
                    "working_dir": dir,
                    "sandbox": self.grounds.sandbox(profile),
                })
            }
            Some(PackTransport::StreamableHttp) => {
                let url = mcp.url.as_deref().unwrap_or_default();
                json!({
                    "transport": "streamable_http",
                    "url": url,
                    "headers": mcp.headers,
                    "hosts": self.hosts([self.resolved("url", url)?].into_iter().flatten()),
                })
            }
            None => return Err("`transport` is missing".to_owned()),
        };
        if let Value::Object(map) = &mut config {
            map.insert("start_timeout_ms".into(), start.into());
            if let Some(concurrency) = mcp.concurrency {
                map.insert("concurrency".into(), concurrency.into());
            }
        }
        Ok(config)
    }

    fn openapi(
        &self,
        openapi: &OpenapiConnector,
        operations: &Value,
        tools: &[(usize, &Tool)],
    ) -> Result<Value, String> {
        // A tool's own time may be longer than its connector's.
        let own = tools.iter().filter_map(|(_, tool)| tool.timeout_seconds);
        let longest = own.chain(openapi.timeout_seconds).max();
        let mut addresses = document_addresses(openapi, &self.grounds.folder);
        for (field, url) in openapi.addresses() {
            addresses.extend(self.resolved(&field, url)?);
        }
        let spec_path =
            openapi.spec_path.as_deref().map(|spec| self.spec_path(spec)).transpose()?;
        Ok(compact(json!({
            "spec_path": spec_path,
            "spec_url": openapi.spec_url,
            "base_url": openapi.base_url,
            "headers": openapi.headers,
            "auth": openapi.auth,
            "timeout_seconds": longest,
            "retries": openapi.retries,
            "concurrency": openapi.concurrency,
            "hosts": self.hosts(addresses.into_iter()),
            "operations": operations,
        })))
    }

    /// The file of a document. One that a variable names is the operator's, wherever it is.
    fn spec_path(&self, spec: &str) -> Result<String, String> {
        let file = if is_reference(spec).is_none() {
            spec_file(&self.grounds.folder, spec)?
        } else {
            let resolved = self.host.secrets.resolve(spec);
            let resolved = resolved.map_err(|error| format!("{error} (in `spec_path`)"))?;
            self.grounds.folder.join(resolved.expose())
        };
        Ok(file.to_string_lossy().into_owned())
    }

    /// The address that a string holds or refers to. What is wrong with it, the source itself says.
    fn resolved(&self, field: &str, text: &str) -> Result<Option<Address>, String> {
        let resolved = self.host.secrets.resolve(text);
        let resolved = resolved.map_err(|error| format!("{error} (in `{field}`)"))?;
        Ok(address(resolved.expose()).ok())
    }

    /// Whom a connector may reach: what is declared, and its own addresses. An address of this machine
    /// or of a private network must be declared.
    fn hosts(&self, own: impl Iterator<Item = Address>) -> Vec<String> {
        let declared = self.grounds.hosts.iter().filter_map(|host| host.parse::<HostRule>().ok());
        let declared = Reach::only(declared);
        let mut hosts = self.grounds.hosts.clone();
        for address in own {
            let known = declared.admits(&address.host, address.port) != Admission::Refused;
            if !address.inner && !known {
                hosts.push(address.rule().to_owned());
            }
        }
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

fn wanted(tools: &[(usize, &Tool)]) -> Wants {
    let one = |(place, tool): &(usize, &Tool)| Wanted {
        place: *place,
        name: tool.name.clone().unwrap_or_default(),
        inner: tool.remote_name().into(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone().map(Value::Object),
        annotations: tool.annotations.clone().map(Value::Object),
        timeout: seconds(tool),
    };
    Wants::Named(tools.iter().map(one).collect())
}

fn seconds(tool: &Tool) -> Option<Duration> {
    tool.timeout_seconds.map(Duration::from_secs)
}

fn listed(tool: &Tool) -> Value {
    json!({ "name": tool.name, "operation_id": tool.remote_name() })
}

/// A relative path of a program begins in the pack's folder; a bare name is looked up in `PATH`.
fn bundled(command: &str, folder: &Path) -> String {
    if is_bundled(command) {
        folder.join(command).to_string_lossy().into_owned()
    } else {
        command.to_owned()
    }
}

/// Without members that say nothing.
fn compact(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, member| !member.is_null());
    }
    value
}

/// An id for the log: the pack's and the part's, cut with a hash where they are too long together.
fn inner_id(pack: &SourceId, label: &str) -> Result<SourceId, drawgate_core::model::IdError> {
    let whole = format!("{pack}-{label}");
    if whole.len() <= MAX_ID {
        return SourceId::new(&whole);
    }
    let head: String = whole.chars().take(MAX_ID - 9).collect();
    let digest: String = sha256_hex(whole.as_bytes()).chars().take(8).collect();
    SourceId::new(&format!("{head}-{digest}"))
}
