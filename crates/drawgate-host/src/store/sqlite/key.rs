//! The installation's signing key: `audit.key`, readable by its owner alone, and `audit.pub`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use drawgate_core::audit::{Signer, VerifyKeys};
use drawgate_core::store::StoreError;

use super::super::lock::DataDir;
use crate::own_files;

const KEY: &str = "audit.key";
const PUBLIC: &str = "audit.pub";
/// A key in hexadecimal and its line end, with some room for white space.
const MAX_KEY_FILE: u64 = 128;

/// A signing key, and whether it was made just now.
pub(super) struct Key {
    pub(super) signer: Signer,
    pub(super) is_new: bool,
}

/// Reads the signing key, or makes it at the first start.
pub(super) fn load_or_create(dir: &DataDir) -> Result<Key, StoreError> {
    let path = dir.file(KEY);
    let (signer, is_new) = match own_files::open_to_read(&path) {
        Ok(file) => (read(&path, file)?, false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            check_first(dir)?;
            (create(&path)?, true)
        }
        Err(error) => return Err(unusable(&path, &error)),
    };
    let public = dir.file(PUBLIC);
    if public.exists() {
        check_public(dir, &signer)?;
    } else {
        let text = format!("{}\n", signer.keys().public_hex());
        let mut options = OpenOptions::new();
        let file = own_files::open(&public, options.write(true).create(true).truncate(true));
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| unusable(&public, &error))?;
    }
    Ok(Key { signer, is_new })
}

/// A log is never there before its key. With another key it could not be written any further.
fn check_first(dir: &DataDir) -> Result<(), StoreError> {
    let signed =
        [dir.file(PUBLIC), dir.file(DataDir::AUDIT)].into_iter().find(|file| file.exists());
    let Some(signed) = signed else { return Ok(()) };
    Err(unusable(
        &dir.file(KEY),
        &format!(
            "it is missing, and `{}` was made with it; put it back from a backup. If there is none, a new log \
             must begin: move all `audit.*` files to another folder and keep them, since `audit.pub` is what \
             verifies the old log",
            signed.display()
        ),
    ))
}

/// The signing key, if this process may read it.
pub(super) fn signer(dir: &DataDir) -> Result<Option<Signer>, StoreError> {
    let path = dir.file(KEY);
    match own_files::open_to_read(&path) {
        Ok(file) => read(&path, file).map(Some),
        Err(_) => Ok(None),
    }
}

/// The public key beside the log is what others pin, so it must be that of the signing key.
pub(super) fn check_public(dir: &DataDir, signer: &Signer) -> Result<(), StoreError> {
    let path = dir.file(PUBLIC);
    let text = own_files::read_to_string(&path).map_err(|error| unusable(&path, &error))?;
    if text.trim() == signer.keys().public_hex() {
        return Ok(());
    }
    Err(unusable(
        &path,
        &"it is not the public key of `audit.key`: one of them was replaced; put the right one back from a backup. \
          If `audit.key` is the right one, move `audit.pub` to another folder, and the next start writes it again",
    ))
}

/// What a reader can check with: everything, or signatures only if it may not read the secret.
pub(super) fn verify_keys(dir: &DataDir) -> Result<VerifyKeys, StoreError> {
    if let Some(signer) = signer(dir)? {
        return Ok(signer.keys().clone());
    }
    let path = dir.file(PUBLIC);
    let text = own_files::read_to_string(&path).map_err(|error| unusable(&path, &error))?;
    VerifyKeys::public(&text).map_err(|error| unusable(&path, &error))
}

fn read(path: &Path, file: File) -> Result<Signer, StoreError> {
    let mode = file.metadata().map_err(|error| unusable(path, &error))?.mode();
    if mode & 0o077 != 0 {
        return Err(unusable(path, &"others may read it; run `chmod 600` on it"));
    }
    let mut text = String::new();
    file.take(MAX_KEY_FILE).read_to_string(&mut text).map_err(|error| unusable(path, &error))?;
    let mut secret = [0; 32];
    hex::decode_to_slice(text.trim(), &mut secret).map_err(|error| unusable(path, &error))?;
    Ok(Signer::new(&secret))
}

fn create(path: &Path) -> Result<Signer, StoreError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| unusable(path, &error))?;
    let write = || {
        let mut file = own_files::open(path, OpenOptions::new().write(true).create_new(true))?;
        writeln!(file, "{}", hex::encode(secret))?;
        file.sync_all()
    };
    write().map_err(|error| unusable(path, &error))?;
    Ok(Signer::new(&secret))
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unavailable {
        operation: "read the audit key",
        reason: format!("`{}`: {error}", path.display()),
    }
}
