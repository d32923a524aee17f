//! The secrets of a data folder, made at the first start and readable by their owner alone.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use drawgate_core::secret::Secret;
use drawgate_host::own_files;
use drawgate_host::store::DataDir;

/// The key that logins, runs and tasks are sealed with.
const SEALING_KEY: &str = "sealing.key";

/// No key of ours is longer.
const MAX_FILE: u64 = 256;

/// The local user's token.
pub(super) fn admin_token(path: &Path) -> anyhow::Result<Secret<String>> {
    let text = read_or_make(path, || Ok(format!("dg_{}", random()?)))?;
    Ok(Secret::new(text))
}

/// The key that binds approvals to calls.
pub(super) fn approval_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    key(path)
}

/// The key that logins at servers, runs and tasks are sealed with. It is made before the state that has
/// them: where that is there and the key is not, the key is lost, and with another one they all would be.
pub(super) fn sealing_key(dir: &DataDir) -> anyhow::Result<[u8; 32]> {
    let path = &dir.file(SEALING_KEY);
    if dir.has_state() && !path.exists() {
        bail!(
            "`{key}` is missing: logins at servers, runs and tasks are sealed with it; put it back from a \
             backup. If there is none, they are lost, and this makes another key: \
             `(umask 077; od -An -tx1 -N32 /dev/urandom | tr -d ' \\n' > {key})`",
            key = path.display()
        );
    }
    key(path)
}

fn key(path: &Path) -> anyhow::Result<[u8; 32]> {
    let text = read_or_make(path, random)?;
    let mut key = [0; 32];
    hex::decode_to_slice(&text, &mut key)
        .with_context(|| format!("`{}` is damaged", path.display()))?;
    Ok(key)
}

fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    Ok(hex::encode(bytes))
}

fn read_or_make(
    path: &Path,
    make: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    match own_files::open_to_read(path) {
        Ok(file) => read(path, file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = make()?;
            let write = || {
                let mut file =
                    own_files::open(path, OpenOptions::new().write(true).create_new(true))?;
                writeln!(file, "{text}")?;
                file.sync_all()
            };
            write().with_context(|| format!("`{}` can't be written", path.display()))?;
            Ok(text)
        }
        Err(error) => Err(error).with_context(|| format!("`{}` can't be read", path.display())),
    }
}

fn read(path: &Path, file: File) -> anyhow::Result<String> {
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!("others may read `{}`; run `chmod 600` on it", path.display());
    }
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text)?;
    let text = text.trim().to_owned();
    if text.len() < 32 {
        bail!("`{}` is damaged; remove it to get a new one at the next start", path.display());
    }
    Ok(text)
}
