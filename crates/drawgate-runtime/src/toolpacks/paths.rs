//! Which names and paths a pack may hold.
//!
//! One rule for folders and archives. What is refused is dangerous (it leaves the folder, it becomes
//! an option), means something else on another system, or lies to the reader (invisible characters,
//! look-alikes).

mod characters;

pub(super) use self::characters::folded;
use super::error::{Code, ToolpackError};

/// Longest path, in bytes.
const MAX_PATH: usize = 1024;

/// Longest name of one file or folder: what Linux file systems take.
const MAX_NAME: usize = 255;

/// How much of a path an error shows.
const SHOWN: usize = 120;

/// Names that are devices on Windows, in every folder and with every extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Such names that end in a digit.
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// Checks a path relative to the pack, with `/` between names, and gives it as text.
pub(super) fn check(path: &[u8]) -> Result<&str, ToolpackError> {
    let refused = |reason: &str| {
        let message = format!("a toolpack can't hold `{}`: {reason}", shown(path));
        ToolpackError::rejected(Code::Path, message)
    };
    let text = std::str::from_utf8(path).map_err(|_| refused("its name is not UTF-8"))?;
    if text.len() > MAX_PATH {
        return Err(refused("its path is too long"));
    }
    let fault = text
        .chars()
        .find_map(characters::fault)
        .or_else(|| text.split('/').find_map(name_fault))
        .or_else(|| likeness_fault(text));
    fault.map_or(Ok(text), |reason| Err(refused(reason)))
}

/// A path as an error shows it: nothing in it can act on a terminal.
pub(super) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().take(SHOWN).flat_map(char::escape_debug).collect()
}

fn name_fault(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("a path is relative, with one name between two `/`"),
        "." | ".." => Some("it would leave its folder"),
        name if name.len() > MAX_NAME => Some("a name in it is too long"),
        name if name.starts_with('-') => Some("a name in it looks like an option"),
        name if name.starts_with(' ') || name.ends_with([' ', '.']) => {
            Some("a name in it begins with a space, or ends in a space or a dot")
        }
        _ => None,
    }
}

/// What is wrong with a path that is taken for what it looks like.
fn likeness_fault(path: &str) -> Option<&'static str> {
    let plain = folded(path);
    let names = |path: &str| path.split(['/', '\\']).count();
    if names(&plain) != names(path) {
        return Some("a character in its name looks like a slash");
    }
    plain.split('/').find_map(|name| match name {
        name if name.trim_matches(['.', ' ']).is_empty() => {
            Some("it looks as if it would leave its folder")
        }
        name if is_git(name) => Some("git's own folder is not part of a pack"),
        name if is_device(name) => Some("a name in it means a device elsewhere"),
        _ => None,
    })
}

/// `.git`, also where capitals do not count or names have a short form.
pub(super) fn is_git(name: &str) -> bool {
    let name = folded(name);
    name == ".git" || name.strip_prefix("git~").is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a name, with its case folded, is a device's.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end_matches(' ');
    let numbered = stem.strip_suffix(|last: char| last.is_ascii_digit());
    DEVICES.contains(&stem) || numbered.is_some_and(|stem| NUMBERED_DEVICES.contains(&stem))
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
