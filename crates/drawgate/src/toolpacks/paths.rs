//! Which names and paths a pack may hold.
//!
//! One rule for folders and archives. What is refused is either dangerous (it leaves the folder, it
//! becomes an option) or a lie to the reader (invisible characters, look-alikes).

use super::error::{Code, ToolpackError};

/// Longest path, in bytes.
const MAX_PATH: usize = 1024;

/// Longest name of one file or folder: what Linux file systems take.
const MAX_NAME: usize = 255;

/// How much of a path an error shows.
const SHOWN: usize = 120;

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
    let fault =
        text.chars().find_map(character_fault).or_else(|| text.split('/').find_map(name_fault));
    fault.map_or(Ok(text), |reason| Err(refused(reason)))
}

/// A path as an error shows it: nothing in it can act on a terminal.
pub(super) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().take(SHOWN).flat_map(char::escape_debug).collect()
}

/// What two names have in common that a file system without capitals would take for the same.
pub(super) fn folded(path: &str) -> String {
    path.chars().flat_map(char::to_lowercase).collect()
}

fn character_fault(c: char) -> Option<&'static str> {
    match c {
        '\\' => Some("a backslash separates folders elsewhere; use `/`"),
        ':' => Some("a colon means a drive or a stream elsewhere"),
        c if c.is_control() => Some("there is a control character in its name"),
        c if is_invisible(c) => Some("there is an invisible character in its name"),
        c if c != ' ' && c.is_whitespace() => Some("there is an unusual space in its name"),
        _ => None,
    }
}

/// Characters without a shape: they change the direction of text, join or part it, or tag it.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
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
        name if is_git(name) => Some("git's own folder is not part of a pack"),
        _ => None,
    }
}

/// `.git`, also where capitals do not count or names have a short form.
pub(super) fn is_git(name: &str) -> bool {
    name.eq_ignore_ascii_case(".git") || name.eq_ignore_ascii_case("git~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pack_may_hold() {
        for good in
            ["toolpack.json", "spec/petstore.json", ".gitignore", "a b/c", "größe.md", "日本"]
        {
            assert_eq!(check(good.as_bytes()).unwrap(), good);
        }
        let deep = "a/".repeat(600) + "a";
        let long = "a".repeat(256);
        for bad in [
            "",
            "/etc/passwd",
            "a//b",
            "a/",
            "./a",
            "a/../b",
            "..",
            "a/..",
            "a\\b",
            "a\0b",
            "a\nb",
            "a\u{1b}[2Jb",
            "-rf",
            "a/-x",
            "a ",
            " a",
            "a/b.",
            "a\u{202e}b",
            "a\u{200b}",
            "\u{feff}a",
            "a\u{a0}b",
            "a\u{85}b",
            "C:/x",
            ".git",
            "x/.GIT/config",
            "GIT~1",
            &deep,
            &long,
        ] {
            assert_eq!(check(bad.as_bytes()).unwrap_err().code(), Some(Code::Path), "{bad:?}");
        }
        assert!(check(b"a\xff").is_err());
    }

    #[test]
    fn errors_can_be_shown() {
        let error = check("a\u{1b}[2J\u{202e}".as_bytes()).unwrap_err().to_string();
        assert!(!error.contains(['\u{1b}', '\u{202e}']), "{error}");
    }
}
