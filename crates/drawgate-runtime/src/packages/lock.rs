//! What `drawgate.lock`, beside the configuration, says of packages: the versions and the integrity of what
//! was fetched for each server, and what the folder that it runs from must hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use drawgate_core::canonical;
use drawgate_core::model::SourceId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::request::{Ecosystem, PackageRequest};
use super::tree::{self, TreeError};
use crate::lock::{LOCK_FILE, LockError, LockFile, Section};

/// Where npm puts packages.
const MODULES: &str = "node_modules/";

/// What was fetched for each server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PackageLock {
    /// The packages, by server.
    pub servers: BTreeMap<SourceId, PinnedPackage>,
    /// SHA-256 of what it says about packages; empty where it says nothing.
    pub hash: String,
    /// Why the file can't be used. Nothing is pinned then.
    pub problem: Option<String>,
}

/// What was fetched for one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PinnedPackage {
    /// What the server's command line asked for.
    pub request: PackageRequest,
    /// Versions and integrity.
    pub pins: Pins,
    /// The folder that it was installed into, in the server's folder of packages.
    pub tree: String,
    /// The program in it, as a relative path.
    pub program: String,
    /// Hash of all that is in the folder.
    pub content_hash: String,
}

/// Versions and integrity, in the form in which an installer takes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Pins {
    /// The two files of an npm project.
    Npm {
        /// `package.json`.
        manifest: Value,
        /// `package-lock.json`.
        lock: Value,
    },
    /// Requirements with hashes, as pip and uv read them.
    Python {
        /// The text.
        requirements: String,
    },
}

/// One package at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Hashes of its archive; one of them must be right.
    pub integrity: Vec<String>,
}

impl PackageLock {
    /// The lock beside a configuration file; it need not be there.
    #[must_use]
    pub fn path(config: &Path) -> PathBuf {
        config.with_file_name(LOCK_FILE)
    }

    /// Reads a lock file. One that can't be used pins nothing, and says why.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let read = || {
            let file = LockFile::read(path).map_err(|error| error.to_string())?;
            let named = |reason: String| format!("`{}`: {reason}", path.display());
            file.entries(Section::Servers).map_err(named)
        };
        match read() {
            Ok(servers) => Self { hash: hash(&servers), servers, problem: None },
            Err(problem) => {
                let hash = canonical::sha256_hex(problem.as_bytes());
                Self { hash, problem: Some(problem), ..Self::default() }
            }
        }
    }

    /// Changes what a lock file says about packages, and returns the hash of that.
    pub fn edit(
        path: &Path,
        change: impl FnOnce(&mut BTreeMap<SourceId, PinnedPackage>),
    ) -> Result<String, LockError> {
        LockFile::edit(path, |file| {
            let unusable = |reason| LockError::Content { path: path.to_owned(), reason };
            let mut servers = file.entries(Section::Servers).map_err(unusable)?;
            change(&mut servers);
            file.set_entries(Section::Servers, &servers).map_err(unusable)?;
            Ok(hash(&servers))
        })
    }
}

fn hash(servers: &BTreeMap<SourceId, PinnedPackage>) -> String {
    // Text keys and plain values always serialise.
    let text = serde_json::to_vec(servers).unwrap_or_default();
    if servers.is_empty() { String::new() } else { canonical::sha256_hex(&text) }
}

impl PinnedPackage {
    /// Whether the folder holds what was installed.
    pub fn check(&self, folder: &Path) -> Result<(), TreeError> {
        let found = tree::content_hash(&folder.join(&self.tree))?;
        if found == self.content_hash { Ok(()) } else { Err(TreeError::Changed) }
    }

    /// Whether its names stay in the server's folder.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_plain = |text: &str| {
            let path = Path::new(text);
            !text.is_empty()
                && path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
        };
        is_plain(&self.tree) && !self.tree.contains('/') && is_plain(&self.program)
    }
}

impl Pins {
    /// Each package with its version, in the order of names.
    #[must_use]
    pub fn list(&self) -> Vec<Pin> {
        let mut all = match self {
            Self::Npm { lock, .. } => npm_pins(lock),
            Self::Python { requirements } => python_pins(requirements),
        };
        all.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        all.dedup();
        all
    }

    /// The first package that has no hash: what another one brings along in its own archive is covered by
    /// that one's.
    #[must_use]
    pub fn without_integrity(&self) -> Option<String> {
        self.list().into_iter().find(|pin| pin.integrity.is_empty()).map(|pin| pin.name)
    }

    /// Whose packages they are.
    #[must_use]
    pub const fn ecosystem(&self) -> Ecosystem {
        match self {
            Self::Npm { .. } => Ecosystem::Npm,
            Self::Python { .. } => Ecosystem::Python,
        }
    }
}

fn npm_pins(lock: &Value) -> Vec<Pin> {
    let all = lock["packages"].as_object().into_iter().flatten();
    let all = all.filter(|(path, it)| !path.is_empty() && it["inBundle"] != true);
    all.map(|(path, it)| {
        let name = path.rsplit(MODULES).next().unwrap_or(path);
        Pin {
            name: name.to_owned(),
            version: it["version"].as_str().unwrap_or_default().to_owned(),
            integrity: it["integrity"].as_str().map(str::to_owned).into_iter().collect(),
        }
    })
    .collect()
}

fn python_pins(requirements: &str) -> Vec<Pin> {
    let joined = requirements.replace("\\\n", " ");
    let lines =
        joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let (name, version) =
                words.next().unwrap_or_default().split_once("==").unwrap_or((line, ""));
            let hashes = words.filter_map(|word| word.strip_prefix("--hash="));
            Pin {
                name: name.to_owned(),
                version: version.to_owned(),
                integrity: hashes.map(str::to_owned).collect(),
            }
        })
        .collect()
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
