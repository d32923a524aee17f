//! What is kept of a plugin: whether it is at work, its settings and its place among the others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use drawgate_core::hooks::HookPoint;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::HookSettings;

/// The kind of the documents.
pub(crate) const KIND: &str = "plugin";

/// A plugin that an operator has added, or one that comes with the gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginRecord {
    /// Its name.
    pub name: String,
    /// The files that an operator has agreed to; nothing if it comes with the gateway.
    pub files: Option<PluginFiles>,
    /// Whether it is at work.
    pub enabled: bool,
    /// Its place among the others; those with the same place are ordered by name.
    pub position: i32,
    /// What it reads by itself.
    pub settings: Map<String, Value>,
    /// How it is asked about calls, by point.
    #[serde(default)]
    pub hooks: BTreeMap<HookPoint, HookSettings>,
}

/// A plugin's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginFiles {
    /// Hash of all files.
    pub hash: String,
    /// Its version.
    pub version: String,
    /// The folder that it was added from.
    pub from: PathBuf,
    /// When, in milliseconds since the epoch.
    pub added_at: u64,
}

impl PluginRecord {
    /// A plugin that has just been added.
    #[must_use]
    pub fn new(name: &str, files: Option<PluginFiles>) -> Self {
        Self {
            name: name.to_owned(),
            files,
            enabled: false,
            position: 0,
            settings: Map::new(),
            hooks: BTreeMap::new(),
        }
    }
}
