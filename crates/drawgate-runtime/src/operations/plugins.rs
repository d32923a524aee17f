//! Plugins: added, put to work, set and removed by the operator.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use drawgate_agents::plugin::PluginManifest;
use drawgate_agents::plugins::PluginStatus;
use drawgate_agents::source::ProfileTools;
use drawgate_core::audit::EventKind;
use drawgate_core::hooks::HookPoint;
use drawgate_core::model::Principal;
use drawgate_core::registry::skeleton;
use drawgate_core::store::Write;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use super::{OperationError, Operations, PluginRefusal};
use crate::config::HookSettings;
use crate::plugins::{
    CONFIGURED_PREFIX, KIND, KnownPlugin, PluginFault, PluginFiles, PluginFolder, PluginRecord,
};
use crate::toolpacks::{Installed, ToolpackError, texts};

/// A plugin, for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownPlugin {
    /// What is kept of it.
    #[serde(flatten)]
    pub record: PluginRecord,
    /// Whether it is at work.
    pub state: PluginState,
    /// How it gets on, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PluginStatus>,
    /// Why it is not at work although it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<PluginManifest>,
}

/// Whether a plugin is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PluginState {
    /// It is.
    Enabled,
    /// It is not.
    Disabled,
    /// It should be, and can't.
    Failed,
}

/// A folder with a plugin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PluginSource {
    /// The folder, absolute.
    pub path: PathBuf,
}

/// A plugin in a folder, as a person is shown it before it is added.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginPreview {
    /// What it says of itself, and what it asks for.
    pub manifest: PluginManifest,
    /// Hash of its files.
    pub hash: String,
    /// What is there of this name already.
    pub replaces: Option<PluginRecord>,
    /// The files in which it differs from that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
}

/// A file that differs between two versions of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Its path in the plugin's folder.
    pub path: String,
    /// Its text before, if it was there.
    pub before: Option<String>,
    /// Its text now, if it is there.
    pub now: Option<String>,
}

/// A plugin that a person has seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddPlugin {
    /// The folder, absolute.
    pub path: PathBuf,
    /// Hash of the files that were shown.
    pub hash: String,
}

/// Changes of a plugin's settings; what is absent stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigurePlugin {
    /// Its place among the others.
    pub position: Option<i32>,
    /// What it reads by itself, as a whole.
    pub settings: Option<Map<String, Value>>,
    /// How it is asked about calls, by point.
    pub hooks: Vec<(HookPoint, HookSettings)>,
}

impl Operations {
    /// All plugins, by name.
    #[must_use]
    pub fn plugins(&self) -> Vec<ShownPlugin> {
        self.plugins.known().into_iter().map(|known| self.shown_plugin(known)).collect()
    }

    /// One plugin.
    pub fn plugin(&self, name: &str) -> Result<ShownPlugin, OperationError> {
        Ok(self.shown_plugin(self.known_plugin(name)?))
    }

    /// What is in a folder, without adding it.
    pub async fn preview_plugin(
        &self,
        source: PluginSource,
    ) -> Result<PluginPreview, OperationError> {
        let path = source.path.clone();
        let read = spawn_blocking(move || read_folder(&path)).await;
        let (manifest, hash) = read.map_err(anyhow::Error::from)??;
        self.check_plugin_name(&manifest.name).await?;
        let replaces = self.known_plugin(&manifest.name).ok().map(|known| known.record);
        let replaces = replaces.filter(|record| record.files.is_some());
        let files = replaces.as_ref().and_then(|record| record.files.as_ref());
        let changes =
            match files.map(|files| self.plugins.folder().path(&manifest.name, &files.hash)) {
                Some(before) => {
                    let compared = spawn_blocking(move || changes(&before, &source.path)).await;
                    compared.map_err(anyhow::Error::from)?.map_err(PluginFault::from)?
                }
                None => Vec::new(),
            };
        Ok(PluginPreview { manifest, hash, replaces, changes })
    }

    /// Adds a plugin whose files are what a person was shown, and puts it to work. One of the same name, also
    /// one that comes with the gateway, is replaced; its settings stay. On an error nothing has changed.
    pub async fn add_plugin(
        &self,
        actor: &Principal,
        add: AddPlugin,
    ) -> Result<ShownPlugin, OperationError> {
        let turn = self.acts.turn().await;
        let source = PluginSource { path: add.path.clone() };
        let PluginPreview { manifest, .. } = self.preview_plugin(source).await?;
        let (folder, name, from) =
            (self.plugins.folder().clone(), manifest.name.clone(), add.path.clone());
        let copied = spawn_blocking(move || folder.take(&name, &from)).await;
        let hash = copied.map_err(anyhow::Error::from)?.map_err(PluginFault::from)?;
        if hash != add.hash {
            return Err(PluginRefusal::Changed(manifest.name).into());
        }
        let files = PluginFiles {
            hash,
            version: manifest.version.clone(),
            from: add.path,
            added_at: self.gateway.clock().now_ms(),
        };
        let before = self.known_plugin(&manifest.name).ok().map(|known| known.record);
        let before = before.unwrap_or_else(|| PluginRecord::new(&manifest.name, None));
        let record = PluginRecord { files: Some(files), enabled: true, ..before };
        self.put_to_work(turn, actor, EventKind::PluginAdded, record).await
    }

    /// Puts a plugin to work.
    pub async fn enable_plugin(
        &self,
        actor: &Principal,
        name: &str,
    ) -> Result<ShownPlugin, OperationError> {
        let turn = self.acts.turn().await;
        let record = PluginRecord { enabled: true, ..self.known_plugin(name)?.record };
        self.check_plugin_name(name).await?;
        self.put_to_work(turn, actor, EventKind::PluginEnabled, record).await
    }

    /// Takes a plugin out of work.
    pub async fn disable_plugin(
        &self,
        actor: &Principal,
        name: &str,
    ) -> Result<ShownPlugin, OperationError> {
        let turn = self.acts.turn().await;
        let record = PluginRecord { enabled: false, ..self.known_plugin(name)?.record };
        let outcome = self.draft(actor, EventKind::PluginDisabled).text("plugin", name);
        let (table, kept) = (Arc::clone(&self.plugins), record.clone());
        let memory = async move { table.unseat(&kept.name, Some(kept.clone())).await };
        turn.act(vec![outcome], vec![put(&record)?], memory).await?;
        self.agents.refresh().await;
        self.plugin(name)
    }

    /// Changes the settings of a plugin, its place, or how it is asked. One that is at work is started again
    /// with them.
    pub async fn configure_plugin(
        &self,
        actor: &Principal,
        name: &str,
        change: ConfigurePlugin,
    ) -> Result<ShownPlugin, OperationError> {
        let turn = self.acts.turn().await;
        let mut record = self.known_plugin(name)?.record;
        for (point, settings) in change.hooks {
            let terms = settings.terms();
            terms.map_err(|error| PluginRefusal::Setting(error.to_string()))?;
            record.hooks.insert(point, settings);
        }
        record.position = change.position.unwrap_or(record.position);
        record.settings = change.settings.unwrap_or(record.settings);
        if record.enabled {
            return self.put_to_work(turn, actor, EventKind::PluginConfigured, record).await;
        }
        let outcome = self.draft(actor, EventKind::PluginConfigured).text("plugin", name);
        let (table, kept) = (Arc::clone(&self.plugins), record.clone());
        let memory = async move { table.unseat(&kept.name, Some(kept.clone())).await };
        turn.act(vec![outcome], vec![put(&record)?], memory).await?;
        self.plugin(name)
    }

    /// Removes a plugin that was added. The one of its name that comes with the gateway is there again,
    /// disabled.
    pub async fn remove_plugin(&self, actor: &Principal, name: &str) -> Result<(), OperationError> {
        let turn = self.acts.turn().await;
        let record = self.known_plugin(name)?.record;
        if record.files.is_none() {
            return Err(PluginRefusal::Shipped(record.name).into());
        }
        let outcome = self.draft(actor, EventKind::PluginRemoved).text("plugin", name);
        let write = Write::RemoveDocument { kind: KIND, id: record.name.clone() };
        let table = Arc::clone(&self.plugins);
        let memory = async move { table.unseat(&record.name, None).await };
        turn.act(vec![outcome], vec![write], memory).await?;
        // Its tools are gone, and its name is free, when this returns.
        self.agents.refresh().await;
        Ok(())
    }

    /// Starts a plugin, stores that it is at work, and has it be asked.
    async fn put_to_work(
        &self,
        turn: drawgate_core::acts::Turn,
        actor: &Principal,
        kind: EventKind,
        record: PluginRecord,
    ) -> Result<ShownPlugin, OperationError> {
        let write = put(&record)?;
        let plugin = self.plugins.begin(&record).await?;
        let hash = record.files.as_ref().map(|files| files.hash.as_str());
        let outcome = self.draft(actor, kind).text("plugin", &record.name).maybe_text("hash", hash);
        let name = record.name.clone();
        let (table, started) = (Arc::clone(&self.plugins), Arc::clone(&plugin));
        let memory = async move { table.seat(&record, started).await };
        if let Err(error) = turn.act(vec![outcome], vec![write], memory).await {
            plugin.stop().await;
            return Err(error.into());
        }
        self.agents.refresh().await;
        self.plugin(&name)
    }

    /// Refuses a name that a server, a toolpack or a connected pack has, or one that looks like it.
    async fn check_plugin_name(&self, name: &str) -> Result<(), OperationError> {
        if [CONFIGURED_PREFIX, ProfileTools::PREFIX].iter().any(|kept| name.starts_with(kept)) {
            return Err(PluginRefusal::KeptPrefix(name.to_owned()).into());
        }
        let looks_same = |other: &str| other != name && skeleton(other) == skeleton(name);
        let known = self.plugins.known().into_iter().map(|known| known.record.name);
        if let Some(other) = known.into_iter().find(|other| looks_same(other)) {
            let reason = format!("`{name}` looks like the plugin `{other}`");
            return Err(PluginRefusal::NameTaken(reason).into());
        }
        if let Some(taken) = self.plugins.name_taken(name) {
            return Err(PluginRefusal::NameTaken(taken.to_string()).into());
        }
        if self.supervisor.is_admitted(name) {
            let reason = format!("`{name}` is a connected pack");
            return Err(PluginRefusal::NameTaken(reason).into());
        }
        // Without a gateway at work no toolpack has claimed its name yet.
        let toolpacks = self.toolpacks.installed().await?;
        let same = |pack: &&Installed| skeleton(&pack.id) == skeleton(name) && pack.is_enabled();
        match toolpacks.iter().find(same) {
            Some(pack) => {
                let reason = format!("`{}` is an installed toolpack", pack.id);
                Err(PluginRefusal::NameTaken(reason).into())
            }
            None => Ok(()),
        }
    }

    fn known_plugin(&self, name: &str) -> Result<KnownPlugin, OperationError> {
        let found = self.plugins.known().into_iter().find(|known| known.record.name == name);
        Ok(found.ok_or_else(|| PluginRefusal::Unknown(name.to_owned()))?)
    }

    fn shown_plugin(&self, known: KnownPlugin) -> ShownPlugin {
        let KnownPlugin { record, status, problem } = known;
        let state = match (record.enabled, &problem) {
            (false, _) => PluginState::Disabled,
            (true, None) => PluginState::Enabled,
            (true, Some(_)) => PluginState::Failed,
        };
        let folder = self.plugins.folder();
        let files = record.files.as_ref().map(|files| folder.path(&record.name, &files.hash));
        let manifest = files.and_then(|folder| PluginManifest::read(&folder).ok());
        ShownPlugin { record, state, status, problem, manifest }
    }
}

fn put(record: &PluginRecord) -> Result<Write, OperationError> {
    let body = serde_json::to_value(record).map_err(anyhow::Error::from)?;
    Ok(Write::PutDocument { kind: KIND, id: record.name.clone(), body })
}

/// The files in which two versions of a plugin differ. Of one whose copy is gone, all are new.
fn changes(before: &Path, now: &Path) -> Result<Vec<FileChange>, ToolpackError> {
    let mut old = texts(before).unwrap_or_default();
    let mut changes = Vec::new();
    for (path, now) in texts(now)? {
        let before = old.remove(&path);
        if before.as_ref() != Some(&now) {
            changes.push(FileChange { path, before, now: Some(now) });
        }
    }
    let gone = |(path, text)| FileChange { path, before: Some(text), now: None };
    changes.extend(old.into_iter().map(gone));
    Ok(changes)
}

fn read_folder(folder: &Path) -> Result<(PluginManifest, String), PluginFault> {
    let manifest = PluginManifest::read(folder);
    let manifest = manifest.map_err(|error| PluginFault::Unusable(error.to_string()))?;
    Ok((manifest, PluginFolder::hash(folder)?))
}
