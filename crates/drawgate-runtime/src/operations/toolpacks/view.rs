//! Toolpacks as an operator sees them.

use std::path::{Path, PathBuf};

use drawgate_core::model::SourceId;
use drawgate_core::registry::SourceStatus;
use drawgate_sources::toolpack::{Manifest, Problem};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::operations::{Operations, SourceReport};
use crate::toolpack_sources::complaint;
use crate::toolpacks::{Installed, Integrity};

/// All packs, and where they are.
#[derive(Debug, Serialize, Deserialize)]
pub struct ToolpackList {
    /// The folder that holds them.
    pub folder: PathBuf,
    /// The packs, by id.
    pub toolpacks: Vec<ToolpackView>,
}

/// A pack, for people and programs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolpackView {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `enabled`, `disabled`, or why it can't be either: `changed`, `unread`, `foreign`,
    /// `missing`, `invalid`.
    pub state: String,
    /// What is wrong with it, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What is wrong with its manifest, each with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// Where it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The branch or tag that was asked for.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The commit that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// SHA-256 of all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// When it was installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed_at: Option<String>,
    /// Its folder.
    pub folder: PathBuf,
    /// Its tools, as far as they are known without asking its servers.
    pub tools: Vec<ToolpackToolView>,
    /// What it is able to do, in words.
    pub permissions: Vec<String>,
    /// How its source does in the running gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<SourceReport>,
}

/// A tool of a pack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolpackToolView {
    /// Its name; `connector:*` for tools that only the connector knows.
    pub name: String,
    /// What it is made from.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl Operations {
    /// A pack, with its source in the running gateway: in `status`, or as it is now.
    pub(super) fn view(&self, pack: &Installed, status: Option<SourceStatus>) -> ToolpackView {
        let id = SourceId::new(&pack.id).ok();
        let status = status.or_else(|| self.toolpacks.status(&id?));
        let manifest = pack.manifest.as_ref().ok();
        let entry = pack.entry.as_ref();
        let problems = pack.manifest.as_ref().err().map(|all| all.problems.clone());
        ToolpackView {
            id: pack.id.clone(),
            name: manifest.map(|manifest| manifest.name.clone()),
            version: manifest.map(|manifest| manifest.version.clone()),
            description: manifest.and_then(|manifest| manifest.description.clone()),
            state: state(pack).to_owned(),
            problem: problem(pack).or_else(|| self.toolpacks.complaint(&pack.id)),
            problems: problems.unwrap_or_default(),
            source: entry.map(|entry| entry.source.clone()),
            reference: entry.and_then(|entry| entry.reference.clone()),
            commit: entry.and_then(|entry| entry.commit.clone()),
            content_hash: entry.map(|entry| entry.content_hash.clone()),
            installed_at: entry.map(|entry| entry.installed_at.clone()),
            folder: pack.folder.clone(),
            tools: manifest.map(|manifest| tools_of(manifest, &pack.folder)).unwrap_or_default(),
            permissions: entry.map(|entry| entry.permissions.lines()).unwrap_or_default(),
            running: status.map(|status| self.running(status)),
        }
    }

    fn running(&self, status: SourceStatus) -> SourceReport {
        let redactor = self.gateway.redactor();
        let mut running = self.source_report(status);
        // A server may say what it was told in confidence.
        let text = |text: &mut String| *text = redactor.mask_known(text).into_owned();
        let value = |value: &mut Value| {
            redactor.mask_known_in(value);
        };
        running.rewrite(text, value);
        running
    }
}

/// The tools of a manifest.
#[must_use]
pub fn tools_of(manifest: &Manifest, folder: &Path) -> Vec<ToolpackToolView> {
    let names = manifest.definitions(folder).into_keys();
    let listed = |name: &str| manifest.tools.iter().find(|tool| tool.name.as_deref() == Some(name));
    let view = |name: String| ToolpackToolView {
        kind: listed(&name).map(|tool| tool.kind.as_str().to_owned()),
        description: listed(&name).and_then(|tool| tool.description.clone()),
        name,
    };
    names.map(view).collect()
}

fn state(pack: &Installed) -> &'static str {
    match (&pack.integrity, &pack.manifest) {
        (Integrity::Changed(_), _) => "changed",
        (Integrity::Unread(_), _) => "unread",
        (Integrity::Foreign, _) => "foreign",
        (Integrity::Missing, _) => "missing",
        (Integrity::Locked, Err(_)) => "invalid",
        (Integrity::Locked, Ok(_)) if pack.is_enabled() => "enabled",
        (Integrity::Locked, Ok(_)) => "disabled",
    }
}

fn problem(pack: &Installed) -> Option<String> {
    let manifest = pack.manifest.as_ref().err().map(ToString::to_string);
    complaint(&pack.integrity).or(manifest)
}
