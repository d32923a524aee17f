//! What programs on this machine may do, whom requests may reach, and installed toolpacks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use drawgate_core::model::Capability;
use drawgate_host::store::DataDir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::formats::{CapabilityText, HostRuleText, ProtectedName};
use super::servers::ToolSettings;

/// What a program may touch beside its workspace, and whom it may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// Files and folders that it may read. Relative to this file's folder.
    #[schemars(extend("format" = "readable-path"))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Folders that it may write. Relative to this file's folder.
    #[schemars(extend("format" = "writable-path"))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Hosts that it may reach, for `sandbox = "network"`: `api.example.com`, `*.example.com`,
    /// `127.0.0.1:8080`, `*` for every public one.
    #[schemars(with = "Vec<HostRuleText>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Protected names, such as `AGENTS.md`, that it may write all the same. `docs/sandbox.md` lists
    /// them.
    #[schemars(with = "Vec<ProtectedName>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unprotected: Vec<String>,
}

impl Permissions {
    /// Whether it allows nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Outgoing requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Hosts that tools may reach although they are on this machine or in a private network, or at
    /// another port than 80 and 443: `10.1.2.3:8080`, `*.corp.example`, `192.168.0.0/16`. What
    /// `[servers]` name is open to those servers without this.
    #[schemars(with = "Vec<HostRuleText>")]
    pub allow: Vec<String>,
    /// A PEM file with certificates of authorities that vouch for `https` servers, beside those that
    /// this machine trusts: an organisation's own, for instance. Relative to this file's folder.
    #[schemars(extend("format" = "trusted-path"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// Installed toolpacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Toolpacks {
    /// The folder that holds them; the lock file `drawgate.lock` lies beside it. Relative to this
    /// file's folder.
    #[schemars(extend("format" = "trusted-path"))]
    pub folder: PathBuf,
    /// Where GitHub's API is, for `toolpacks install OWNER/REPO`.
    pub github_api: String,
    /// Where GitHub's archives are.
    pub github_archive: String,
    /// Your own terms for single packs, by their ids.
    #[schemars(extend("propertyNames" = {"format": "server-name"}))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub packs: BTreeMap<String, Pack>,
}

impl Default for Toolpacks {
    fn default() -> Self {
        Self {
            folder: PathBuf::from(DataDir::TOOLPACKS),
            github_api: "https://api.github.com".to_owned(),
            github_archive: "https://codeload.github.com".to_owned(),
            packs: BTreeMap::new(),
        }
    }
}

/// An operator's terms for a toolpack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pack {
    /// The folder that its programs work in. Relative to this file's folder. Absent: the workspace of
    /// the built-in tools.
    #[schemars(extend("format" = "writable-path"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// What its programs may touch beside what it asks for itself.
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    /// What a caller needs for all of its tools. With none, they are for the local user, and for agents
    /// that are granted `source.NAME`; `public` opens them to every agent that has a token.
    #[schemars(with = "Vec<CapabilityText>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// Settings for single tools.
    #[schemars(extend("propertyNames" = {"format": "tool-name"}))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSettings>,
}
