//! Connectors of toolpacks: what a kind of source needs in order to be one.
//!
//! A connector of a manifest has the name of its kind as `type`, and that kind's settings in the member
//! of the same name. Tools of this `type` come from such a connector.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_core::source::ToolSource;
use drawgate_host::Host;
use drawgate_host::egress::{Admission, HostRule, Reach};
use drawgate_host::sandbox::Profile;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::manifest::{Address, ConnectorCheck, Tool, address};
use super::restrictions::Restrictions;
use crate::configure::resolve;
use crate::confine::SandboxConfig;
use crate::kind::ConfigError;
use crate::openapi::Document;

/// A kind of source that connectors of toolpacks can be.
///
/// An implementer describes its settings for the JSON Schema of manifests, and reads them.
pub trait ConnectorKind: Sync {
    /// What such a connector connects to, for the JSON Schema.
    fn description(&self) -> &'static str;

    /// What its settings are, for the JSON Schema.
    fn settings_description(&self) -> &'static str;

    /// What a tool of it is, for the JSON Schema.
    fn tool_description(&self) -> &'static str;

    /// The JSON Schema of its settings.
    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;

    /// What the JSON Schema demands of settings beside that.
    fn condition(&self) -> Option<Value> {
        None
    }

    /// An example of its member in a connector, for authors who left it out.
    fn example(&self) -> &'static str;

    /// Reads its settings, which have passed the schema.
    fn read(&self, settings: &Value) -> serde_json::Result<Arc<dyn ConnectorSettings>>;

    /// Whether its tools are operations: `operation_id` names one, `operations` stands for all.
    fn has_operations(&self) -> bool {
        false
    }
}

/// The settings of one connector, read from a manifest.
pub trait ConnectorSettings: fmt::Debug + Send + Sync {
    /// Reports everything that is wrong with them.
    fn check(&self, _check: &mut ConnectorCheck<'_>) {}

    /// Reports what is wrong with the files of the pack that they name; with no folder, only what the
    /// names alone tell. The description of an API, if that is one of the files.
    fn check_files(
        &self,
        _folder: Option<&Path>,
        _check: &mut ConnectorCheck<'_>,
    ) -> Option<Document> {
        None
    }

    /// The description of the API that its tools are operations of, if it is a file of the pack.
    fn document(&self, _folder: &Path) -> Option<Document> {
        None
    }

    /// How long a call may take.
    fn timeout_seconds(&self) -> Option<u64> {
        None
    }

    /// How often a call that could not be sent is tried again.
    fn retries(&self) -> u32 {
        0
    }

    /// The program that it starts, with its arguments.
    fn program(&self) -> Option<(&str, &[String])> {
        None
    }

    /// The addresses that it reaches, or references to them, each with its member.
    fn addresses(&self) -> Vec<(String, &str)> {
        Vec::new()
    }

    /// The addresses that it reaches and that only a file of the pack names.
    fn file_addresses(&self, _folder: &Path) -> Vec<String> {
        Vec::new()
    }

    /// What identifies the tool behind a tool of the pack. With another one, the tool has changed.
    /// `operation` is what the description of an API says about it.
    fn definition(&self, tool: &Tool, _operation: Option<&Value>) -> Value {
        json!({ "connector": tool.connector_id, "remoteTool": tool.remote_name() })
    }

    /// Whether the source that it makes has its tools under the pack's names already.
    fn renames_tools(&self) -> bool {
        false
    }

    /// Makes the source for some of the pack's tools, without starting anything yet.
    fn build(
        &self,
        id: SourceId,
        tools: Selection<'_>,
        pack: &PackContext<'_>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError>;
}

/// The tools that a source is made for.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// Tools that the manifest names.
    Named(&'a [&'a Tool]),
    /// All operations of an API, as this entry chooses them.
    Operations(&'a Tool),
}

impl<'a> Selection<'a> {
    /// The entries of the manifest.
    pub fn tools(self) -> impl Iterator<Item = &'a Tool> {
        let (named, whole) = match self {
            Self::Named(tools) => (tools, None),
            Self::Operations(tool) => (&[][..], Some(tool)),
        };
        named.iter().copied().chain(whole)
    }
}

/// What a connector's source is given of its pack, and what it is held to.
pub struct PackContext<'a> {
    pub(super) restrictions: &'a Restrictions,
    pub(super) host: &'a Arc<Host>,
    pub(super) profile: Profile,
}

impl PackContext<'_> {
    /// The machine, on which the pack's programs start only while its files are as installed.
    #[must_use]
    pub fn host(&self) -> &Arc<Host> {
        self.host
    }

    /// The pack's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.restrictions.folder
    }

    /// The sandbox of the connector's program.
    #[must_use]
    pub fn sandbox(&self) -> SandboxConfig {
        self.restrictions.sandbox(self.profile)
    }

    /// The variables of the connector's program.
    #[must_use]
    pub fn environment(&self, given: BTreeMap<String, String>) -> BTreeMap<String, String> {
        self.restrictions.environment(self.profile, given)
    }

    /// The hosts that the connector may reach: those that are declared, and those of its own addresses.
    /// An address of this machine or of a private network must be declared.
    pub fn hosts(&self, settings: &dyn ConnectorSettings) -> Result<Vec<String>, ConfigError> {
        let mut own: Vec<Address> = settings
            .file_addresses(self.folder())
            .iter()
            .filter_map(|url| address(url).ok())
            .collect();
        for (field, url) in settings.addresses() {
            // What is wrong with an address, the source itself says.
            own.extend(address(resolve(&field, url, &self.host.secrets)?.expose()));
        }
        let declared =
            self.restrictions.hosts.iter().filter_map(|host| host.parse::<HostRule>().ok());
        let declared = Reach::only(declared);
        let mut hosts = self.restrictions.hosts.clone();
        for address in own {
            let known = declared.admits(&address.host, address.port) != Admission::Refused;
            if !address.inner && !known {
                hosts.push(address.rule().to_owned());
            }
        }
        hosts.sort();
        hosts.dedup();
        Ok(hosts)
    }
}
