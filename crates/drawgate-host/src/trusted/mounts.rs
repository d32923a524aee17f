//! Where a path is in its file system, whatever it is mounted as.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A folder or file of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    device: String,
    path: PathBuf,
}

impl Place {
    /// The rest of the way from another place to this one, if this one is there or below.
    pub(super) fn below(&self, other: &Self) -> Option<&Path> {
        (self.device == other.device).then(|| self.path.strip_prefix(&other.path).ok()).flatten()
    }

    pub(super) fn join(&self, rest: impl AsRef<Path>) -> Self {
        Self { device: self.device.clone(), path: self.path.join(rest) }
    }
}

/// One line of the kernel's table.
#[derive(Debug)]
struct Mount {
    id: String,
    parent: String,
    /// The folder of the file system that it shows.
    shown: Place,
    /// Where it shows it.
    point: PathBuf,
}

/// What is mounted where.
#[derive(Debug, Default)]
pub(super) struct Mounts(Vec<Mount>);

impl Mounts {
    /// The table of this process; without one, a path is its own place.
    pub(super) fn read() -> Self {
        Self::parse(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    pub(super) fn parse(table: &[u8]) -> Self {
        Self(table.split(|byte| *byte == b'\n').filter_map(mount).collect())
    }

    /// Where a path without links is.
    pub(super) fn place(&self, path: &Path) -> Place {
        match self.chain(path).last() {
            Some(mount) => mount.place(path),
            None => Place { device: String::new(), path: path.to_owned() },
        }
    }

    /// Where it is, and where each mount on the way to it is.
    pub(super) fn places(&self, path: &Path) -> Vec<Place> {
        let chain = self.chain(path);
        let points = chain.iter().skip(1).map(|mount| mount.point.as_path()).chain([path]);
        let places: Vec<Place> =
            chain.iter().zip(points).map(|(mount, point)| mount.place(point)).collect();
        if places.is_empty() { vec![self.place(path)] } else { places }
    }

    /// What is mounted below a folder.
    pub(super) fn below(&self, folder: &Path) -> impl Iterator<Item = (&Path, Place)> {
        let mounts = self.0.iter();
        let mounts = mounts.filter(move |it| it.point != folder && it.point.starts_with(folder));
        mounts.map(|mount| (mount.point.as_path(), mount.shown.clone()))
    }

    /// The mounts that a path goes through, from the root.
    fn chain(&self, path: &Path) -> Vec<&Mount> {
        let is_root = |mount: &&Mount| {
            mount.point == Path::new("/") && !self.0.iter().any(|it| it.id == mount.parent)
        };
        let mut chain: Vec<&Mount> = self.0.iter().find(is_root).into_iter().collect();
        while let Some(last) = chain.last() {
            // The first that is met on the way; what is mounted below it earlier is covered.
            let next = self.0.iter().filter(|mount| {
                mount.parent == last.id && mount.id != last.id && path.starts_with(&mount.point)
            });
            match next.min_by_key(|mount| mount.point.as_os_str().len()) {
                Some(next) => chain.push(next),
                None => break,
            }
        }
        chain
    }
}

impl Mount {
    fn place(&self, path: &Path) -> Place {
        self.shown.join(path.strip_prefix(&self.point).unwrap_or(path))
    }
}

/// `36 35 98:0 /shown /point rw,noatime …`
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = || fields.next().map(unescaped);
    let (id, parent, device, root, point) = (next()?, next()?, next()?, next()?, next()?);
    let text = |text: OsString| text.into_string().ok();
    Some(Mount {
        id: text(id)?,
        parent: text(parent)?,
        shown: Place { device: text(device)?, path: root.into() },
        point: point.into(),
    })
}

/// The kernel writes white space and `\` as three octal digits.
fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..3).filter(|_| *first == b'\\');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { others.get(3..).unwrap_or_default() } else { others };
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
20 1 8:1 / / rw - ext4 a rw
21 20 8:1 /home/u/my\\040project/conf /mnt/conf rw - ext4 a rw
22 20 0:5 / /mnt/disk rw - tmpfs b rw
23 22 8:1 /srv /mnt/disk/back rw - ext4 a rw
24 20 0:9 / /over/deep rw - tmpfs c rw
25 20 0:8 / /over rw - tmpfs d rw
";

    #[test]
    fn a_place_is_the_same_by_every_name() {
        let mounts = Mounts::parse(TABLE.as_bytes());
        let place = |path: &str| mounts.place(Path::new(path));
        let rows = [
            ("/home/u/my project/conf/x", "/mnt/conf/x", true),
            ("/srv/data", "/mnt/disk/back/data", true),
            ("/srv/data", "/mnt/disk/data", false),
            // The second mount covers the first.
            ("/over/deep/x", "/over/deep", false),
        ];
        for (one, other, expected) in rows {
            assert_eq!(place(one) == place(other), expected, "{one} {other}");
        }
        assert_eq!(place("/over/deep/x").device, "0:8");
        let project = place("/home/u/my project");
        assert_eq!(place("/mnt/conf/x").below(&project), Some(Path::new("conf/x")));
        assert_eq!(project.below(&place("/mnt/conf")), None);
        // Who may rename `/mnt` moves what is mounted in it.
        let top = place("/mnt");
        assert!(
            mounts.places(Path::new("/mnt/disk/back/x")).iter().any(|it| it.below(&top).is_some())
        );
        let below: Vec<_> =
            mounts.below(Path::new("/mnt")).map(|(point, _)| point.to_owned()).collect();
        assert_eq!(below, ["/mnt/conf", "/mnt/disk", "/mnt/disk/back"].map(PathBuf::from));
    }

    #[test]
    fn without_a_table_a_path_is_its_own_place() {
        let mounts = Mounts::default();
        let (folder, file) = (mounts.place(Path::new("/a")), mounts.places(Path::new("/a/b")));
        assert_eq!(file.iter().filter_map(|place| place.below(&folder)).count(), 1);
    }
}
