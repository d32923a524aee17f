//! The operator's door to toolpacks.

use std::future::Future;

use axum::Json;
use axum::extract::{Path, State};
use drawgate_core::model::SourceId;
use drawgate_core::registry::SourceStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Answer, Control, Failure, answer};
use drawgate_runtime::assemble::complaint;
use drawgate_runtime::operations::{Acted, Afterwards};
use drawgate_runtime::toolpacks::{Installed, Trust};

/// All packs, and where they are.
#[derive(Debug, Serialize, Deserialize)]
pub struct AllPacks {
    /// The folder that holds them.
    pub folder: std::path::PathBuf,
    /// The packs, by id.
    pub toolpacks: Vec<ShownPack>,
}

/// A pack, for people and programs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShownPack {
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
    pub problems: Vec<Value>,
    /// What is dangerous about its tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
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
    pub folder: std::path::PathBuf,
    /// Its tools, as far as they are known without asking its servers.
    pub tools: Vec<ShownTool>,
    /// What it is able to do, in words.
    pub permissions: Vec<String>,
    /// How its source does in the running gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Value>,
}

/// A tool of a pack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShownTool {
    /// Its name; `connector:*` for tools that only the connector knows.
    pub name: String,
    /// What it is made from.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A pack that a command has staged and a person has seen.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commit {
    /// Its name among those that are staged.
    pub staged: String,
    /// SHA-256 of all of it.
    pub content_hash: String,
    /// Whether it is on afterwards.
    pub afterwards: Afterwards,
}

pub(super) async fn list(State(control): State<Control>) -> Answer {
    let operations = &control.operations;
    let packs = operations.toolpacks().await?;
    let toolpacks = packs.iter().map(|pack| shown(&control, pack, None)).collect();
    answer(AllPacks { folder: operations.toolpacks.path()?, toolpacks })
}

pub(super) async fn show(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    let pack = control.operations.toolpack(&id).await?;
    answer(shown(&control, &pack, None))
}

pub(super) async fn commit(State(control): State<Control>, Json(commit): Json<Commit>) -> Answer {
    let Commit { staged, content_hash, afterwards } = commit;
    let act = control.operations.clone().install_toolpack(staged, content_hash, afterwards);
    Box::pin(acted(&control, act)).await
}

pub(super) async fn enable(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    acted(&control, control.operations.clone().enable_toolpack(id)).await
}

pub(super) async fn disable(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    acted(&control, control.operations.clone().disable_toolpack(id)).await
}

pub(super) async fn remove(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    to_the_end(control.operations.clone().remove_toolpack(id)).await?;
    answer(json!({}))
}

pub(super) async fn doctor(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    let mut found = json!(control.operations.examine_toolpack(&id).await?);
    masked(&control, &mut found);
    answer(found)
}

pub(super) async fn verify(State(control): State<Control>) -> Answer {
    answer(control.operations.verify_toolpacks().await?)
}

fn masked(control: &Control, value: &mut Value) -> bool {
    control.operations.gateway.redactor().mask_known_in(value)
}

/// Whoever asked may go away half-way; what was begun is finished.
async fn to_the_end<T: Send + 'static>(
    act: impl Future<Output = anyhow::Result<T>> + Send + 'static,
) -> Result<T, Failure> {
    Ok(tokio::spawn(act).await??)
}

async fn acted(
    control: &Control,
    act: impl Future<Output = anyhow::Result<Acted>> + Send + 'static,
) -> Answer {
    let Acted { pack, status } = to_the_end(act).await?;
    answer(shown(control, &pack, status))
}

fn shown(control: &Control, pack: &Installed, status: Option<SourceStatus>) -> ShownPack {
    let toolpacks = &control.operations.toolpacks;
    let id = SourceId::new(&pack.id).ok();
    let status = status.or_else(|| toolpacks.status(&id?));
    let mut running = status.and_then(|status| {
        let mut value = serde_json::to_value(&status).ok()?;
        if let Some(source) = control.keeper.source(&status.id) {
            value["diagnostics"] = source.diagnostics();
        }
        Some(value)
    });
    // A server may say what it was told in confidence.
    running.as_mut().map(|running| masked(control, running));
    let manifest = pack.manifest.as_ref().ok();
    let entry = pack.entry.as_ref();
    let problems = pack.manifest.as_ref().err().map(|all| all.problems.as_slice());
    let problems = problems.unwrap_or_default().iter().map(|problem| json!(problem));
    ShownPack {
        id: pack.id.clone(),
        name: manifest.map(|manifest| manifest.name.clone()),
        version: manifest.map(|manifest| manifest.version.clone()),
        description: manifest.and_then(|manifest| manifest.description.clone()),
        state: state(pack).to_owned(),
        problem: problem(pack).or_else(|| toolpacks.complaint(&pack.id)),
        problems: problems.collect(),
        warnings: manifest.map(warnings).unwrap_or_default(),
        source: entry.map(|entry| entry.source.clone()),
        reference: entry.and_then(|entry| entry.reference.clone()),
        commit: entry.and_then(|entry| entry.commit.clone()),
        content_hash: entry.map(|entry| entry.content_hash.clone()),
        installed_at: entry.map(|entry| entry.installed_at.clone()),
        folder: pack.folder.clone(),
        tools: manifest.map(|manifest| tools(manifest, &pack.folder)).unwrap_or_default(),
        permissions: entry.map(|entry| entry.permissions.lines()).unwrap_or_default(),
        running,
    }
}

/// The tools of a manifest.
#[must_use]
pub fn tools(
    manifest: &drawgate_sources::toolpack::Manifest,
    folder: &std::path::Path,
) -> Vec<ShownTool> {
    let names = manifest.definitions(folder).into_keys();
    let listed = |name: &str| manifest.tools.iter().find(|tool| tool.name.as_deref() == Some(name));
    let shown = |name: String| ShownTool {
        kind: listed(&name).map(|tool| tool.kind.as_str().to_owned()),
        description: listed(&name).and_then(|tool| tool.description.clone()),
        name,
    };
    names.map(shown).collect()
}

fn warnings(manifest: &drawgate_sources::toolpack::Manifest) -> Vec<String> {
    manifest.warnings().iter().map(ToString::to_string).collect()
}

fn state(pack: &Installed) -> &'static str {
    match (&pack.trust, &pack.manifest) {
        (Trust::Changed(_), _) => "changed",
        (Trust::Unread(_), _) => "unread",
        (Trust::Foreign, _) => "foreign",
        (Trust::Missing, _) => "missing",
        (Trust::Locked, Err(_)) => "invalid",
        (Trust::Locked, Ok(manifest)) if manifest.enabled => "enabled",
        (Trust::Locked, Ok(_)) => "disabled",
    }
}

fn problem(pack: &Installed) -> Option<String> {
    let manifest = pack.manifest.as_ref().err().map(ToString::to_string);
    complaint(&pack.trust).or(manifest)
}
