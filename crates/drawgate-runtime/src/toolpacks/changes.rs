//! What an update would change, for people to read before it does.

use std::collections::BTreeMap;

use drawgate_sources::toolpack::{PermissionChange, Permissions};

use super::error::ToolpackError;
use super::folder::Folder;
use super::lock::LockEntry;
use super::staged::Staged;

/// The difference between what is installed and what is staged.
#[derive(Debug, Clone)]
pub struct Changes {
    /// The installed version, if any, and the new one.
    pub version: (Option<String>, String),
    /// The installed commit and the new one, for packs from a repository.
    pub commit: (Option<String>, Option<String>),
    /// Its tools.
    pub tools: ToolChanges,
    /// What it may do.
    pub permissions: PermissionChange,
    /// Whether any file is different, which a tool may be by without being defined differently.
    pub files: bool,
}

/// Names of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolChanges {
    /// Those that come.
    pub added: Vec<String>,
    /// Those that go.
    pub removed: Vec<String>,
    /// Those that are defined differently.
    pub changed: Vec<String>,
}

impl Changes {
    /// Whether tools and permissions stay the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let permissions = &self.permissions;
        self.tools.all().next().is_none()
            && permissions.added.is_empty()
            && permissions.removed.is_empty()
    }

    fn between(old: Option<&LockEntry>, new: &LockEntry) -> Self {
        let nothing = (BTreeMap::new(), Permissions::default());
        let (tools, permissions) =
            old.map_or((&nothing.0, &nothing.1), |old| (&old.definitions, &old.permissions));
        Self {
            version: (old.map(|old| old.version.clone()), new.version.clone()),
            commit: (old.and_then(|old| old.commit.clone()), new.commit.clone()),
            tools: ToolChanges::between(tools, &new.definitions),
            permissions: permissions.change(&new.permissions),
            files: old.is_none_or(|old| old.content_hash != new.content_hash),
        }
    }
}

impl ToolChanges {
    pub(super) fn between(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Self {
        let without = |these: &BTreeMap<String, String>, those: &BTreeMap<String, String>| {
            these.keys().filter(|name| !those.contains_key(*name)).cloned().collect()
        };
        let differs =
            |(name, hash): &(&String, &String)| new.get(*name).is_some_and(|new| new != *hash);
        Self {
            added: without(new, old),
            removed: without(old, new),
            changed: old.iter().filter(differs).map(|(name, _)| name.clone()).collect(),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &String> {
        self.added.iter().chain(&self.removed).chain(&self.changed)
    }
}

impl Folder {
    /// What installing a staged pack would change.
    pub fn changes(&self, staged: &Staged) -> Result<Changes, ToolpackError> {
        Ok(Changes::between(self.lock()?.get(&staged.id), &staged.entry))
    }
}
