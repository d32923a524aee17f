//! Installed toolpacks, sorted by whether they can run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::anyhow;
use drawgate_core::model::SourceId;
use drawgate_core::registry::Absence;
use tokio::task::spawn_blocking;

use super::Toolpacks;
use super::plan::{ToolpackPlan, capabilities_of, source_id};
use crate::config::Loaded;
use crate::toolpacks::{Folder, Installed, Integrity};

/// Installed toolpacks, sorted by whether they can run.
#[derive(Default)]
pub(super) struct InstalledToolpacks {
    pub(super) plans: BTreeMap<SourceId, ToolpackPlan>,
    /// Those that are disabled, with what callers hear of them.
    pub(super) disabled: BTreeMap<SourceId, Absence>,
    /// Why each can't be used.
    pub(super) unusable: BTreeMap<String, String>,
    /// Those of them that are not what was installed.
    pub(super) changed: Vec<Installed>,
}

impl Toolpacks {
    /// Looks at everything that is installed.
    pub(super) async fn find(&self, loaded: &Loaded) -> InstalledToolpacks {
        let mut found = InstalledToolpacks::default();
        let look = async { installed(path(loaded)?).await };
        let packs = look.await.unwrap_or_else(|error| {
            let error = format!("{error:#}");
            tracing::error!(error, "the installed toolpacks can't be read; none is used");
            Vec::new()
        });
        for pack in packs {
            match self.plan(loaded, &pack) {
                Ok(None) => found.disabled.extend(self.disabled(loaded, &pack)),
                Ok(Some((id, one))) => drop(found.plans.insert(id, one)),
                Err(error) => {
                    found.unusable.insert(pack.id.clone(), format!("{error:#}"));
                    let is_changed = matches!(pack.integrity, Integrity::Changed(_));
                    found.changed.extend(is_changed.then_some(pack));
                }
            }
        }
        found
    }

    fn disabled(&self, loaded: &Loaded, pack: &Installed) -> Option<(SourceId, Absence)> {
        let id = source_id(&self.supervisor, &pack.id).ok()?;
        let mut absence = Absence::new(&id, capabilities_of(loaded, &pack.id), DISABLED_TOOLPACK);
        let names = pack.entry.iter().flat_map(|entry| entry.definitions.keys());
        absence.names = names.cloned().collect();
        Some((id, absence))
    }
}

/// What callers of a disabled toolpack hear: how an operator enables it is not for them.
pub const DISABLED_TOOLPACK: &str = "is disabled; an operator can enable it";

/// Where toolpacks are installed.
pub(super) fn path(loaded: &Loaded) -> anyhow::Result<PathBuf> {
    Ok(std::path::absolute(loaded.resolve(&loaded.config.toolpacks.folder))?)
}

/// All that are installed. Looking makes no folder where there is none.
pub(super) async fn installed(path: PathBuf) -> anyhow::Result<Vec<Installed>> {
    let look = move || match path.try_exists() {
        Ok(false) => Ok(Vec::new()),
        Ok(true) | Err(_) => Folder::open(&path)?.list(),
    };
    spawn_blocking(look).await?.map_err(|error| anyhow!("{error}"))
}
