//! A private key from a file.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rsa::BigUint;
use rsa::pkcs1v15::SigningKey;
use rsa::sha2::Sha512;
use rsa::signature::{RandomizedSigner as _, SignatureEncoding as _, Signer as _};
use ssh_key::private::{KeypairData, RsaKeypair};
use ssh_key::{PrivateKey, PublicKey, Signature};

use super::{KeyError, short, sshsig};

/// No private key is longer.
const MAX_FILE: u64 = 64 * 1024;
/// Readable or writable by the group or by everybody.
const OTHERS: u32 = 0o077;

/// The text of a key file that is its owner's alone, as ssh demands it.
pub(super) fn read(path: &Path) -> Result<String, KeyError> {
    let failed = |source| KeyError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & OTHERS != 0 {
        return Err(KeyError::Exposed { path: path.to_owned() });
    }
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// A private key that can sign as it is.
pub(super) struct FileKey {
    key: PrivateKey,
    /// `ssh-key` takes an RSA key's first prime for both, so RSA signatures are made without it.
    rsa: Option<SigningKey<Sha512>>,
}

impl FileKey {
    pub(super) fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim_start();
        if PublicKey::from_openssh(text).is_ok() {
            return Err(KeyError::Public);
        }
        if !text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----") {
            return Err(KeyError::Format);
        }
        let key =
            PrivateKey::from_openssh(text).or_else(|error| short::lengthened(text).ok_or(error))?;
        if key.is_encrypted() {
            return Err(KeyError::Passphrase);
        }
        let rsa = match key.key_data() {
            KeypairData::Ed25519(_) | KeypairData::Ecdsa(_) => None,
            KeypairData::Rsa(pair) => Some(rsa_key(pair)?),
            _ => return Err(KeyError::Algorithm(key.algorithm().to_string())),
        };
        Ok(Self { key, rsa })
    }

    pub(super) fn public(&self) -> &PublicKey {
        self.key.public_key()
    }

    /// The signature over `data` in SSH's form.
    pub(super) fn sign(&self, data: &[u8]) -> Result<Vec<u8>, KeyError> {
        if let Some(rsa) = &self.rsa {
            // The random number blinds the computation against those who watch its time.
            let signature = rsa
                .try_sign_with_rng(&mut rsa::rand_core::OsRng, data)
                .map_err(|_| ssh_key::Error::Crypto)?;
            let mut encoded = Vec::new();
            sshsig::put(&mut encoded, b"rsa-sha2-512")?;
            sshsig::put(&mut encoded, &signature.to_bytes())?;
            return Ok(encoded);
        }
        let signature: Signature =
            self.key.key_data().try_sign(data).map_err(|_| ssh_key::Error::Crypto)?;
        Ok(Vec::try_from(signature)?)
    }
}

fn rsa_key(pair: &RsaKeypair) -> Result<SigningKey<Sha512>, KeyError> {
    let primes = vec![BigUint::try_from(&pair.private.p)?, BigUint::try_from(&pair.private.q)?];
    let key = rsa::RsaPrivateKey::from_components(
        BigUint::try_from(&pair.public.n)?,
        BigUint::try_from(&pair.public.e)?,
        BigUint::try_from(&pair.private.d)?,
        primes,
    )
    .map_err(|_| ssh_key::Error::Crypto)?;
    Ok(SigningKey::new(key))
}
