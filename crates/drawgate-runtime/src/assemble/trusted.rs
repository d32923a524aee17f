//! What decides about programs: the one list of it, and the sources that are in its way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use drawgate_core::model::SourceId;
use drawgate_host::process::Processes;
use drawgate_host::sandbox::Profile;
use drawgate_host::store::DataDir;
use drawgate_host::trusted::{Conflict, Kind, TrustedPath};

use super::{Runtime, confine};
use crate::config::{Loaded, NamedPath, PathUse, Server, Transport};
use crate::lock::LOCK_FILE;
use crate::packages::PackageLock;

/// All that decides about programs under a configuration, whether it is there or not.
#[must_use]
pub fn trusted_paths(loaded: &Loaded, data: &Path, processes: &Processes) -> Vec<TrustedPath> {
    let config = &loaded.config;
    let mut list = vec![
        trusted("the data folder", data, Kind::Secret(DataDir::ROOMS)),
        trusted("the folder of plugins", data.join(DataDir::PLUGINS), Kind::Setting),
        trusted("the folder of packages", data.join(DataDir::PACKAGES), Kind::Setting),
    ];
    let mut add = |what: &str, path: PathBuf, kind| list.push(trusted(what, path, kind));
    if let Some(file) = loaded.watched() {
        add("the configuration file", file.to_owned(), Kind::Secret(&[]));
        add("the lock file of packages", PackageLock::path(file), Kind::Setting);
    }
    let named = config.named_paths();
    for one in &named {
        let NamedPath { key, path, usage } = one;
        let (path, kind) = match usage {
            PathUse::Command => match program(loaded, &named, one, processes) {
                Some(program) => (program, Kind::Program),
                None => continue,
            },
            PathUse::Trusted => (loaded.resolve(path), Kind::Setting),
            PathUse::TrustedInData => (data.join(path), Kind::Setting),
            PathUse::Secret => (loaded.resolve(path), Kind::Secret(&[])),
            PathUse::Program => (loaded.resolve(path), Kind::Program),
            PathUse::Data | PathUse::Readable | PathUse::Writable => continue,
        };
        add(&format!("what `{key}` names,"), path, kind);
    }
    for (variable, path) in processes.authorities() {
        add(&format!("what the variable `{variable}` names,"), path.clone(), Kind::Program);
    }
    let lock = loaded.resolve(&config.toolpacks.folder).with_file_name(LOCK_FILE);
    add("the lock file of toolpacks", lock, Kind::Setting);
    if let Some(program) = processes.launcher() {
        add("the gateway's program", program.to_owned(), Kind::Program);
    }
    for server in config.servers.values().filter(|server| runs_outside(server)) {
        for file in files_of(loaded, server, processes) {
            add("a program that runs outside of the sandbox,", file, Kind::Program);
        }
    }
    // What a hook says about calls counts, in the sandbox or not.
    for hook in &config.hooks {
        for file in files_of(loaded, &hook.server(), processes) {
            add(&format!("a program of the hook `{}`,", hook.name), file, Kind::Program);
        }
    }
    list
}

/// All folders that a configuration lets programs and tools write, as they are named there.
#[must_use]
pub fn writable_folders(loaded: &Loaded) -> Vec<PathBuf> {
    let mut config = loaded.config.clone();
    // Of the others, nothing is given away by the gateway.
    config.servers.retain(|_, server| {
        server.connection.transport() == Transport::Stdio && server.sandbox != Some(Profile::None)
    });
    let named = config.named_paths().into_iter();
    let named = named.filter(|named| named.usage == PathUse::Writable);
    named.map(|named| loaded.resolve(&named.path)).collect()
}

/// Tells the machine what decides about programs, and what they may write.
pub(super) fn tell(loaded: &Loaded, data: &Path, processes: &Processes) {
    let trusted = processes.trusted();
    trusted.replace(trusted_paths(loaded, data, processes));
    trusted.declare_writable(writable_folders(loaded));
}

fn trusted(what: &str, path: impl AsRef<Path>, kind: Kind) -> TrustedPath {
    let path = std::path::absolute(&path).unwrap_or_else(|_| path.as_ref().to_owned());
    TrustedPath { what: what.to_owned(), path, kind }
}

/// Where a program is that is started in a sandbox; nothing where its own box may write it, since it decides
/// about nothing but itself.
fn program(
    loaded: &Loaded,
    all: &[NamedPath],
    named: &NamedPath,
    processes: &Processes,
) -> Option<PathBuf> {
    let table = named.table();
    let own = || all.iter().filter(|it| it.usage == PathUse::Writable && it.is_in(table));
    let is_path = named.path.components().nth(1).is_some();
    let program = if is_path {
        let folder = own().find(|it| it.key.ends_with(".working_dir"));
        let folder = folder.map_or_else(PathBuf::new, |it| it.path.clone());
        loaded.resolve(&folder.join(&named.path))
    } else {
        processes.find(named.path.to_str()?)?
    };
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let program = absolute(program);
    let is_own = own()
        .map(|it| absolute(loaded.resolve(&it.path)))
        .any(|folder| program.starts_with(&folder) || real(&program).starts_with(real(&folder)));
    (!is_own).then_some(program)
}

fn runs_outside(server: &Server) -> bool {
    server.enabled
        && server.connection.transport() == Transport::Stdio
        && server.sandbox == Some(Profile::None)
}

/// The program of a server, and the scripts that its command line names.
fn files_of(loaded: &Loaded, server: &Server, processes: &Processes) -> Vec<PathBuf> {
    let folder = server.connection.working_dir.as_ref().map(|folder| loaded.resolve(folder));
    let folder = folder.unwrap_or_default();
    let program = server.connection.command.as_deref().and_then(|command| processes.find(command));
    let named = server.connection.args.iter().map(|argument| folder.join(argument));
    program.into_iter().chain(named.filter(|path| path.is_file())).collect()
}

impl Runtime {
    /// Takes over the list of another configuration. A source about whose folders it says something
    /// else than the last one is ended, so that it is set up anew, or refused.
    pub(super) async fn trust(&self, loaded: &Loaded) {
        let before = self.conflicts(loaded);
        let processes = &self.host.processes;
        tell(loaded, &self.data, processes);
        let after = self.conflicts(loaded);
        for (id, _) in before.iter().filter(|(id, found)| after.get(*id) != Some(*found)) {
            self.supervisor().remove(id).await;
            if self.servers.lock().remove(id).is_none() {
                *self.builtin.lock() = None;
            }
        }
    }

    /// What is in the way of each source that was set up.
    fn conflicts(&self, loaded: &Loaded) -> BTreeMap<SourceId, Option<Conflict>> {
        let trusted = self.host.processes.trusted();
        let conflict = |folders: Vec<(&str, PathBuf)>| {
            folders.iter().find_map(|(_, folder)| trusted.check_writable(folder).err())
        };
        let servers = self.servers.lock();
        let mut found: BTreeMap<SourceId, Option<Conflict>> = servers
            .iter()
            .map(|(id, plan)| {
                let folders = confine::writable(loaded, &self.data, id, &plan.server);
                (id.clone(), conflict(folders))
            })
            .collect();
        drop(servers);
        let builtin = SourceId::new("builtin").ok().filter(|_| self.builtin.lock().is_some());
        let workspace = || vec![("workspace", loaded.workspace(&self.data))];
        found.extend(builtin.map(|id| (id, conflict(workspace()))));
        found
    }
}
