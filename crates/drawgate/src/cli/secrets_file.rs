//! `secrets.env` in the data folder: values that the configuration refers to by `env:NAME`, for gateways
//! that do not get them from their environment. Only its owner can read it.
//!
//! A line is an assignment in the form in which shells and service managers read variables: `NAME=value`,
//! or `NAME='value'`, where a quote inside is written `'\''` and lines may break.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use drawgate_host::store::DataDir;

use super::files;

/// Its name.
pub(super) const FILE: &str = "secrets.env";

/// Stores variables, in the place of those of the same names. Returns where they are.
pub(super) fn add(data: &Path, secrets: &BTreeMap<&str, &str>) -> anyhow::Result<PathBuf> {
    let folder = DataDir::open(data)?;
    let path = std::path::absolute(folder.file(FILE))?;
    let put = || {
        // Another command may be adding others.
        let _alone = File::open(folder.path()).and_then(|it| it.lock().map(|()| it))?;
        let before = files::read(&path)?.unwrap_or_default();
        let is_replaced = |part: &Part<'_>| {
            part.assigned.as_ref().is_some_and(|(name, _)| secrets.contains_key(name.as_str()))
        };
        let mut text: String =
            parts(&before).iter().filter(|part| !is_replaced(part)).map(|part| part.text).collect();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.extend(secrets.iter().map(|(name, value)| line(name, value)));
        files::put_private(&path, &text)
    };
    put().with_context(|| format!("can't write `{}`", path.display()))?;
    Ok(path)
}

/// The variables of the file in this data folder, in their order; none if there is no file.
pub(super) fn read(data: &Path) -> Vec<(String, String)> {
    let path = data.join(FILE);
    // A pipe would be waited for.
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let text = is_file.then(|| std::fs::read_to_string(path).ok()).flatten();
    text.map(|text| parse(&text)).unwrap_or_default()
}

/// A variable of the file in this data folder, if it is there.
pub(super) fn find(data: &Path, name: &str) -> Option<String> {
    read(data).into_iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// An assignment as a POSIX shell reads it.
fn line(name: &str, value: &str) -> String {
    format!("{name}='{}'\n", value.replace('\'', r"'\''"))
}

/// The assignments in their order. What is none is passed over.
fn parse(text: &str) -> Vec<(String, String)> {
    parts(text).into_iter().filter_map(|part| part.assigned).collect()
}

/// A line of the file, or the lines of a quoted value.
struct Part<'a> {
    text: &'a str,
    /// The variable and its value, if it sets one.
    assigned: Option<(String, String)>,
}

/// The whole text in its parts.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let assignment = line.split_once('=').filter(|_| !line.trim_start().starts_with('#'));
        // A quoted value may go on behind the line.
        let quote = rest.split_once("='").filter(|(name, _)| line.len() > name.len());
        let (assigned, after) = match (assignment, quote.and_then(|(_, value)| quoted(value))) {
            (Some((name, _)), Some((value, after))) => (Some((name, value)), after),
            (Some((name, value)), None) if !value.starts_with('\'') => {
                (Some((name, value.trim().to_owned())), after)
            }
            _ => (None, after),
        };
        let end = rest.len().saturating_sub(after.len());
        let name = |name: &str| name.trim().trim_start_matches("export ").trim().to_owned();
        found.push(Part {
            text: rest.get(..end).unwrap_or(rest),
            assigned: assigned.map(|(key, value)| (name(key), value)),
        });
        rest = after;
    }
    found
}

/// A value up to its closing quote, and what follows the line on which that is.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('\'')?;
        value.push_str(part);
        let Some(more) = after.strip_prefix(r"\''") else {
            return Some((value, after.split_once('\n').map_or("", |(_, after)| after)));
        };
        value.push('\'');
        rest = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_as_they_are_and_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        let values = BTreeMap::from([("A", "it's $HOME"), ("B", "two\nlines")]);
        let path = add(&data, &values).unwrap();
        assert_eq!(add(&data, &values).unwrap(), path);
        assert_eq!(add(&data, &BTreeMap::from([("A", "new")])).unwrap(), path);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "B='two\nlines'\nA='new'\n", "no earlier value stays");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(find(&data, "A").as_deref(), Some("new"));
        assert_eq!(find(&data, "B").as_deref(), Some("two\nlines"));
        assert_eq!(find(&data, "C"), None);
        assert_eq!(find(place.path(), "A"), None, "no file");
    }

    #[test]
    fn what_else_is_in_the_file_stays() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        let path = add(&data, &BTreeMap::from([("A", "x")])).unwrap();
        std::fs::write(&path, "# mine\nA=1\nB='two\nA=lines'\nexport A='2'\nC=3").unwrap();
        add(&data, &BTreeMap::from([("A", "new")])).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "# mine\nB='two\nA=lines'\nC=3\nA='new'\n");
    }

    #[test]
    fn what_people_write_is_read() {
        let text = "# a comment\n\nA=plain value \nexport B='quoted'\nnonsense\nC=''\n\
                    D='it'\\''s\ntwo = lines'\nE=last\nF='open";
        let read = parse(text);
        let read: Vec<(&str, &str)> =
            read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("A", "plain value"),
            ("B", "quoted"),
            ("C", ""),
            ("D", "it's\ntwo = lines"),
            ("E", "last"),
        ];
        assert_eq!(read, expected);
    }
}
