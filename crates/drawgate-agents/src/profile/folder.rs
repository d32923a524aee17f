//! Profiles in folders: which files there are, and what each says.
//!
//! Folders come with repositories. Links are not followed, sizes and numbers are bounded.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use drawgate_core::canonical::sha256_hex;
use rustix::fs::{Mode, OFlags};

use super::parse::{MAX_FILE, parse, too_large};
use super::{Parsed, Problem};

/// Files in one folder.
const MAX_FILES: usize = 1_000;

/// A file, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The file; the folder itself if that can't be read.
    pub path: PathBuf,
    /// The profile's name; the file's if it can't be read.
    pub name: String,
    /// The profile, or all that is wrong.
    pub parsed: Result<Parsed, Vec<Problem>>,
    /// SHA-256 of the file, if it could be read.
    pub hash: Option<String>,
    /// The file's text, if it is one.
    pub text: Option<String>,
}

/// Reads the profiles in these folders, without those below, in the order of their paths.
#[must_use]
pub fn read_folders(folders: &[PathBuf]) -> Vec<Found> {
    let mut all = Vec::new();
    for folder in folders {
        match files(folder) {
            Ok(files) => all.extend(files.iter().map(|file| read_file(file))),
            Err(message) => all.push(Found::unread(folder, message)),
        }
    }
    refuse_shared_names(&mut all);
    all
}

/// Reads one file.
#[must_use]
pub fn read_file(path: &Path) -> Found {
    let bytes = match bytes(path) {
        Ok(bytes) => bytes,
        Err(message) => return Found::unread(path, message),
    };
    if bytes.len() > MAX_FILE {
        return Found { parsed: Err(vec![too_large()]), ..Found::unread(path, String::new()) };
    }
    let hash = Some(sha256_hex(&bytes));
    let Ok(text) = String::from_utf8(bytes) else {
        let message = "the file is not UTF-8 text".to_owned();
        return Found { hash, ..Found::unread(path, message) };
    };
    let parsed = parse(&file_name(path), &text);
    let name = match &parsed {
        Ok(parsed) => parsed.profile.name.clone(),
        Err(_) => stem(path),
    };
    Found { path: path.to_owned(), name, parsed, hash, text: Some(text) }
}

impl Found {
    fn unread(path: &Path, message: String) -> Self {
        let problem = Problem { field: String::new(), tool: None, line: None, message };
        let (path, name) = (path.to_owned(), stem(path));
        Self { path, name, parsed: Err(vec![problem]), hash: None, text: None }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The Markdown files of a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("the folder can't be read: {error}");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            all.push(path);
        }
        if all.len() > MAX_FILES {
            return Err(format!("the folder has more than {MAX_FILES} files; use several folders"));
        }
    }
    all.sort();
    Ok(all)
}

/// The file, up to one byte more than a profile may have.
fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("the file can't be read: {error}");
    // Not blocking: opening a named pipe would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) => {
            return Err("the file is a symbolic link; put the file itself here".to_owned());
        }
        Err(error) => return Err(failed(error.into())),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let limit = (MAX_FILE as u64).saturating_add(1);
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Lets none of several files with the same name count.
fn refuse_shared_names(all: &mut [Found]) {
    let mut holders: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, found) in all.iter().enumerate() {
        if found.parsed.is_ok() {
            holders.entry(found.name.clone()).or_default().push(index);
        }
    }
    for (name, indices) in holders.into_iter().filter(|(_, indices)| indices.len() > 1) {
        let paths: Vec<(usize, PathBuf)> = indices
            .iter()
            .filter_map(|index| Some((*index, all.get(*index)?.path.clone())))
            .collect();
        for index in indices {
            let others: Vec<String> = paths
                .iter()
                .filter(|(other, _)| *other != index)
                .map(|(_, path)| format!("`{}`", path.display()))
                .collect();
            let message = format!("{} is called `{name}` too; rename one", others.join(", "));
            let problem = Problem { field: "name".to_owned(), tool: None, line: None, message };
            if let Some(found) = all.get_mut(index) {
                found.parsed = Err(vec![problem]);
            }
        }
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
