//! What an installed pack is started with: its folder and manifest, and the operator's terms.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use drawgate_core::model::{Capability, SourceId};
use drawgate_core::registry::{Holder, Naming, SourceSupervisor, SourceTerms, ToolTerms, Trust};
use drawgate_sources::toolpack::{Manifest, Override, ToolpackConfig};

use super::Toolpacks;
use crate::config::{self, Loaded, base_terms, tool_terms};
use crate::toolpacks::{Installed, Integrity};

/// Why a pack is not started that came with its folder: how the reason begins.
pub const NOT_ENABLED: &str = "not started: it was not enabled with this data folder";

/// How a toolpack is to run. A change of the settings restarts it.
#[derive(Clone, PartialEq)]
pub(super) struct ToolpackPlan {
    pub(super) settings: ToolpackConfig,
    pub(super) terms: SourceTerms,
}

impl ToolpackPlan {
    /// Whether a toolpack that runs by one plan can go on by the other without a restart.
    pub(super) fn starts_same_as(&self, other: &Self) -> bool {
        self.settings == other.settings && self.terms.identity == other.terms.identity
    }
}

impl Toolpacks {
    /// The plan of an installed toolpack; none if it is not enabled.
    pub(super) fn plan(
        &self,
        loaded: &Loaded,
        pack: &Installed,
    ) -> anyhow::Result<Option<(SourceId, ToolpackPlan)>> {
        if let Some(complaint) = complaint(&pack.integrity) {
            bail!(complaint);
        }
        let manifest = pack.manifest.as_ref().map_err(|problems| anyhow!("{problems}"))?;
        let Some(entry) = pack.entry.as_ref().filter(|entry| entry.enabled) else {
            return Ok(None);
        };
        let id = source_id(&self.supervisor, &pack.id);
        let id = id.map_err(|taken| anyhow!("{taken}; rename one of them"))?;
        let settings = settings(loaded, &self.data, pack)?;
        if !self.is_accepted(&pack.id, entry) {
            bail!("{NOT_ENABLED}; look at it, then enable it");
        }
        let terms = terms(loaded, &pack.id, manifest, &entry.content_hash);
        Ok(Some((id, ToolpackPlan { settings, terms })))
    }
}

/// What a pack's source is made from, enabled or not.
pub(super) fn settings(
    loaded: &Loaded,
    data: &Path,
    pack: &Installed,
) -> anyhow::Result<ToolpackConfig> {
    let own = loaded.config.toolpacks.packs.get(&pack.id).cloned().unwrap_or_default();
    let absolute = |path: &PathBuf| std::path::absolute(loaded.resolve(path));
    let workspace = match &own.workspace {
        Some(folder) => absolute(folder)?,
        None => loaded.workspace(data),
    };
    let overrides = own.tools.iter().filter(|(_, tool)| tool.sandbox.is_some());
    Ok(ToolpackConfig {
        folder: std::path::absolute(&pack.folder)?,
        workspace,
        limits: loaded.config.sandbox,
        tools: overrides
            .map(|(name, tool)| (name.clone(), Override { sandbox: tool.sandbox }))
            .collect(),
        connectors: BTreeMap::new(),
        read: own.permissions.read.iter().map(absolute).collect::<Result<_, _>>()?,
        write: own.permissions.write.iter().map(absolute).collect::<Result<_, _>>()?,
        hosts: own.permissions.hosts.clone(),
        unprotected: own.permissions.unprotected.clone(),
        keep_out: keep_out(loaded, data)?,
        kinds: loaded.config.kinds,
    })
}

/// What is the gateway's own, whatever a pack declares.
fn keep_out(loaded: &Loaded, data: &Path) -> std::io::Result<Vec<PathBuf>> {
    let own = [Some(data), loaded.path.as_deref()];
    own.into_iter().flatten().map(std::path::absolute).collect()
}

/// Why a pack is not used that is not what was installed, and what to do.
#[must_use]
pub fn complaint(integrity: &Integrity) -> Option<String> {
    let advice = match integrity {
        Integrity::Locked => return None,
        Integrity::Foreign => "move its folder elsewhere, and install it from there",
        Integrity::Unread(_) => "make it readable, and enable it again",
        Integrity::Changed(_) | Integrity::Missing => "install it again, or remove it",
    };
    Some(format!("it {integrity}; {advice}"))
}

/// The id of a pack's source, unless a server or a plugin has it, or one that looks like it.
pub(super) fn source_id(supervisor: &SourceSupervisor, id: &str) -> Result<SourceId, String> {
    let source = SourceId::new(id).map_err(|error| error.to_string())?;
    match supervisor.taken(Holder::Toolpack, &source) {
        Some(taken) => Err(taken.to_string()),
        None => Ok(source),
    }
}

/// What the operator wants callers of a pack to hold.
pub(super) fn capabilities_of<'a>(loaded: &'a Loaded, id: &str) -> &'a [Capability] {
    let own = loaded.config.toolpacks.packs.get(id);
    own.map(|own| own.capabilities.as_slice()).unwrap_or_default()
}

fn terms(loaded: &Loaded, id: &str, manifest: &Manifest, content_hash: &str) -> SourceTerms {
    let nothing = config::Pack::default();
    let own = loaded.config.toolpacks.packs.get(id).unwrap_or(&nothing);
    let mut tools: BTreeMap<String, ToolTerms> = manifest
        .timeouts()
        .into_iter()
        .map(|(name, time)| (name, ToolTerms { timeout: Some(time), ..ToolTerms::default() }))
        .collect();
    for (name, settings) in &own.tools {
        let asked = tools.get(name).and_then(|terms| terms.timeout);
        let mut terms = tool_terms(settings);
        terms.timeout = terms.timeout.or(asked);
        tools.insert(name.clone(), terms);
    }
    SourceTerms {
        naming: Naming::Flat,
        capabilities: own.capabilities.clone(),
        tools,
        // What a server behind the pack changes later waits for a person; another version of the
        // pack is another source, and a person has agreed to it.
        trust: Trust::Pin,
        identity: content_hash.to_owned(),
        ..base_terms(&loaded.config)
    }
}
