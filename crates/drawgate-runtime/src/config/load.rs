//! Reading the file.

use std::io;
use std::path::{Path, PathBuf};

use drawgate_host::store::DataDir;
use drawgate_host::user_files;
use drawgate_sources::Kinds;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::problem::{ConfigErrors, Problem, Severity};
use super::tree::{Locations, Tree, is_within};
use super::{Config, schema, shape, tree};
use crate::packages::PackageLock;

/// The usual name of the file.
pub const DEFAULT_FILE: &str = "drawgate.toml";
/// The data folder of a configuration that does not name one, beside its file.
pub const DEFAULT_DATA: &str = ".drawgate";

/// Which configuration is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// This file, which must be there.
    File(PathBuf),
    /// This file; while it is not there the defaults hold.
    Optional(PathBuf),
    /// No file: the defaults hold. Relative paths start at this folder.
    Defaults(PathBuf),
}

impl ConfigSource {
    /// The file, which need not be there.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(file) | Self::Optional(file) => Some(file),
            Self::Defaults(_) => None,
        }
    }

    /// A path of the configuration as seen from the current folder: relative ones start at the file.
    fn resolve(&self, path: &Path) -> PathBuf {
        let folder = match self {
            Self::File(file) | Self::Optional(file) => file.parent(),
            Self::Defaults(folder) => Some(folder.as_path()),
        };
        folder.map_or_else(|| path.to_owned(), |folder| folder.join(path))
    }
}

/// A configuration without errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// How it was read.
    pub source: ConfigSource,
    /// The file; `None` when there is none and the defaults hold.
    pub path: Option<PathBuf>,
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
        self.source.resolve(path)
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
        self.source.file()
    }

    /// Reads the file again as it was read before.
    pub fn reload(&self) -> Result<Self, ConfigErrors> {
        Config::load_with(self.source.clone(), self.config.kinds)
    }
}

impl Config {
    /// Reads a configuration.
    pub fn load(source: ConfigSource) -> Result<Loaded, ConfigErrors> {
        Self::load_with(source, Kinds::default())
    }

    /// Reads a configuration that may use these kinds of sources.
    pub fn load_with(source: ConfigSource, kinds: Kinds) -> Result<Loaded, ConfigErrors> {
        let defaults = || Self { kinds, ..Self::default() };
        let file = match &source {
            ConfigSource::File(file) | ConfigSource::Optional(file) => file.clone(),
            ConfigSource::Defaults(_) => return Ok(loaded(defaults(), source, "", Vec::new())),
        };
        match user_files::read_to_string(&file) {
            Ok(text) => Ok(Loaded { source, ..Self::parse_with(&text, &file, kinds)? }),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && matches!(source, ConfigSource::Optional(_)) =>
            {
                Ok(Loaded { path: None, ..loaded(defaults(), source, "", Vec::new()) })
            }
            Err(error) => Err(ConfigErrors { problems: vec![unreadable(&file, &error)] }),
        }
    }

    /// What a file with errors still says about where the data folder is and how it is kept, for
    /// commands that need no more. All else is as if it were not there. Nothing if the file can't be
    /// read.
    #[must_use]
    pub fn salvage(source: ConfigSource) -> Option<Loaded> {
        let text = user_files::read_to_string(source.file()?).ok()?;
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
        Some(loaded(config, source, &text, Vec::new()))
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
                Ok(loaded(config, ConfigSource::Defaults(PathBuf::new()), &text, problems))
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
                Ok(loaded(config, ConfigSource::File(path.to_owned()), text, problems))
            }
            _ => Err(ConfigErrors { problems }),
        }
    }
}

fn loaded(config: Config, source: ConfigSource, text: &str, warnings: Vec<Problem>) -> Loaded {
    let path = source.file().map(Path::to_owned);
    let text_hash = hex::encode(Sha256::digest(text));
    let lock = path.as_deref().map(PackageLock::path);
    let packages = lock.map(|lock| PackageLock::read(&lock)).unwrap_or_default();
    Loaded { config, source, path, text_hash, packages, warnings }
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
    let source = ConfigSource::File(path.to_owned());
    found.extend(config.check_files(|relative| source.resolve(relative)));
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
