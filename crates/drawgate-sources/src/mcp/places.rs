//! The variable by which a fetched package lets its user say where it keeps its file.
//!
//! Many small servers keep a file beside their own code unless a variable such as `MEMORY_FILE_PATH` names another
//! place. Packages stay as they were fetched, so such a server can keep nothing until the variable is set. Its
//! name is read off the package's own code; nothing is set here, and a wrong guess is one line of advice.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// How much of a package is looked at: its code in all, one file of it, and how deep it may lie.
const MAX_CODE: usize = 8 << 20;
const MAX_FILE: u64 = 1 << 20;
const MAX_DEPTH: usize = 6;
/// How programs in JavaScript and Python end.
const CODE: [&str; 4] = ["js", "mjs", "cjs", "py"];
/// How the names of variables end that name a file, and those that name a folder.
const FILE_ENDS: [&str; 5] = ["_PATH", "_FILE", "_DB", "_DATABASE", "_FILENAME"];
const FOLDER_ENDS: [&str; 3] = ["_DIR", "_DIRECTORY", "_FOLDER"];
/// Parts of names that stand for something that is read or started.
const NOT_KEPT: [&str; 6] = ["EXECUTABLE", "BINARY", "CHROME", "CERT", "CONFIG", "KEY"];
/// How code names the folder that it is in.
const BESIDE_CODE: [&str; 3] = ["import.meta.", "__dirname", "__file__"];
/// What a file is called where its package's own name for it is not known.
const FILE_NAME: &str = "data";

/// A variable that names a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceVariable {
    /// Its name.
    pub name: String,
    /// The file that it names; nothing if it names a folder.
    file: Option<String>,
}

impl PlaceVariable {
    /// The value that makes the program keep its file in this folder.
    #[must_use]
    pub fn place_in(&self, folder: &Path) -> PathBuf {
        self.file.as_ref().map_or_else(|| folder.to_owned(), |file| folder.join(file))
    }
}

/// The variable for a file that a package tried to write among its own files, if its code has exactly one.
pub(super) fn variable_for(refused: &Path) -> Option<PlaceVariable> {
    let code = code_of(&package_of(refused)?);
    let tried = refused.file_name()?.to_str()?;
    let file = stems(tried).find(|stem| code.iter().any(|text| names_file(text, stem)));
    let names: BTreeSet<&str> = code.iter().flat_map(|text| variables(text)).collect();
    let about = file.or_else(|| stems(tried).last()).and_then(|it| it.split('.').next());
    let name = only(&names, about)?;
    Some(PlaceVariable::new(name, file.unwrap_or(tried)))
}

/// The variable of a package that keeps a file beside its own code unless that is set, if it has exactly one.
#[must_use]
pub fn variable_of(package: &Path) -> Option<PlaceVariable> {
    let code = code_of(package);
    let beside = code.iter().filter(|text| BESIDE_CODE.iter().any(|word| text.contains(word)));
    let names: BTreeSet<&str> = beside.flat_map(|text| variables(text)).collect();
    let name = only(&names, None)?;
    let about = name.split('_').next()?.to_ascii_lowercase();
    let file = code.iter().find_map(|text| file_named(text, &about));
    Some(PlaceVariable::new(name, file.unwrap_or(FILE_NAME)))
}

impl PlaceVariable {
    fn new(name: &str, file: &str) -> Self {
        let is_folder = FOLDER_ENDS.iter().any(|end| name.ends_with(end));
        Self { name: name.to_owned(), file: (!is_folder).then(|| file.to_owned()) }
    }
}

/// The only name, or the only one that speaks of a file.
fn only<'a>(names: &BTreeSet<&'a str>, about: Option<&str>) -> Option<&'a str> {
    if names.len() == 1 {
        return names.first().copied();
    }
    let about = about?.to_ascii_uppercase().replace('-', "_");
    let mut fitting = names.iter().filter(|name| name.contains(&about));
    fitting.next().copied().filter(|_| fitting.next().is_none())
}

/// The folder of the package that a file is in: `node_modules/NAME`, `node_modules/@SCOPE/NAME` or
/// `site-packages/NAME`.
fn package_of(file: &Path) -> Option<PathBuf> {
    let is = |path: Option<&Path>, name: &str| {
        path.and_then(Path::file_name).is_some_and(|it| it == OsStr::new(name))
    };
    let is_scope = |path: &Path| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with('@'))
    };
    let is_package = |path: &&Path| {
        let above = path.parent();
        (is(above, "node_modules") && !is_scope(path))
            || above.is_some_and(|above| is_scope(above) && is(above.parent(), "node_modules"))
            || is(above, "site-packages")
    };
    file.ancestors().skip(1).find(is_package).map(Path::to_owned)
}

/// The texts of a package's own programs, without those of packages in it.
fn code_of(package: &Path) -> Vec<String> {
    let (mut texts, mut length) = (Vec::new(), 0);
    let mut folders = vec![(package.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            let is_own = depth < MAX_DEPTH && entry.file_name() != "node_modules";
            if kind.is_dir() && is_own {
                folders.push((path, depth + 1));
            } else if kind.is_file() && is_code(&path) && length < MAX_CODE {
                let text = fs::read_to_string(&path).unwrap_or_default();
                length += text.len();
                texts.push(text);
            }
        }
    }
    texts
}

fn is_code(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| CODE.contains(&ending))
        && path.metadata().is_ok_and(|found| found.len() <= MAX_FILE)
}

/// The variables of its environment that a text asks for and that name a place: `process.env.NAME`,
/// `environ["NAME"]`, `environ.get("NAME")`, `getenv("NAME")`.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    let asked = text.split("env").skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix("iron").unwrap_or(rest);
        let rest = rest.strip_prefix(".get").unwrap_or(rest);
        let name = rest.trim_start_matches(['.', '?', '[', '(', '"', '\'', '`']);
        let is_end = |c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_';
        name.split(is_end).next().filter(|_| name.len() < rest.len())
    });
    let is_place = |name: &&str| {
        let mut ends = FILE_ENDS.iter().chain(&FOLDER_ENDS);
        ends.any(|end| name.ends_with(end)) && !NOT_KEPT.iter().any(|part| name.contains(part))
    };
    asked.filter(is_place)
}

/// A file's name without what was put behind it: `memory.jsonl.12ab.tmp`, `memory.jsonl.12ab`, `memory.jsonl`, ….
fn stems(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |stem| stem.rsplit_once('.').map(|(before, _)| before))
        .filter(|stem| !stem.is_empty())
}

/// Whether a text has this file's name in quotes, perhaps behind a folder.
fn names_file(text: &str, name: &str) -> bool {
    quoted(text).any(|part| part.rsplit('/').next() == Some(name))
}

/// A file's name in quotes that begins with a word.
fn file_named<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let mut names = quoted(text).filter_map(|part| part.rsplit('/').next());
    names.find(|name| {
        let rest = name.strip_prefix(word).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|ending| {
            !ending.is_empty()
                && ending.chars().all(|c| c.is_ascii_alphanumeric())
                && !CODE.contains(&ending)
        })
    })
}

/// What stands between quotes, without blanks in it.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\'', '"', '`']).filter(|part| !part.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &str, file: &str, code: &str) -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let package = place.path().join(folder);
        let file = package.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, code).unwrap();
        (place, package)
    }

    #[test]
    fn the_variable_and_the_file_are_read_off_the_code() {
        let code = "const own = path.join(path.dirname(fileURLToPath(import.meta.url)), 'memory.jsonl');\n\
                    const old = 'memory.json';\n\
                    if (process.env.MEMORY_FILE_PATH) use(process.env.MEMORY_FILE_PATH, process.env.PATH);\n";
        let (_place, package) = package("node_modules/@scope/memory", "dist/index.js", code);
        let expected = Path::new("/own/memory.jsonl");
        for tried in ["memory.jsonl", "memory.jsonl.12ab.tmp"] {
            let found = variable_for(&package.join("dist").join(tried)).unwrap();
            assert_eq!(found.name, "MEMORY_FILE_PATH");
            assert_eq!(found.place_in(Path::new("/own")), expected, "{tried}");
        }
        assert_eq!(variable_of(&package).unwrap().place_in(Path::new("/own")), expected);
    }

    #[test]
    fn python_and_folders() {
        let code = "HERE = Path(__file__).parent\nSTORE = os.environ.get(\"NOTES_DIR\", HERE)\n\
                    CERTS = os.getenv('CA_CERT_PATH')\n";
        let (_place, package) = package("lib/site-packages/notes", "server.py", code);
        let found = variable_for(&package.join("notes.db")).unwrap();
        assert_eq!(
            (found.name.as_str(), found.place_in(Path::new("/own"))),
            ("NOTES_DIR", "/own".into())
        );
    }

    #[test]
    fn what_is_not_certain_is_not_guessed() {
        let code = "process.env.A_PATH + process.env.B_PATH + environment.C_PATH";
        let (place, package) = package("node_modules/x", "x.js", code);
        assert_eq!(variable_for(&package.join("data.json")), None, "two that fit");
        assert_eq!(variable_for(&place.path().join("data.json")), None, "no package");
        assert_eq!(variable_of(&package), None);
        let found = variable_for(&package.join("b.json")).unwrap();
        assert_eq!(found.name, "B_PATH", "the one that has the file's name");
    }
}
