//! Packages of servers that a package runner starts: fetched once by the operator's own npm, uv or pip,
//! with whatever these are configured for, and pinned in the lock file.
//!
//! Installing runs no code of a package: npm runs no scripts, and of Python only built packages are
//! taken. What was installed runs later, in the sandbox.

mod installer;
mod npm;
mod python;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use drawgate_core::model::SourceId;
use drawgate_host::store::DataDir;
use drawgate_runtime::packages::{
    Ecosystem, PackageRequest, Pin, PinnedPackage, Pins, content_hash,
};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use self::installer::Installer;
use super::edit::ConfigFile;
use super::machine;

/// What an installer made of a request.
struct Installed {
    pins: Pins,
    /// The program, relative to the folder.
    program: String,
}

/// A server whose package is wanted.
pub(super) struct Wanted<'a> {
    pub(super) id: SourceId,
    pub(super) request: &'a PackageRequest,
    /// Versions and hashes that must stay.
    pub(super) keep: Option<Pins>,
}

impl Wanted<'_> {
    /// Installs the package into a new folder of the data folder. Nothing uses it until it is pinned.
    pub(super) async fn fetch(self, data: &Path) -> anyhow::Result<PinnedPackage> {
        let host = machine::host()?;
        let folder = folder(data, &self.id)?;
        let _alone = File::open(&folder).and_then(|folder| folder.lock().map(|()| folder))?;
        let name = host.ids.unique();
        let tree = folder.join(&name);
        new_folder(&tree)?;
        let installer = Installer::new(host, &tree);
        let keep = self.keep.as_ref();
        let made = async {
            let outcome = match self.request.ecosystem {
                Ecosystem::Npm => npm::install(&installer, self.request, keep).await?,
                Ecosystem::Python => python::install(&installer, self.request, keep).await?,
            };
            if let Some(package) = outcome.pins.without_integrity() {
                bail!(
                    "`{package}` has no hash that it could be pinned by; only packages of a registry have one"
                );
            }
            let own = tree.clone();
            let content_hash = spawn_blocking(move || content_hash(&own)).await??;
            let Installed { pins, program } = outcome;
            let request = self.request.clone();
            Ok(PinnedPackage { request, pins, tree: name, program, content_hash })
        };
        match made.await {
            Ok(pinned) => Ok(pinned),
            Err(error) => {
                // What is left of it is in nobody's way, and goes with the next one that is fetched.
                let _ = fs::remove_dir_all(&tree);
                let asked = self.request.packages.join("`, `");
                Err(error
                    .context(format!("`{asked}` can't be fetched for the server `{}`", self.id)))
            }
        }
    }
}

/// Pins what was fetched, and waits until a running gateway uses it. Earlier files go.
pub(super) async fn pin(
    file: &ConfigFile,
    data: &Path,
    fetched: BTreeMap<SourceId, PinnedPackage>,
) -> anyhow::Result<()> {
    let trees: Vec<(SourceId, String)> =
        fetched.iter().map(|(id, pinned)| (id.clone(), pinned.tree.clone())).collect();
    let hash = file.edit_packages(|servers| servers.extend(fetched))?;
    file.packages_in_force(&hash).await?;
    for (id, tree) in trees {
        remove_others(&folder(data, &id)?, Some(&tree));
    }
    Ok(())
}

/// Forgets what was fetched for a server.
pub(super) async fn forget(file: &ConfigFile, data: &Path, name: &str) -> anyhow::Result<()> {
    let Ok(id) = SourceId::new(name) else { return Ok(()) };
    if !file.packages()?.contains_key(&id) {
        return Ok(());
    }
    let hash = file.edit_packages(|servers| drop(servers.remove(&id)))?;
    file.packages_in_force(&hash).await?;
    let folder = folder(data, &id)?;
    remove_others(&folder, None);
    // One that somebody else fetches right now stays.
    let _ = fs::remove_dir(&folder);
    Ok(())
}

/// What was pinned, in a few words.
pub(super) fn described(pinned: &PinnedPackage) -> String {
    let list = pinned.pins.list();
    let asked = |pin: &&Pin| pinned.request.packages.iter().any(|asked| is_named(asked, &pin.name));
    let named: Vec<String> =
        list.iter().filter(asked).map(|pin| format!("{} {}", pin.name, pin.version)).collect();
    let named = if named.is_empty() { pinned.request.packages.clone() } else { named };
    match list.len().saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{} and {more} that it needs", named.join(", ")),
    }
}

/// Whether a request names this package.
fn is_named(asked: &str, name: &str) -> bool {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '.'], "-");
    let (asked, name) = (plain(asked), plain(name));
    asked
        .strip_prefix(&name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| "@[=<>!~; ".contains(c)))
}

/// The same for programs.
pub(super) fn json(pinned: &PinnedPackage) -> Value {
    let pin =
        |pin: Pin| json!({ "name": pin.name, "version": pin.version, "integrity": pin.integrity });
    let packages: Vec<Value> = pinned.pins.list().into_iter().map(pin).collect();
    json!({ "packages": packages, "program": pinned.program, "contentHash": pinned.content_hash })
}

/// The folder of a server's packages, made if it is not there.
pub(super) fn folder(data: &Path, id: &SourceId) -> anyhow::Result<PathBuf> {
    let data = DataDir::open(data)?;
    // Environments of Python hold their own path, as the system has it.
    let real = data.path().canonicalize()?;
    let folder = real.join(DataDir::PACKAGES).join(id.as_str());
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("can't make the folder `{}`", folder.display()))?;
    Ok(folder)
}

fn new_folder(path: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().mode(0o700).create(path);
    made.with_context(|| format!("can't make the folder `{}`", path.display()))
}

/// Removes the folders of earlier packages. One that can't be removed is in nobody's way.
fn remove_others(folder: &Path, tree: Option<&str>) {
    let Ok(_alone) = File::open(folder).and_then(|folder| folder.lock().map(|()| folder)) else {
        return;
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if Some(entry.file_name().as_os_str()) != tree.map(AsRef::as_ref) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_package_in_every_spelling() {
        for (asked, name, expected) in [
            ("@scope/server@1.2", "@scope/server", true),
            ("server", "server", true),
            ("server-more", "server", false),
            ("Server_Time>=2", "server-time", true),
            ("server[cli]==1", "server", true),
        ] {
            assert_eq!(is_named(asked, name), expected, "{asked} {name}");
        }
    }
}
