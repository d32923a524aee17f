//! Reading the file.

use std::io;
use std::path::{Path, PathBuf};

use drawgate_host::store::DataDir;
use drawgate_sources::Kinds;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::problem::{ConfigErrors, Problem, Severity};
use super::tree::{Locations, Tree, is_within};
use super::{Config, Server, Transport, schema, shape, tree};
use crate::packages::PackageLock;

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "drawgate.toml";
/// The name for no file at all: the defaults hold, and the current folder is not looked at.
pub const NO_FILE: &str = "none";

/// What the reason begins with why a configuration starts no programs.
pub const NOT_STARTED: &str = "not started:";

/// How a configuration came to be the one that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigOrigin {
    /// `--config` or `DRAWGATE_CONFIG` names its file, or says that there is none.
    Named,
    /// It lies in the current folder, or may come to lie there.
    Found,
}

/// What a command names as its configuration: a file, [`NO_FILE`], or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedConfig<'a> {
    File(&'a Path),
    Nothing,
    CurrentFolder,
}

impl<'a> RequestedConfig<'a> {
    fn of(path: Option<&'a Path>) -> Self {
        match path {
            None => Self::CurrentFolder,
            Some(path) if path == Path::new(NO_FILE) => Self::Nothing,
            Some(path) => Self::File(path),
        }
    }
}

/// A configuration without errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// The file; `None` when there is none and the defaults hold.
    pub path: Option<PathBuf>,
    /// Whether the operator named it.
    pub chosen: ConfigOrigin,
    /// SHA-256 of the text, in hexadecimal: has an edit changed anything?
    pub text_hash: String,
    /// What was fetched for servers that package runners start.
    pub packages: PackageLock,
    /// What is worth knowing about it.
    pub warnings: Vec<Problem>,
}

impl Loaded {
    /// A path of the file as seen from the current folder: relative ones start at the file.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        resolve(self.path.as_deref(), path)
    }

    /// The folder of the built-in tools, as an absolute path.
    #[must_use]
    pub fn workspace(&self, data: &Path) -> PathBuf {
        let folder = self.config.builtin.workspace.as_deref();
        let path = folder.map_or_else(|| data.join(DataDir::WORKSPACE), |path| self.resolve(path));
        std::path::absolute(&path).unwrap_or(path)
    }

    /// The file whose edits count, which need not exist yet.
    #[must_use]
    pub fn watched(&self) -> Option<&Path> {
        match self.chosen {
            ConfigOrigin::Named => self.path.as_deref(),
            ConfigOrigin::Found => Some(self.path.as_deref().unwrap_or(Path::new(DEFAULT_FILE))),
        }
    }

    /// Reads the file again as it was read before.
    pub fn reload(&self) -> Result<Self, ConfigErrors> {
        match self.chosen {
            ConfigOrigin::Named => {
                let path = self.path.as_deref().unwrap_or(Path::new(NO_FILE));
                Config::load_with(Some(path), self.config.kinds)
            }
            ConfigOrigin::Found => Config::load_with(None, self.config.kinds),
        }
    }

    /// Why this configuration may not start a program, if it may not: a file that came with a folder
    /// says nothing about what the owner of this machine wants.
    #[must_use]
    pub fn starts_no_programs(&self) -> Option<String> {
        let is_found = self.path.is_some() && self.chosen == ConfigOrigin::Found;
        is_found.then(|| {
            format!("{NOT_STARTED} the configuration in the current folder was found, not named")
        })
    }

    /// Why no provider of models is asked, if this configuration may not: it would be sent secrets of the
    /// environment, and what agents read.
    #[must_use]
    pub fn withholds_providers(&self) -> Option<String> {
        let is_found = self.path.is_some() && self.chosen == ConfigOrigin::Found;
        is_found.then(|| {
            "providers are not asked: the configuration in the current folder was found, not named"
                .to_owned()
        })
    }

    /// Why a server is not used, if this configuration may not: it is a program, or it would be sent a
    /// secret of the environment.
    #[must_use]
    pub fn withheld(&self, server: &Server) -> Option<String> {
        let reason = self.starts_no_programs()?;
        let is_withheld =
            server.connection.transport() == Transport::Stdio || server.uses_environment();
        is_withheld.then_some(reason)
    }
}

fn resolve(file: Option<&Path>, path: &Path) -> PathBuf {
    match file.and_then(Path::parent) {
        Some(folder) => folder.join(path),
        None => path.to_owned(),
    }
}

impl Config {
    /// Reads the named file, which must be there, or `drawgate.toml` in the current folder, which
    /// need not. The name [`NO_FILE`] stands for no file.
    pub fn load(path: Option<&Path>) -> Result<Loaded, ConfigErrors> {
        Self::load_with(path, Kinds::default())
    }

    /// Reads a configuration that may use these kinds of sources.
    pub fn load_with(path: Option<&Path>, kinds: Kinds) -> Result<Loaded, ConfigErrors> {
        let none = |chosen| {
            let config = Self { kinds, ..Self::default() };
            Loaded { chosen, ..loaded(config, None, "", Vec::new()) }
        };
        let (file, chosen) = match RequestedConfig::of(path) {
            RequestedConfig::Nothing => return Ok(none(ConfigOrigin::Named)),
            RequestedConfig::File(file) => (file, ConfigOrigin::Named),
            RequestedConfig::CurrentFolder => (Path::new(DEFAULT_FILE), ConfigOrigin::Found),
        };
        match std::fs::read_to_string(file) {
            Ok(text) => Ok(Loaded { chosen, ..Self::parse_with(&text, file, kinds)? }),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && chosen == ConfigOrigin::Found =>
            {
                Ok(none(chosen))
            }
            Err(error) => Err(ConfigErrors { problems: vec![unreadable(file, &error)] }),
        }
    }

    /// What a file with errors still says about where the data folder is and how it is kept, for
    /// commands that need no more. All else is as if it were not there. Nothing if the file can't be
    /// read.
    #[must_use]
    pub fn salvage(path: Option<&Path>) -> Option<Loaded> {
        let (file, chosen) = match RequestedConfig::of(path) {
            RequestedConfig::File(file) => (file, ConfigOrigin::Named),
            RequestedConfig::Nothing | RequestedConfig::CurrentFolder => {
                (Path::new(DEFAULT_FILE), ConfigOrigin::Found)
            }
        };
        let text = std::fs::read_to_string(file).ok()?;
        let mut tree = tree::salvage(&text);
        shape::check(&schema::schema_of(Kinds::default()), &mut tree);
        let read = Self::deserialize(&tree.value).unwrap_or_default();
        let config = Self {
            listen: read.listen,
            data: read.data,
            grpc: read.grpc,
            local: read.local,
            audit: read.audit,
            artifacts: read.artifacts,
            ..Self::default()
        };
        Some(Loaded { chosen, ..loaded(config, Some(file.to_owned()), &text, Vec::new()) })
    }

    /// Reads a text as if it stood in the file `path`. Every problem is reported at once: of form,
    /// of meaning, and of the files that it names.
    pub fn parse(text: &str, path: &Path) -> Result<Loaded, ConfigErrors> {
        Self::parse_with(text, path, Kinds::default())
    }

    /// Reads a document of the file's shape that a program gives. There is no file: relative paths start
    /// at the current folder.
    pub fn from_document(document: Value) -> Result<Loaded, ConfigErrors> {
        let text = document.to_string();
        let (config, problems) = read(Tree::of(document), Path::new(""), Kinds::default());
        match config {
            Some(config) if problems.iter().all(|it| it.severity == Severity::Warning) => {
                Ok(loaded(config, None, &text, problems))
            }
            _ => Err(ConfigErrors { problems }),
        }
    }

    /// The document that a text stands for, not yet checked.
    pub fn document(text: &str) -> Result<Value, ConfigErrors> {
        tree::parse(text).map(|tree| tree.value).map_err(|problems| ConfigErrors { problems })
    }

    fn parse_with(text: &str, path: &Path, kinds: Kinds) -> Result<Loaded, ConfigErrors> {
        let (config, mut problems) = match tree::parse(text) {
            Ok(tree) => read(tree, path, kinds),
            Err(problems) => (None, problems),
        };
        for problem in &mut problems {
            problem.file.get_or_insert_with(|| path.to_owned());
        }
        problems.sort_by_key(|problem| problem.location);
        match config {
            Some(config) if problems.iter().all(|it| it.severity == Severity::Warning) => {
                Ok(loaded(config, Some(path.to_owned()), text, problems))
            }
            _ => Err(ConfigErrors { problems }),
        }
    }
}

fn loaded(config: Config, path: Option<PathBuf>, text: &str, warnings: Vec<Problem>) -> Loaded {
    let text_hash = hex::encode(Sha256::digest(text));
    let lock = path.as_deref().map(PackageLock::path);
    let packages = lock.map(|lock| PackageLock::read(&lock)).unwrap_or_default();
    Loaded { config, path, chosen: ConfigOrigin::Named, text_hash, packages, warnings }
}

fn read(mut tree: Tree, path: &Path, kinds: Kinds) -> (Option<Config>, Vec<Problem>) {
    let mut problems = shape::check(&schema::schema_of(kinds), &mut tree);
    let config = match Config::deserialize(&tree.value) {
        Ok(config) => Config { kinds, ..config },
        Err(error) => {
            problems.push(Problem::error("", error.to_string()));
            return (None, problems);
        }
    };
    let mut found = config.check();
    found.extend(config.check_files(|relative| resolve(Some(path), relative)));
    let found = found.into_iter().filter(|it| !is_consequence(it, &problems));
    let found: Vec<Problem> = found.map(|it| located(it, &tree.locations)).collect();
    problems.extend(found);
    (Some(config), problems)
}

/// Whether a problem of meaning may only be there because a malformed key beside it was left out:
/// after ``unknown key `comand` ``, nobody needs to hear that the command is missing.
fn is_consequence(problem: &Problem, of_form: &[Problem]) -> bool {
    of_form.iter().any(|form| match form.key.rsplit_once(['.', '[']) {
        Some((table, _)) => is_within(&problem.key, table),
        None => is_within(&problem.key, &form.key),
    })
}

fn located(mut problem: Problem, locations: &Locations) -> Problem {
    problem.location = locations.of_key(&problem.key);
    problem
}

fn unreadable(file: &Path, error: &io::Error) -> Problem {
    let mut problem = match error.kind() {
        io::ErrorKind::NotFound => Problem::error("", "there is no such file"),
        io::ErrorKind::InvalidData => {
            Problem::error("", "the file is not UTF-8 text").hint("save it as UTF-8")
        }
        _ => Problem::error("", format!("can't read the file: {error}")),
    };
    problem.file = Some(file.to_owned());
    problem
}
