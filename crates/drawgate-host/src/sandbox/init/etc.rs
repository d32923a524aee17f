//! A small `/etc`: what programs need to run, nothing about this machine's users and services.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::identity::INSIDE;
use super::trees::{self, Rights};
use crate::sandbox::plan::{Plan, USER};

/// Copied as they are: the loader, certificates, time, names of services and files, and the settings without
/// which Debian's launcher of Chromium ends.
const KEPT: [&str; 31] = [
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "chromium.d",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "lsb-release",
    "magic",
    "mime.types",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "protocols",
    "python3",
    "rpc",
    "services",
    "shells",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// Whether the box's own `/etc` has this path of the machine's.
pub(crate) fn is_kept(path: &Path) -> bool {
    let rest = path.strip_prefix("/etc");
    rest.is_ok_and(|rest| KEPT.iter().any(|kept| rest.starts_with(kept)))
}

/// Larger files are not copied.
const LARGEST: u64 = 1024 * 1024;

enum Entry {
    Link(PathBuf),
    File(Vec<u8>),
    Folder(std::os::fd::OwnedFd),
}

/// What will be in `/etc`.
pub(super) struct Etc {
    entries: Vec<(PathBuf, Entry)>,
}

impl Etc {
    /// Takes what is kept of the machine's own.
    pub(super) fn read(plan: &Plan) -> io::Result<Self> {
        let mut entries = Vec::new();
        for name in KEPT {
            let path = Path::new("/etc").join(name);
            if let Some(entry) = entry(&path)? {
                entries.push((path, entry));
            }
        }
        let made = made(&plan.home).into_iter();
        entries.extend(
            made.map(|(name, text)| (Path::new("/etc").join(name), Entry::File(text.into_bytes()))),
        );
        Ok(Self { entries })
    }

    /// Writes it into the box's root.
    pub(super) fn write(self) -> io::Result<()> {
        fs::create_dir("/etc")?;
        for (path, entry) in self.entries {
            if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("/etc")) {
                fs::create_dir_all(parent)?;
            }
            match entry {
                Entry::Link(target) => symlink(target, path)?,
                Entry::File(bytes) => fs::write(path, bytes)?,
                Entry::Folder(tree) => trees::attach(tree, &path)?,
            }
        }
        symlink("/proc/self/mounts", "/etc/mtab")
    }
}

fn entry(path: &Path) -> io::Result<Option<Entry>> {
    let Ok(found) = path.symlink_metadata() else { return Ok(None) };
    if found.is_symlink() {
        return Ok(Some(Entry::Link(fs::read_link(path)?)));
    }
    if found.is_dir() {
        let tree = trees::open(&path.canonicalize()?)?;
        trees::restrict(&tree, Rights::Read, None)?;
        return Ok(Some(Entry::Folder(tree)));
    }
    // What the box's user can't read stays out.
    let readable = found.is_file() && found.len() <= LARGEST;
    Ok(if readable { fs::read(path).ok().map(Entry::File) } else { None })
}

fn made(home: &Path) -> [(&'static str, String); 5] {
    let home = home.to_string_lossy().replace([':', '\n'], "_");
    [
        (
            "passwd",
            format!(
                "root:x:0:0:root:/:/usr/sbin/nologin\n\
                 {USER}:x:{INSIDE}:{INSIDE}:{USER}:{home}:/bin/sh\n\
                 nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
            ),
        ),
        ("group", format!("root:x:0:\n{USER}:x:{INSIDE}:\nnogroup:x:65534:\n")),
        ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n".to_owned()),
        ("hostname", "sandbox\n".to_owned()),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_find_their_settings_and_no_one_s_secrets() {
        assert!(is_kept(Path::new("/etc/chromium.d/default-flags")));
        for path in ["/etc/shadow", "/etc/chromium/policies", "/etc/ssl/private", "/home/etc/fonts"]
        {
            assert!(!is_kept(Path::new(path)), "{path}");
        }
    }
}
