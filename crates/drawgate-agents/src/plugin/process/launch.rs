//! How a plugin's program is started: its command line, and what it is held to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use drawgate_host::Host;
use drawgate_host::egress::{HostRule, Reach};
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::{ArgumentPaths, Confinement, Profile};

use super::{LoadError, ProcessSettings};
use crate::plugin::manifest::{PluginManifest, Runtime};

/// What runs a plugin in Node.
const NODE_RUNNER: &str = include_str!("runner.mjs");
/// What plugins in Node may import as `@drawgate/plugin`.
const NODE_LIBRARY: &str = include_str!("../../../../../packages/plugin/index.js");
/// What runs a plugin in Python.
const PYTHON_RUNNER: &str = include_str!("runner.py");
/// What plugins in Python may import as `drawgate_plugin`.
const PYTHON_LIBRARY: &str = include_str!("../../../../../packages/python/drawgate_plugin.py");

/// The command of a plugin, in its sandbox.
pub(super) fn spawn(
    manifest: &PluginManifest,
    settings: &ProcessSettings,
    host: &Host,
) -> Result<Spawn, LoadError> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        LoadError::Folder(format!("`{}`: {error}", path.display()))
    };
    let trusted = host.processes.trusted();
    let real = |path: &Path| trusted.resolve(path).map_err(|misled| failed(path, &misled));
    let (folder, workspace) = (real(&settings.folder)?, real(&settings.workspace)?);
    let places = Places { folder: &folder, workspace: &workspace, host };
    let confinement = places.confinement(manifest, settings)?;
    let main = folder.join(&manifest.main).to_string_lossy().into_owned();
    let (program, args) = command(manifest.runtime, main, settings);
    let mut env = BTreeMap::new();
    if manifest.runtime == Runtime::Python {
        // What is compiled would change the folder, whose content the operator has agreed to.
        env.insert("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned());
    }
    Ok(Spawn {
        program,
        args,
        env,
        working_dir: Some(folder),
        confinement: Some(confinement),
        ..Spawn::default()
    })
}

fn command(runtime: Runtime, main: String, settings: &ProcessSettings) -> (String, Vec<String>) {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match runtime {
        Runtime::Node => {
            let runner =
                format!("const LIBRARY = {};\n{NODE_RUNNER}", serde_json::json!(NODE_LIBRARY));
            let args = [
                "--disable-warning=ExperimentalWarning",
                "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON",
                "--input-type=module",
                "--eval",
                &runner,
                "--",
                &main,
            ];
            (settings.node.clone().unwrap_or_else(|| "node".to_owned()), text(&args))
        }
        Runtime::Python => {
            // A string of JSON is one of Python, too.
            let runner =
                format!("LIBRARY = {}\n{PYTHON_RUNNER}", serde_json::json!(PYTHON_LIBRARY));
            let program = settings.python.clone().unwrap_or_else(|| "python3".to_owned());
            (program, text(&["-c", &runner, &main]))
        }
        Runtime::Exec => (main, Vec::new()),
    }
}

struct Places<'a> {
    folder: &'a Path,
    workspace: &'a Path,
    host: &'a Host,
}

impl Places<'_> {
    fn confinement(
        &self,
        manifest: &PluginManifest,
        settings: &ProcessSettings,
    ) -> Result<Confinement, LoadError> {
        let permissions = &manifest.permissions;
        let mut read = self.found("read", &permissions.read)?;
        let write = self.found("write", &permissions.write)?;
        for (index, path) in write.iter().enumerate() {
            let field = format!("permissions.write[{index}]");
            if let Err(conflict) = self.host.processes.trusted().check_writable(path) {
                return Err(refused(&field, path, &conflict.to_string()));
            }
        }
        if let Err(conflict) = self.host.processes.trusted().check_writable(self.workspace) {
            return Err(refused("workspace", self.workspace, &conflict.to_string()));
        }
        read.push(self.folder.to_owned());
        let rules: Vec<HostRule> =
            permissions.hosts.iter().filter_map(|host| host.parse().ok()).collect();
        let profile = if rules.is_empty() { Profile::Workspace } else { Profile::Network };
        Ok(Confinement {
            profile,
            workspace: self.workspace.to_owned(),
            read,
            write,
            arguments: ArgumentPaths::Ignored,
            internal: None,
            reach: Reach::only(rules),
            unprotected: Vec::new(),
            limits: settings.resources,
        })
    }

    /// The paths of a permission that exist, with their links followed.
    fn found(&self, field: &str, texts: &[String]) -> Result<Vec<PathBuf>, LoadError> {
        let home = self.host.secrets.home();
        let mut found = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let field = format!("permissions.{field}[{index}]");
            let path = match text.strip_prefix("~/") {
                Some(rest) => home.as_ref().map(|home| home.join(rest)).ok_or_else(|| {
                    refused(&field, Path::new(text), "the variable `HOME` is not set")
                })?,
                None => PathBuf::from(text),
            };
            let real = self.host.processes.trusted().resolve(&path);
            let real = real.map_err(|misled| refused(&field, &path, &misled.to_string()))?;
            // What is not there can't be shown to a program.
            if real.symlink_metadata().is_err() {
                continue;
            }
            self.check(&field, &real, home.as_deref())?;
            found.push(real);
        }
        Ok(found)
    }

    /// A plugin must not name what holds other people's things: a home as a whole, or other plugins.
    fn check(&self, field: &str, path: &Path, home: Option<&Path>) -> Result<(), LoadError> {
        let home = home.and_then(|home| self.host.processes.trusted().resolve(home).ok());
        if home.is_some_and(|home| home.starts_with(path)) {
            return Err(refused(field, path, "it holds a home folder; name a folder inside"));
        }
        if self.folder.starts_with(path) || path.starts_with(self.folder) {
            let why = "it holds the plugin itself, which is readable anyway and never writable";
            return Err(refused(field, path, why));
        }
        if self.workspace.starts_with(path) {
            return Err(refused(field, path, "it holds folders of the gateway"));
        }
        Ok(())
    }
}

fn refused(field: &str, path: &Path, why: &str) -> LoadError {
    LoadError::Folder(format!("`{field}`: a plugin can't have `{}`: {why}", path.display()))
}
