//! What a pack's programs may reach: the paths and hosts that it declares, and those of the operator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use drawgate_host::Host;
use drawgate_host::sandbox::{ArgumentPaths, Profile, ResourceLimits};

use super::config::ToolpackConfig;
use super::manifest::{Manifest, Paths};
use crate::confine::{self, SandboxConfig};
use crate::kind::ConfigError;

/// Keeps Python from putting what it has compiled beside the source. A compiled file there is code that
/// would be run, and so it counts as a change of the pack.
const NO_COMPILED_FILES: (&str, &str) = ("PYTHONDONTWRITEBYTECODE", "1");

/// What every program of a pack may reach; its sandbox profile is chosen per program.
#[derive(Debug, Clone)]
pub(super) struct Restrictions {
    pub(super) folder: PathBuf,
    pub(super) workspace: PathBuf,
    /// Hosts that the pack declares, and the operator's.
    pub(super) hosts: Vec<String>,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    unprotected: Vec<String>,
    limits: ResourceLimits,
}

impl Restrictions {
    /// Follows the paths of a manifest, and makes the workspace.
    pub(super) fn new(
        config: &ToolpackConfig,
        manifest: &Manifest,
        host: &Host,
    ) -> Result<Self, ConfigError> {
        let trusted = host.processes.trusted();
        let folder = confine::resolve(trusted, "folder", &config.folder)?;
        confine::check_writable(trusted, "workspace", &config.workspace)?;
        let workspace = confine::resolve(trusted, "workspace", &config.workspace)?;
        trusted.open_writable(&workspace).map_err(|error| {
            ConfigError::value("workspace", format!("`{}`: {error}", workspace.display()))
        })?;
        let home = host.secrets.home();
        let paths = &manifest.permissions.paths;
        let (mut read, mut write) =
            (places(&paths.read, paths, host)?, places(&paths.write, paths, host)?);
        let closed: Vec<PathBuf> = config.keep_out.iter().map(|path| real(path)).collect();
        let packs = folder.parent().map(Path::to_path_buf);
        refuse(&read, home.as_deref(), &closed)?;
        refuse(&write, home.as_deref(), &closed.into_iter().chain(packs).collect::<Vec<_>>())?;
        read.push(folder.clone());
        read.extend(config.read.iter().cloned());
        write.extend(config.write.iter().cloned());
        // What is not there can't be shown to a program.
        read.retain(|path| path.exists());
        write.retain(|path| path.exists());
        for folder in &write {
            confine::check_writable(trusted, "permissions.write", folder)?;
        }
        let hosts = manifest.permissions.hosts.iter().chain(&config.hosts).cloned().collect();
        let unprotected = config.unprotected.clone();
        Ok(Self { folder, workspace, hosts, read, write, unprotected, limits: config.limits })
    }

    /// The folders that its programs may write.
    pub(super) fn writable(&self) -> Vec<PathBuf> {
        std::iter::once(&self.workspace).chain(&self.write).cloned().collect()
    }

    /// The sandbox of one program.
    pub(super) fn sandbox(&self, profile: Profile) -> SandboxConfig {
        SandboxConfig {
            profile,
            workspace: self.workspace.clone(),
            read: self.read.clone(),
            write: self.write.clone(),
            arguments: ArgumentPaths::Ignored,
            hosts: self.hosts.clone(),
            hosts_anywhere: false,
            unprotected: self.unprotected.clone(),
            limits: self.limits,
        }
    }

    /// The variables of one program: those that it is given and, where it could write into the pack's
    /// own folder, what keeps it from changing the pack unawares.
    pub(super) fn environment(
        &self,
        profile: Profile,
        mut given: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let is_open = self.write.iter().any(|path| self.folder.starts_with(path));
        if profile == Profile::None || is_open {
            let (name, value) = NO_COMPILED_FILES;
            given.insert(name.to_owned(), value.to_owned());
        }
        given
    }
}

/// Declared paths on this machine, with their links followed. What lies in a folder that the pack may
/// write is left out: it is open anyway, and the pack could put a link there that leads elsewhere.
fn places(texts: &[String], paths: &Paths, host: &Host) -> Result<Vec<PathBuf>, ConfigError> {
    let home = host.secrets.home();
    let written = paths.write.iter().filter_map(|text| absolute(text, home.as_deref()));
    let written: Vec<PathBuf> = written.collect();
    let mut found = Vec::new();
    for text in texts {
        match absolute(text, home.as_deref()) {
            Some(path) if written.iter().any(|other| path != *other && path.starts_with(other)) => {
            }
            Some(path) => {
                let trusted = host.processes.trusted();
                found.push(confine::resolve(trusted, "permissions.paths", &path)?);
            }
            None if text.starts_with('~') => {
                let reason = format!("`{text}` can't be found, since `HOME` is not set");
                return Err(ConfigError::value("permissions.paths", reason));
            }
            // In the workspace, which the pack may write.
            None => {}
        }
    }
    Ok(found)
}

fn absolute(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    match text.strip_prefix("~/") {
        Some(rest) => Some(home?.join(rest)),
        None => Some(PathBuf::from(text)).filter(|path| path.is_absolute()),
    }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// A pack must not name what holds other people's things: a home as a whole, or the gateway's own.
fn refuse(paths: &[PathBuf], home: Option<&Path>, closed: &[PathBuf]) -> Result<(), ConfigError> {
    let home = home.map(real);
    for path in paths {
        let holds_home = home.as_deref().is_some_and(|home| home.starts_with(path));
        let touches = closed.iter().any(|kept| kept.starts_with(path) || path.starts_with(kept));
        if holds_home || touches || path.parent().is_none() {
            let reason = format!(
                "no pack may have `{}`: it holds a home folder or files of the gateway itself",
                path.display()
            );
            return Err(ConfigError::value("permissions.paths", reason));
        }
    }
    Ok(())
}
