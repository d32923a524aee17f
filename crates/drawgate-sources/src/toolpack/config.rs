//! What an operator says about a pack: where it is, and how far it is trusted beyond its manifest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use drawgate_core::model::shown_name;
use drawgate_host::sandbox::{Profile, ResourceLimits};
use serde::Deserialize;

use super::manifest::{Connector, Manifest, Tool};
use crate::kind::{ConfigError, Kinds};
use crate::suggest::nearest;

/// An installed pack.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolpackConfig {
    /// The folder that holds its `toolpack.json`.
    pub folder: PathBuf,
    /// The folder that its programs may write; it is created if it is missing.
    pub workspace: PathBuf,
    /// How much its programs may use.
    #[serde(default)]
    pub limits: ResourceLimits,
    /// The operator's word on single tools.
    #[serde(default)]
    pub tools: BTreeMap<String, Override>,
    /// The operator's word on connectors whose servers are programs.
    #[serde(default)]
    pub connectors: BTreeMap<String, Override>,
    /// Files and folders that its programs may read, beside what the pack declares.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// Folders that its programs may write, beside what the pack declares.
    #[serde(default)]
    pub write: Vec<PathBuf>,
    /// Hosts that it may reach, beside what the pack declares.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Protected names that its programs may write all the same.
    #[serde(default)]
    pub unprotected: Vec<String>,
    /// Folders of the gateway that nothing which the pack declares may touch.
    #[serde(default)]
    pub keep_out: Vec<PathBuf>,
    /// The kinds of sources that it may use.
    #[serde(skip)]
    pub kinds: Kinds,
}

/// The operator's word on a tool or a connector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// Another sandbox than the pack's; only here it can be `none`.
    pub sandbox: Option<Profile>,
}

impl ToolpackConfig {
    /// The sandbox of a command tool.
    pub(super) fn command_profile(&self, manifest: &Manifest, tool: &Tool) -> Profile {
        let name = tool.name.as_deref().unwrap_or_default();
        let own = tool.sandbox.map(super::manifest::PackProfile::profile);
        self.tools
            .get(name)
            .and_then(|said| said.sandbox)
            .or(own)
            .unwrap_or_else(|| self.pack_profile(manifest))
    }

    /// The sandbox of a connector's program, which serves all of its tools: what is said about the
    /// connector, or alike about every one of its tools.
    pub(super) fn connector_profile(&self, manifest: &Manifest, connector: &Connector) -> Profile {
        if let Some(profile) = self.connectors.get(&connector.id).and_then(|said| said.sandbox) {
            return profile;
        }
        let tools = manifest.tools.iter();
        let tools = tools.filter(|tool| tool.connector_id.as_ref() == Some(&connector.id));
        let said = tools.map(|tool| self.tools.get(tool.name.as_deref()?)?.sandbox);
        let mut said = said.collect::<Vec<_>>();
        said.dedup();
        match said.as_slice() {
            [Some(profile)] => *profile,
            _ => self.pack_profile(manifest),
        }
    }

    fn pack_profile(&self, manifest: &Manifest) -> Profile {
        if self.hosts.is_empty() { manifest.profile().profile() } else { Profile::Network }
    }

    /// A word on something that the pack does not have is a mistake that would go unnoticed.
    pub(super) fn check_names(&self, manifest: &Manifest) -> Result<(), ConfigError> {
        let tools: Vec<&str> =
            manifest.tools.iter().filter_map(|tool| tool.name.as_deref()).collect();
        let connectors: Vec<&str> =
            manifest.connectors.iter().map(|connector| connector.id.as_str()).collect();
        let whole = manifest.tools.iter().any(|tool| tool.operations.is_some());
        for (field, said, known) in
            [("tools", &self.tools, &tools), ("connectors", &self.connectors, &connectors)]
        {
            // The names of a whole API are known only to its document.
            let unknown = said.keys().find(|name| !known.contains(&name.as_str()));
            if let Some(name) = unknown.filter(|_| field == "connectors" || !whole) {
                let near = nearest(name, known.iter().copied());
                let question =
                    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                let reason = format!("the pack has no `{}`{question}", shown_name(name));
                return Err(ConfigError::value(field, reason));
            }
        }
        Ok(())
    }
}
