//! From a manifest to the sources behind its tools: one for all commands, one for each connector.
//!
//! A source that can't be made, for want of a variable above all, takes only its own tools with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::canonical::sha256_hex;
use drawgate_core::model::SourceId;
use drawgate_core::source::ToolSource;
use drawgate_host::Host;
use drawgate_host::process::SpawnError;
use serde_json::Value;

use super::config::ToolpackConfig;
use super::connector::{ConnectorSettings, PackContext, Selection};
use super::loaded_files::LoadedFiles;
use super::manifest::{COMMAND, Connector, Manifest, Tool};
use super::part::{Part, WantedTool, Wants};
use super::restrictions::Restrictions;
use crate::command::{CommandConfig, CommandSource, CommandTool};
use crate::kind::ConfigError;

/// The label of the part that holds all programs that are run for each call.
const COMMANDS: &str = "commands";
/// The longest id of a source.
const MAX_ID: usize = 64;

/// Everything that the parts of a pack are made of.
pub(super) struct Builder<'a> {
    pub(super) id: &'a SourceId,
    pub(super) manifest: &'a Manifest,
    pub(super) config: &'a ToolpackConfig,
    pub(super) restrictions: &'a Restrictions,
    pub(super) host: &'a Arc<Host>,
}

/// The machine for a pack's sources: programs start only as long as the pack is what was loaded. A
/// login belongs to a server that the operator configured; no pack gets one by choosing the server's
/// name.
pub(super) fn host_for(loaded_files: &Arc<LoadedFiles>, host: &Host) -> Arc<Host> {
    let loaded_files = Arc::clone(loaded_files);
    let check = move || loaded_files.check().map_err(SpawnError::Refused);
    Arc::new(Host { start_check: Some(Arc::new(check)), credentials: None, ..host.clone() })
}

impl Builder<'_> {
    /// Every part, in the order of the manifest.
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let commands = self.tools(Tool::is_command);
        if !commands.is_empty() {
            let source = self.source(COMMANDS, |id| self.commands(id, &commands));
            parts.push(Part::new(COMMANDS, COMMAND, source, wanted(&commands)));
        }
        for connector in &self.manifest.connectors {
            if let Some(settings) = connector.settings() {
                self.connector(connector, settings, &mut parts);
            }
        }
        parts
    }

    /// One part for all tools that are named, and one for each choice of operations.
    fn connector(
        &self,
        connector: &Connector,
        settings: &dyn ConnectorSettings,
        parts: &mut Vec<Part>,
    ) {
        let of = |tool: &Tool| tool.connector_id.as_ref() == Some(&connector.id);
        let named = self.tools(|tool| of(tool) && tool.operations.is_none());
        let mut add = |selection: Selection, wants: Wants| {
            let source = self.source(&connector.id, |id| {
                let profile = self.config.connector_profile(self.manifest, connector);
                let pack =
                    PackContext { restrictions: self.restrictions, host: self.host, profile };
                settings.build(id, selection, &pack)
            });
            let part = Part::new(&connector.id, &connector.kind, source, wants);
            parts.push(part.with(settings.retries(), settings.timeout_seconds()));
        };
        if !named.is_empty() {
            let mut wants = wanted(&named);
            if settings.renames_tools() {
                wants.by_own_name();
            }
            let tools: Vec<&Tool> = named.iter().map(|(_, tool)| *tool).collect();
            add(Selection::Named(&tools), wants);
        }
        for (place, tool) in self.tools(|tool| of(tool) && tool.operations.is_some()) {
            let wants = Wants::All { place, label: tool.label(), timeout: seconds(tool) };
            add(Selection::Operations(tool), wants);
        }
    }

    fn tools(&self, fits: impl Fn(&Tool) -> bool) -> Vec<(usize, &Tool)> {
        self.manifest.tools.iter().enumerate().filter(|(_, tool)| fits(tool)).collect()
    }

    fn source(
        &self,
        label: &str,
        build: impl FnOnce(SourceId) -> Result<Arc<dyn ToolSource>, ConfigError>,
    ) -> Result<Arc<dyn ToolSource>, String> {
        let id = inner_id(self.id, label).map_err(|error| error.to_string())?;
        build(id).map_err(|error| error.to_string())
    }

    fn commands(
        &self,
        id: SourceId,
        tools: &[(usize, &Tool)],
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        let env = self.manifest.permissions.env.iter();
        let env: BTreeMap<String, String> =
            env.map(|name| (name.clone(), format!("env:{name}"))).collect();
        let tool = |(_, tool): &(usize, &Tool)| {
            let profile = self.config.command_profile(self.manifest, tool);
            CommandTool {
                name: tool.name.clone().unwrap_or_default(),
                description: tool.description.clone(),
                command_template: tool.command_template.clone().unwrap_or_default(),
                parameters: tool.parameters(),
                timeout_seconds: tool.timeout_seconds,
                annotations: tool.annotations.clone(),
                sandbox: self.restrictions.sandbox(profile),
                env: self.restrictions.environment(profile, env.clone()),
            }
        };
        let tools = tools.iter().map(tool).collect();
        let config = CommandConfig { folder: Some(self.restrictions.folder.clone()), tools };
        Ok(Arc::new(CommandSource::new(id, config, self.host)?))
    }
}

fn wanted(tools: &[(usize, &Tool)]) -> Wants {
    let one = |(place, tool): &(usize, &Tool)| WantedTool {
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
