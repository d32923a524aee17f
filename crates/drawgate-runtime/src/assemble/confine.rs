//! What a configured server's program may touch: a folder of its own, what the operator allowed, and
//! the files that its own command line names.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use drawgate_core::model::SourceId;
use drawgate_host::sandbox::Profile;
use drawgate_host::store::DataDir;
use drawgate_sources::confine::SandboxConfig;

use super::Runtime;
use crate::config::{Loaded, Server, Transport};

/// What the root of a project has; a script needs what lies beside it.
const MARKS: [&str; 5] =
    ["package.json", "node_modules", "pyproject.toml", "pyvenv.cfg", "Cargo.toml"];
/// How far above a script its project may begin.
const MAX_HEIGHT: usize = 6;

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
            DirBuilder::new().recursive(true).mode(0o700).create(&workspace)?;
        }
        let allowed = &server.permissions;
        let mut read: Vec<PathBuf> = allowed.read.iter().map(absolute).collect();
        let home = self.host.secrets.home();
        read.extend(
            server.connection.args.iter().filter_map(|arg| named(Path::new(arg), home.as_deref())),
        );
        read.dedup();
        Ok(SandboxConfig {
            profile,
            workspace,
            read,
            write: allowed.write.iter().map(absolute).collect(),
            hosts: allowed.hosts.clone(),
            hosts_anywhere: true,
            unprotected: allowed.unprotected.clone(),
            limits: loaded.config.sandbox,
        })
    }
}

/// Arguments as the program is given them: a path in the form in which it is seen in the sandbox, where
/// there is nothing beside what it leads to.
pub(super) fn arguments(args: &[String]) -> Vec<String> {
    let real = |arg: &String| {
        let path = Path::new(arg).is_absolute().then(|| Path::new(arg).canonicalize().ok());
        path.flatten().and_then(|path| path.into_os_string().into_string().ok())
    };
    args.iter().map(|arg| real(arg).unwrap_or_else(|| arg.clone())).collect()
}

/// What an argument opens: a folder that it names, or a file that it names with the project around it.
/// Never a whole home folder, nor a folder at the top of the machine.
fn named(argument: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let too_much = |path: &Path| {
        path.parent().is_none_or(|above| above.parent().is_none()) || Some(path) == home
    };
    if !argument.is_absolute() {
        return None;
    }
    let path = argument.canonicalize().ok()?;
    if path.is_dir() {
        return Some(path).filter(|path| !too_much(path));
    }
    let above = || path.ancestors().skip(1).take_while(|folder| !too_much(folder));
    // An installed package needs those that are installed with it, and nothing of the project.
    let modules = above().filter(|folder| folder.ends_with("node_modules")).last();
    let marked = |folder: &&Path| MARKS.iter().any(|mark| folder.join(mark).exists());
    let project = || above().take(MAX_HEIGHT).find(marked);
    Some(modules.or_else(project).unwrap_or(&path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_opens_its_project_and_no_more() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let project = home.join("project");
        std::fs::create_dir_all(project.join("src/deep")).unwrap();
        std::fs::write(project.join("package.json"), "{}").unwrap();
        for file in ["project/src/deep/server.js", "loose.py"] {
            std::fs::write(home.join(file), "").unwrap();
        }
        let opened = |path: &Path| named(path, Some(&home));
        assert_eq!(opened(&project.join("src/deep/server.js")), Some(project.clone()));
        assert_eq!(opened(&project.join("src")), Some(project.join("src")));
        let package = project.join("node_modules/@a/b/node_modules/c");
        std::fs::create_dir_all(&package).unwrap();
        for file in ["package.json", "index.js"] {
            std::fs::write(package.join(file), "{}").unwrap();
        }
        assert_eq!(opened(&package.join("index.js")), Some(project.join("node_modules")));
        assert_eq!(opened(&home.join("loose.py")), Some(home.join("loose.py")));
        for nothing in ["/", "/usr", "server.js", "/no/such"].map(Path::new) {
            assert_eq!(opened(nothing), None, "{}", nothing.display());
        }
        assert_eq!(opened(&home), None);
    }
}
