//! What a source's programs are held to, in the spelling of configuration.

use std::path::{Path, PathBuf};

use drawgate_core::source::SourceError;
use drawgate_host::egress::{HostRule, Reach};
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::{ArgumentPaths, Confinement, Profile, ResourceLimits, SandboxError};
use drawgate_host::trusted::Trusted;
use serde::Deserialize;

use crate::kind::ConfigError;

/// The sandbox of a program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxConfig {
    /// How far it is trusted.
    #[serde(default)]
    pub profile: Profile,
    /// The folder that it may write, and starts in.
    pub workspace: PathBuf,
    /// Further files and folders that it may read.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// Further folders that it may write.
    #[serde(default)]
    pub write: Vec<PathBuf>,
    /// What becomes of paths in its arguments.
    #[serde(default)]
    pub arguments: ArgumentPaths,
    /// Hosts that it may reach, for the profile `network`.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Whether the hosts were written by the operator, who may mean any address by a name.
    #[serde(default)]
    pub hosts_anywhere: bool,
    /// Protected names that it may write all the same.
    #[serde(default)]
    pub unprotected: Vec<String>,
    /// How much it may use.
    #[serde(default)]
    pub limits: ResourceLimits,
}

impl SandboxConfig {
    /// The same, as the machine understands it.
    pub fn confinement(&self) -> Result<Confinement, ConfigError> {
        Ok(Confinement {
            profile: self.profile,
            workspace: self.workspace.clone(),
            read: self.read.clone(),
            write: self.write.clone(),
            arguments: self.arguments,
            reach: Reach::only(rules(&self.hosts, self.hosts_anywhere)?),
            internal: None,
            unprotected: self.unprotected.clone(),
            limits: self.limits,
        })
    }
}

/// Whether programs or tools may write a folder: nothing that decides about them is in reach there.
pub fn check_writable(trusted: &Trusted, field: &str, folder: &Path) -> Result<(), ConfigError> {
    trusted.check_writable(folder).map_err(|conflict| {
        let reason = format!("`{}` can't be written by tools: {conflict}", folder.display());
        ConfigError::value(field, reason)
    })
}

/// Where a path leads that programs are given, through no link that one of them could have made.
pub(crate) fn resolve(trusted: &Trusted, field: &str, path: &Path) -> Result<PathBuf, ConfigError> {
    trusted.resolve(path).map_err(|misled| {
        ConfigError::value(field, format!("`{}` can't be used: {misled}", path.display()))
    })
}

/// The profile that a command is held to.
pub(crate) fn profile(spawn: &Spawn) -> Profile {
    spawn.confinement.as_ref().map_or(Profile::None, |confinement| confinement.profile)
}

/// Why a call failed whose box was not built or was ended. What other programs had a part in is no
/// violation of this call's.
pub(crate) fn ended_by_box(error: &SandboxError) -> SourceError {
    if error.is_shared() {
        SourceError::lost(error.to_string())
    } else {
        SourceError::Sandbox(error.to_string())
    }
}

/// Rules about hosts, from configuration.
pub(crate) fn rules(hosts: &[String], anywhere: bool) -> Result<Vec<HostRule>, ConfigError> {
    let rule = |text: &String| {
        let rule: HostRule =
            text.parse().map_err(|error: drawgate_host::egress::HostRuleError| {
                ConfigError::value("hosts", error.to_string())
            })?;
        Ok(if anywhere { rule.anywhere() } else { rule })
    };
    hosts.iter().map(rule).collect()
}
