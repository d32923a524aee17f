//! What a configured server's program may touch: a folder of its own, what the operator allowed, and
//! the files that its own command line names.

use std::path::{Path, PathBuf};

use drawgate_core::model::SourceId;
use drawgate_host::sandbox::{ArgumentPaths, Profile};
use drawgate_host::store::DataDir;
use drawgate_sources::confine::SandboxConfig;

use super::Runtime;
use crate::config::{Loaded, Server, Transport};

/// The folders that a server's program may write, by the settings that name them; none where it has no
/// program, or no sandbox.
pub(super) fn writable(
    loaded: &Loaded,
    data: &Path,
    id: &SourceId,
    server: &Server,
) -> Vec<(&'static str, PathBuf)> {
    if server.connection.transport() != Transport::Stdio || server.sandbox == Some(Profile::None) {
        return Vec::new();
    }
    let own = server.connection.working_dir.as_ref().map(|folder| loaded.resolve(folder));
    let own = own.unwrap_or_else(|| data.join(DataDir::SERVERS).join(id.as_str()));
    let more = server.permissions.write.iter();
    let more = more.map(|folder| ("permissions.write", absolute(loaded.resolve(folder))));
    std::iter::once(("working_dir", absolute(own))).chain(more).collect()
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

impl Runtime {
    /// The sandbox of a server that is a program.
    pub(super) fn sandbox(
        &self,
        loaded: &Loaded,
        id: &SourceId,
        server: &Server,
    ) -> std::io::Result<SandboxConfig> {
        let profile = server.sandbox.unwrap_or_default();
        let absolute = |path: &PathBuf| absolute(loaded.resolve(path));
        let workspace = match &server.connection.working_dir {
            Some(folder) => absolute(folder),
            None => std::path::absolute(self.data.join(DataDir::SERVERS).join(id.as_str()))?,
        };
        if profile != Profile::None && server.connection.working_dir.is_none() {
            self.host.processes.trusted().open_writable(&workspace)?;
        }
        let allowed = &server.permissions;
        Ok(SandboxConfig {
            profile,
            workspace,
            read: allowed.read.iter().map(absolute).collect(),
            write: allowed.write.iter().map(absolute).collect(),
            arguments: ArgumentPaths::Opened,
            hosts: allowed.hosts.clone(),
            hosts_anywhere: true,
            unprotected: allowed.unprotected.clone(),
            limits: loaded.config.sandbox,
        })
    }
}
