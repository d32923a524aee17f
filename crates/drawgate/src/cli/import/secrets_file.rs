//! `imported.env` in the data folder: values that the configuration only refers to, in the form in which
//! shells and service managers read variables. Only its owner can read it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use drawgate_host::store::DataDir;

const FILE: &str = "imported.env";

/// Adds variables; those of the same name that come later win. Returns where they are.
pub(super) fn add(data: &Path, secrets: &BTreeMap<&str, &str>) -> anyhow::Result<PathBuf> {
    let folder = DataDir::open(data)?;
    let path = std::path::absolute(folder.file(FILE))?;
    let put = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path)?;
        let mut present = String::new();
        file.read_to_string(&mut present)?;
        file.seek(SeekFrom::End(0))?;
        let lines = secrets.iter().map(|(name, value)| line(name, value));
        let new: String = lines.filter(|line| !present.contains(line.as_str())).collect();
        file.write_all(new.as_bytes())?;
        file.sync_all()
    };
    put().with_context(|| format!("can't write `{}`", path.display()))?;
    Ok(path)
}

/// An assignment as a POSIX shell reads it.
fn line(name: &str, value: &str) -> String {
    format!("{name}='{}'\n", value.replace('\'', r"'\''"))
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
        assert_eq!(text, "A='it'\\''s $HOME'\nB='two\nlines'\nA='new'\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
