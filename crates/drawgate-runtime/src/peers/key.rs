//! Public keys: which are taken, and what is wrong with the others.

use ssh_key::public::KeyData;
use ssh_key::{EcdsaCurve, Fingerprint, HashAlg, PublicKey};

/// RSA keys with fewer bits can be broken; more than the most can't be verified here.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;
/// What the types of certificates end in.
const CERTIFICATE: &str = "-cert-v01@openssh.com";
/// What a private key in OpenSSH's or an older form has in its first line.
const PRIVATE: &str = "PRIVATE KEY-----";

/// Why a key is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Not a public key at all.
    #[error("it is not a public key as `ssh-keygen` writes it, such as `ssh-ed25519 AAAA… name`")]
    NotAKey,
    /// Half of the secret that should stay with its owner.
    #[error("it is a private key; give the public one, whose file ends in `.pub`")]
    Private,
    /// A certificate.
    #[error("it is a certificate; give the public key itself")]
    Certificate,
    /// An RSA key of the wrong size.
    #[error("it is an RSA key of {0} bits; from 2048 to 4096 are taken")]
    RsaSize(usize),
    /// A type that can't be verified, or should not be.
    #[error(
        "keys of the type `{0}` are not taken; use `ssh-ed25519`, `ecdsa-sha2-nistp256`, `ecdsa-sha2-nistp384` or `ssh-rsa`"
    )]
    Type(String),
}

/// Reads a public key as `ssh-keygen` writes it: type, base64, and perhaps a comment.
pub fn read_key(text: &str) -> Result<PublicKey, KeyFault> {
    if text.contains(PRIVATE) {
        return Err(KeyFault::Private);
    }
    let mut words = text.trim().splitn(3, [' ', '\t']);
    let (Some(kind), Some(base64)) = (words.next(), words.next()) else {
        return Err(KeyFault::NotAKey);
    };
    if kind.ends_with(CERTIFICATE) {
        return Err(KeyFault::Certificate);
    }
    let comment = words.next().unwrap_or_default().trim();
    let is_one_line = !comment.contains(['\n', '\r']);
    let key = PublicKey::from_openssh(&format!("{kind} {base64}")).ok().filter(|_| is_one_line);
    let mut key = key.ok_or(KeyFault::NotAKey)?;
    check(key.key_data())?;
    key.set_comment(comment);
    Ok(key)
}

/// `SHA256:` and the fingerprint, as `ssh-keygen -l` shows it.
pub(super) fn fingerprint(key: &KeyData) -> String {
    Fingerprint::new(HashAlg::Sha256, key).to_string()
}

fn check(key: &KeyData) -> Result<(), KeyFault> {
    match key {
        KeyData::Ed25519(_) | KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_) => Ok(()),
        KeyData::Ecdsa(key) if key.curve() != EcdsaCurve::NistP521 => Ok(()),
        KeyData::Rsa(key) => {
            let bits = key.n.as_positive_bytes().map_or(0, bits);
            RSA_BITS.contains(&bits).then_some(()).ok_or(KeyFault::RsaSize(bits))
        }
        other => Err(KeyFault::Type(other.algorithm().as_str().to_owned())),
    }
}

fn bits(number: &[u8]) -> usize {
    let leading = number.first().map_or(0, |byte| byte.leading_zeros() as usize);
    number.len().saturating_mul(8).saturating_sub(leading)
}
