//! Servers that a package runner starts: the installed program runs in the runner's place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_host::Host;
use drawgate_host::process::SpawnError;
use drawgate_host::sandbox::Profile;
use drawgate_host::store::DataDir;

use crate::config::{Loaded, Server, Transport};
use crate::packages::{Ecosystem, NOT_FETCHED, NOT_PINNED, PinnedPackage, RunnerCommand};

/// What a server that is a package runner's runs from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InstalledPackage {
    /// What the lock says.
    pinned: PinnedPackage,
    /// The program's own arguments.
    args: Vec<String>,
}

impl InstalledPackage {
    /// The package of a server, if one was fetched for the command line that it has now; an error if it
    /// can't be started without one.
    pub(super) fn of(
        loaded: &Loaded,
        id: &SourceId,
        server: &Server,
    ) -> Result<Option<Self>, String> {
        let connection = &server.connection;
        let command = connection.command.as_deref();
        let runner = command.and_then(|command| RunnerCommand::of(command, &connection.args));
        let Some(RunnerCommand { runner, request, args }) = runner else { return Ok(None) };
        if connection.transport() != Transport::Stdio {
            return Ok(None);
        }
        let pinned = loaded.packages.servers.get(id).filter(|pinned| pinned.is_sound());
        if let Some(pinned) = pinned.filter(|pinned| request.as_ref() == Ok(&pinned.request)) {
            return Ok(Some(Self { pinned: pinned.clone(), args }));
        }
        if can_download(server) {
            return Ok(None);
        }
        Err(match (request, pinned, &loaded.packages.problem) {
            (Err(error), _, _) => format!(
                "`{runner}` can't download its package in a sandbox without network, and it can't be fetched beforehand: {error}"
            ),
            (Ok(_), _, Some(problem)) => {
                format!("{NOT_FETCHED}: the lock file can't be used: {problem}")
            }
            (Ok(_), Some(_), None) => {
                format!("{NOT_FETCHED}: another one was, and `{runner}` is asked for this one now")
            }
            (Ok(_), None, None) => NOT_FETCHED.to_owned(),
        })
    }

    /// The server as it is started: the installed program with its own arguments.
    pub(super) fn installed(
        &self,
        data: &Path,
        id: &SourceId,
        server: &Server,
    ) -> std::io::Result<Server> {
        let mut server = server.clone();
        let tree = tree(data, id, &self.pinned)?;
        server.connection.command =
            Some(tree.join(&self.pinned.program).to_string_lossy().into_owned());
        server.connection.args.clone_from(&self.args);
        // What a package of npm says about its interpreter is its author's word: the folder is opened as
        // one that leads nowhere else. A Python environment was made here, with the operator's Python.
        if self.pinned.pins.ecosystem() == Ecosystem::Npm {
            server.permissions.read.push(tree);
        }
        Ok(server)
    }

    /// The machine, which starts the program only while its folder holds what was pinned.
    pub(super) fn checking(&self, data: &Path, id: &SourceId, host: &Host) -> Arc<Host> {
        let (pinned, folder) = (self.pinned.clone(), folder(data, id));
        let before = host.start_check.clone();
        let check = move || {
            before.as_ref().map_or(Ok(()), |before| before())?;
            pinned.check(&folder).map_err(|error| {
                let folder = folder.join(&pinned.tree);
                SpawnError::Refused(format!("{NOT_PINNED}, in `{}`: {error}", folder.display()))
            })
        };
        Arc::new(Host { start_check: Some(Arc::new(check)), ..host.clone() })
    }
}

/// Whether a package runner may find its package by itself: over a network, in a folder of the operator's,
/// or where it is told to use what it has.
fn can_download(server: &Server) -> bool {
    let has_network = match server.sandbox.unwrap_or_default() {
        Profile::None => true,
        Profile::Network => !server.permissions.hosts.is_empty(),
        Profile::Strict | Profile::Workspace => false,
    };
    has_network || server.connection.working_dir.is_some()
}

/// The folder of a server's packages.
fn folder(data: &Path, id: &SourceId) -> PathBuf {
    data.join(DataDir::PACKAGES).join(id.as_str())
}

fn tree(data: &Path, id: &SourceId, pinned: &PinnedPackage) -> std::io::Result<PathBuf> {
    // Environments of Python hold their own path, as the system has it.
    Ok(folder(&data.canonicalize()?, id).join(&pinned.tree))
}

#[cfg(test)]
#[path = "packages_tests.rs"]
mod tests;
