//! Certificate authorities that the operator's environment names, for programs in sandboxes.
//!
//! There are many such variables (`SSL_CERT_FILE`, `NODE_EXTRA_CA_CERTS`, `REQUESTS_CA_BUNDLE` and others), so
//! they are known by what they name: a file of certificates without any key, or a folder of such files
//! under the names that OpenSSL looks for. That is public, and no secret can be taken for it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The largest file that is looked at: the authorities of a whole system have about 250 KiB.
const MAX_FILE: u64 = 4 << 20;
/// The most files of a folder.
const MAX_FILES: usize = 4096;
/// What begins a part of a PEM file.
const BEGIN: &str = "-----BEGIN ";
/// What public parts are called, at the end of their names.
const PUBLIC: [&str; 2] = ["CERTIFICATE", "X509 CRL"];

/// The variables that name authorities, with the paths.
pub(super) fn named_in(variables: &[(String, OsString)]) -> BTreeMap<String, PathBuf> {
    let paths = variables.iter().map(|(name, value)| (name, Path::new(value)));
    let paths = paths.filter(|(_, path)| path.is_absolute() && path.to_str().is_some());
    let named = paths.filter(|(_, path)| are_certificates(path) || are_hashed(path));
    named.map(|(name, path)| (name.clone(), path.to_owned())).collect()
}

/// Whether a file holds certificates, and nothing but public parts.
fn are_certificates(file: &Path) -> bool {
    let is_small = |found: fs::Metadata| found.is_file() && found.len() <= MAX_FILE;
    if !fs::metadata(file).is_ok_and(is_small) {
        return false;
    }
    let Ok(text) = fs::read_to_string(file) else { return false };
    let mut parts = text.split(BEGIN).skip(1).map(|part| part.split("-----").next()).peekable();
    let is_public = |name: Option<&str>| {
        name.is_some_and(|name| PUBLIC.iter().any(|public| name.ends_with(public)))
    };
    parts.peek().is_some() && parts.all(is_public)
}

/// Whether a folder holds certificates under OpenSSL's names, such as `5ed36f99.0`, and no file but public
/// ones beside them.
fn are_hashed(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).take(MAX_FILES).collect();
    let is_hash = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (hash, number) = name.split_once('.').unwrap_or_default();
        hash.len() == 8
            && hash.chars().all(|c| c.is_ascii_hexdigit())
            && number.parse::<u32>().is_ok()
    };
    // Links that lead nowhere are left behind by authorities that were removed.
    let is_harmless = |file: &PathBuf| !file.is_file() || are_certificates(file);
    files.len() < MAX_FILES && files.iter().any(is_hash) && files.iter().all(is_harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n";

    #[test]
    fn authorities_are_known_by_what_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [
            ("good.pem", format!("# Ours\n{CERTIFICATE}{CERTIFICATE}")),
            ("trusted.pem", CERTIFICATE.replace("CERTIFICATE", "TRUSTED CERTIFICATE")),
            ("both.pem", format!("{CERTIFICATE}{KEY}")),
            ("token", "hunter2".to_owned()),
        ] {
            fs::write(path(name), text).unwrap();
        }
        for (name, file) in [("hashed", "5ed36f99.0"), ("plain", "ca.pem"), ("keys", "5ed36f99.0")]
        {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join(file), CERTIFICATE).unwrap();
        }
        fs::write(path("keys/key.pem"), KEY).unwrap();
        let names =
            ["good.pem", "trusted.pem", "both.pem", "token", "hashed", "plain", "keys", "none"];
        let mut variables: Vec<(String, OsString)> =
            names.map(|name| (name.to_owned(), path(name).into())).to_vec();
        variables.push(("RELATIVE".to_owned(), "good.pem".into()));
        variables.push(("EMPTY".to_owned(), OsString::new()));
        let found = named_in(&variables);
        let found: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(found, ["good.pem", "hashed", "trusted.pem"]);
    }
}
