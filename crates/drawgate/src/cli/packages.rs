//! Packages of servers that a package runner starts: fetched once by the operator's own npm, uv or pip,
//! with what these are told about registries, and pinned in the lock file.
//!
//! What fetches runs in a sandbox, as what was installed does later. Beside that, installing runs no code of a
//! package: npm runs no scripts and no git, and of Python only built packages are taken.

mod installer;
mod npm;
mod python;
mod settings;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use drawgate_core::model::SourceId;
use drawgate_host::egress::Egress;
use drawgate_host::egress::network::Mirrored;
use drawgate_host::process::Processes;
use drawgate_host::store::DataDir;
use drawgate_runtime::assemble::{trusted_paths, writable_folders};
use drawgate_runtime::config::Loaded;
use drawgate_runtime::packages::{
    Ecosystem, PackageRequest, Pin, PinnedPackage, Pins, content_hash, links_out,
};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use self::installer::Installer;
use super::edit::ConfigFile;
use super::progress::Progress;
use super::{Context, machine};

/// What an installer made of a request.
struct Installed {
    pins: Pins,
    /// The program, relative to the folder.
    program: String,
    /// Links that lead out of the folder: those of an environment to its Python.
    links: BTreeMap<PathBuf, PathBuf>,
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
    pub(super) async fn fetch(self, context: &Context) -> anyhow::Result<PinnedPackage> {
        let (mut host, data) = (machine::host()?, &context.data);
        host.egress = Arc::new(Egress::over(Arc::new(Mirrored)));
        host.processes = host.processes.with_egress(Arc::clone(&host.egress));
        let allowed = context.loaded.config.egress.allow.iter();
        host.egress.allow(allowed.filter_map(|rule| rule.parse().ok()).collect());
        let folder = folder(data, &self.id)?;
        trust_for_fetching(context, &host.processes)?;
        let _alone = File::open(&folder).and_then(|folder| folder.lock().map(|()| folder))?;
        installer::remove_homes(&folder);
        let name = host.ids.unique();
        let tree = folder.join(&name);
        new_folder(&tree)?;
        let keep = self.keep.as_ref();
        let made = async {
            let installer = Installer::new(host, &tree)?;
            let outcome = match self.request.ecosystem {
                Ecosystem::Npm => npm::install(&installer, self.request, keep).await?,
                Ecosystem::Python => python::install(&installer, self.request, keep).await?,
            };
            if let Some(package) = outcome.pins.without_integrity() {
                bail!(
                    "`{package}` has no hash that it could be pinned by; only packages of a registry have one"
                );
            }
            drop(installer);
            let own = tree.clone();
            let Installed { pins, program, links } = outcome;
            let content_hash = spawn_blocking(move || checked_hash(&own, &links)).await??;
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

/// Tells the machine what a gateway would trust, as far as it is there, but for one folder, and what its
/// programs may write.
pub(super) fn trust(loaded: &Loaded, data: &Path, processes: &Processes, but: Option<&Path>) {
    let mut list = trusted_paths(loaded, data, processes);
    list.retain(|trusted| trusted.path.exists() && Some(trusted.path.as_path()) != but);
    processes.trusted().replace(list);
    processes.trusted().declare_writable(writable_folders(loaded));
}

/// The same for what fetches packages, which alone may write where these are. What it writes is not added
/// to the list of folders that programs could write: its links count when the server is started.
fn trust_for_fetching(context: &Context, processes: &Processes) -> anyhow::Result<()> {
    let data = &context.data;
    let packages = std::path::absolute(data.join(DataDir::PACKAGES))?;
    trust(&context.loaded, data, processes, Some(&packages));
    let list = data.join(DataDir::WRITABLE_LIST);
    let read = processes.trusted().read_writable_from(&list);
    read.with_context(|| format!("can't read `{}`", list.display()))
}

/// The hash of what was installed, if nothing in it leads elsewhere but the links that its installer made.
fn checked_hash(tree: &Path, links: &BTreeMap<PathBuf, PathBuf>) -> anyhow::Result<String> {
    check_links(tree, links)?;
    Ok(content_hash(tree)?)
}

fn check_links(tree: &Path, links: &BTreeMap<PathBuf, PathBuf>) -> anyhow::Result<()> {
    let found = links_out(tree)?;
    let differ = |(link, target): &(&PathBuf, &PathBuf)| links.get(*link) != Some(*target);
    if let Some((link, _)) = found.iter().find(differ) {
        bail!("its files hold a link that leads out of their folder: `{}`", link.display());
    }
    if let Some(link) = links.keys().find(|link| !found.contains_key(*link)) {
        bail!("its files took the place of `{}`", link.display());
    }
    Ok(())
}

/// Pins what was fetched, and waits until a running gateway uses it. Earlier files go.
pub(super) async fn pin(
    file: &ConfigFile,
    data: &Path,
    fetched: BTreeMap<SourceId, PinnedPackage>,
) -> anyhow::Result<()> {
    let trees: Vec<(SourceId, String)> =
        fetched.iter().map(|(id, pinned)| (id.clone(), pinned.tree.clone())).collect();
    let _progress = Progress::new("removing the packages of before");
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
    let _progress = Progress::new(format!("removing the package of `{name}`"));
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
