//! Reading the file.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::problem::{ConfigErrors, Problem, Severity};
use super::tree::{Places, is_within};
use super::{Config, schema, shape, tree};

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "drawgate.toml";

/// A configuration without errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// The file; `None` when there is none and the defaults hold.
    pub path: Option<PathBuf>,
    /// SHA-256 of the text, in hexadecimal: has an edit changed anything?
    pub text_hash: String,
    /// What is worth knowing about it.
    pub warnings: Vec<Problem>,
}

impl Loaded {
    /// A path of the file as seen from the current folder: relative ones start at the file.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        resolve(self.path.as_deref(), path)
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
    /// need not.
    pub fn load(path: Option<&Path>) -> Result<Loaded, ConfigErrors> {
        let file = path.unwrap_or(Path::new(DEFAULT_FILE));
        match std::fs::read_to_string(file) {
            Ok(text) => Self::parse(&text, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_none() => {
                Ok(loaded(Self::default(), None, "", Vec::new()))
            }
            Err(error) => Err(ConfigErrors { problems: vec![unreadable(file, &error)] }),
        }
    }

    /// Reads a text as if it stood in the file `path`. Every problem is reported at once: of form,
    /// of meaning, and of the files that it names.
    pub fn parse(text: &str, path: &Path) -> Result<Loaded, ConfigErrors> {
        let (config, mut problems) = read(text, path);
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
    Loaded { config, path, text_hash: hex::encode(Sha256::digest(text)), warnings }
}

fn read(text: &str, path: &Path) -> (Option<Config>, Vec<Problem>) {
    let mut tree = match tree::parse(text) {
        Ok(tree) => tree,
        Err(problems) => return (None, problems),
    };
    let mut problems = shape::check(&schema::SCHEMA, &mut tree);
    let config = match Config::deserialize(&tree.value) {
        Ok(config) => config,
        Err(error) => {
            problems.push(Problem::error("", error.to_string()));
            return (None, problems);
        }
    };
    let mut found = config.check();
    found.extend(config.check_files(|relative| resolve(Some(path), relative)));
    let found = found.into_iter().filter(|it| !is_consequence(it, &problems));
    let found: Vec<Problem> = found.map(|it| located(it, &tree.places)).collect();
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

fn located(mut problem: Problem, places: &Places) -> Problem {
    problem.location = places.of_key(&problem.key);
    problem
}

fn unreadable(file: &Path, error: &io::Error) -> Problem {
    let mut problem = match error.kind() {
        io::ErrorKind::NotFound => Problem::error("", "there is no such file")
            .hint("name another with `--config`, or make one with `drawgate init`"),
        io::ErrorKind::InvalidData => {
            Problem::error("", "the file is not UTF-8 text").hint("save it as UTF-8")
        }
        _ => Problem::error("", format!("can't read the file: {error}")),
    };
    problem.file = Some(file.to_owned());
    problem
}
