//! The gateway's own key: what peers know it by, and bind their proofs to.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use drawgate_host::own_files;
use ssh_key::private::{Ed25519Keypair, KeypairData};
use ssh_key::{HashAlg, LineEnding, PrivateKey};

use super::key::fingerprint;

/// No key in OpenSSH's form is longer.
const MAX_FILE: u64 = 16 * 1024;

/// The gateway's key.
pub struct Identity {
    key: PrivateKey,
    name: String,
}

impl Identity {
    /// Reads the key, or makes it at the first start.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let key = match own_files::open_to_read(path) {
            Ok(file) => read(path, file)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => make(path)?,
            Err(error) => {
                return Err(error).with_context(|| format!("`{}` can't be read", path.display()));
            }
        };
        let name = fingerprint(key.public_key().key_data());
        Ok(Self { key, name })
    }

    /// `SHA256:` and the key's fingerprint.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The public key, as `ssh-keygen` writes it.
    pub fn public_key(&self) -> anyhow::Result<String> {
        Ok(self.key.public_key().to_openssh()?)
    }

    /// Signs a text in SSHSIG form, armoured.
    pub fn sign(&self, namespace: &str, text: &str) -> Result<String, ssh_key::Error> {
        self.key.sign(namespace, HashAlg::Sha512, text.as_bytes())?.to_pem(LineEnding::LF)
    }
}

fn read(path: &Path, file: std::fs::File) -> anyhow::Result<PrivateKey> {
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        bail!("others may read `{}`; run `chmod 600` on it", path.display());
    }
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text)?;
    let key = PrivateKey::from_openssh(&text);
    let key = key.ok().filter(|key| matches!(key.key_data(), KeypairData::Ed25519(_)));
    key.with_context(|| {
        format!(
            "`{}` is not an Ed25519 key without a passphrase; remove it to get a new one at the next start, which peers that pinned the old one must then learn",
            path.display()
        )
    })
}

fn make(path: &Path) -> anyhow::Result<PrivateKey> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    let pair = KeypairData::Ed25519(Ed25519Keypair::from_seed(&bytes));
    let key = PrivateKey::new(pair, "drawgate")?;
    let text = key.to_openssh(LineEnding::LF)?;
    // Whole or not at all: half a key would stop every later start.
    let next = path.with_extension("new");
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = own_files::open(&next, options.write(true).create(true).truncate(true))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&next, path)
    };
    write().with_context(|| format!("`{}` can't be written", path.display()))?;
    Ok(key)
}
