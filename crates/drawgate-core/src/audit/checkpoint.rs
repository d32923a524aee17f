//! What only the holder of the signing key can write: signed checkpoints and the keyed head record.
//!
//! The chain alone can be recomputed by anyone who may write the file. A checkpoint says, signed, that
//! an event with this hash stood at this place. The head record says the same of the newest event, in
//! every commit, so that a log cut behind its last checkpoint is found too.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use hmac::{Hmac, Mac};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::chain::ZERO_HASH;
use crate::{canonical, json};

/// Keeps the head record's key apart from the signing key it is derived from.
const HEAD_KEY_LABEL: &[u8] = b"drawgate audit head record 1\0";

/// Why a signed record is not to be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// It can't be read.
    #[error("not readable: {0}")]
    Form(String),
    /// It names another key than the pinned one.
    #[error("signed by an unknown key")]
    Key,
    /// The signature is wrong.
    #[error("the signature is wrong")]
    Signature,
}

/// A signed statement about the chain at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The newest event then.
    pub sequence: u64,
    /// Its hash.
    pub head: String,
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// The installation.
    pub install: String,
    /// The lowest sequence of a decision that had no outcome yet.
    pub oldest_open: Option<u64>,
    /// The earliest and the latest time of the events since the checkpoint before it, by which a search
    /// knows where to look; absent where that is not known.
    pub times: Option<(u64, u64)>,
    /// The hash of the checkpoint before it.
    pub previous: String,
    /// The public key, in hexadecimal.
    pub key: String,
    /// The signature over all the others, in hexadecimal.
    pub signature: String,
}

impl Checkpoint {
    /// The canonical JSON, as it is stored and exported.
    #[must_use]
    pub fn to_json(&self) -> String {
        signed_json(self.members(), &self.key, &self.signature)
    }

    /// What the next checkpoint has as `previous`.
    #[must_use]
    pub fn hash(&self) -> String {
        canonical::sha256_hex(self.to_json().as_bytes())
    }

    /// Reads a checkpoint without checking who signed it.
    pub fn parse(body: &str) -> Result<Self, CheckpointError> {
        let map = object(body)?;
        Ok(Self {
            sequence: number(&map, "sequence")?,
            head: text(&map, "head")?,
            at: number(&map, "at")?,
            install: text(&map, "install")?,
            oldest_open: map.get("oldestOpen").and_then(Value::as_u64),
            times: map
                .get("earliest")
                .and_then(Value::as_u64)
                .zip(map.get("latest").and_then(Value::as_u64)),
            previous: text(&map, "previous")?,
            key: text(&map, "key")?,
            signature: text(&map, "signature")?,
        })
    }

    fn members(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("at".to_owned(), self.at.into());
        map.insert("head".to_owned(), self.head.clone().into());
        map.insert("install".to_owned(), self.install.clone().into());
        if let Some(oldest) = self.oldest_open {
            map.insert("oldestOpen".to_owned(), oldest.into());
        }
        if let Some((earliest, latest)) = self.times {
            map.insert("earliest".to_owned(), earliest.into());
            map.insert("latest".to_owned(), latest.into());
        }
        map.insert("previous".to_owned(), self.previous.clone().into());
        map.insert("sequence".to_owned(), self.sequence.into());
        map
    }
}

/// The canonical JSON of a signed record.
pub(super) fn signed_json(mut members: Map<String, Value>, key: &str, signature: &str) -> String {
    members.insert("key".to_owned(), key.into());
    members.insert("signature".to_owned(), signature.into());
    canonical::to_string(&Value::Object(members))
}

/// The keyed record of the newest event and the newest checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadRecord {
    /// The newest event.
    pub sequence: u64,
    /// Its hash.
    pub head: String,
    /// The hash of the newest checkpoint.
    pub checkpoint: String,
    /// HMAC-SHA256 over these and the installation, in hexadecimal.
    pub mac: String,
}

impl HeadRecord {
    /// One line, as it is stored.
    #[must_use]
    pub fn to_line(&self) -> String {
        format!("{} {} {} {}", self.sequence, self.head, self.checkpoint, self.mac)
    }

    /// Reads the line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let parts: Vec<&str> = line.split(' ').collect();
        let [sequence, head, checkpoint, mac] = parts.as_slice() else { return None };
        Some(Self {
            sequence: sequence.parse().ok()?,
            head: (*head).to_owned(),
            checkpoint: (*checkpoint).to_owned(),
            mac: (*mac).to_owned(),
        })
    }
}

/// The signing key of an installation.
pub struct Signer {
    signing: SigningKey,
    keys: VerifyKeys,
}

impl Signer {
    /// From 32 secret bytes.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        let signing = SigningKey::from_bytes(secret);
        let head = Sha256::new().chain_update(HEAD_KEY_LABEL).chain_update(secret).finalize();
        let keys = VerifyKeys { public: signing.verifying_key(), head: Some(head.into()) };
        Self { signing, keys }
    }

    /// What is needed to check what this key wrote, the head records too.
    #[must_use]
    pub const fn keys(&self) -> &VerifyKeys {
        &self.keys
    }

    /// Signs a checkpoint; its `key` and `signature` are replaced.
    #[must_use]
    pub fn checkpoint(&self, mut checkpoint: Checkpoint) -> Checkpoint {
        let signed = self.sign(checkpoint.members());
        checkpoint.key = self.keys.public_hex();
        checkpoint.signature = signed;
        checkpoint
    }

    /// Makes the head record.
    #[must_use]
    pub fn head_record(
        &self,
        install: &str,
        sequence: u64,
        head: &str,
        checkpoint: &str,
    ) -> HeadRecord {
        let message = head_message(install, sequence, head, checkpoint);
        let mac =
            self.keys.head_mac(&message).map(|mac| canonical::hex(&mac.finalize().into_bytes()));
        HeadRecord {
            sequence,
            head: head.to_owned(),
            checkpoint: checkpoint.to_owned(),
            mac: mac.unwrap_or_else(|| ZERO_HASH.to_owned()),
        }
    }

    /// The signature over members and the public key.
    pub(super) fn sign(&self, mut members: Map<String, Value>) -> String {
        members.insert("key".to_owned(), self.keys.public_hex().into());
        let message = canonical::to_string(&Value::Object(members));
        canonical::hex(&self.signing.sign(message.as_bytes()).to_bytes())
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({})", self.keys.public_hex())
    }
}

/// What checks signatures, and head records if it was made from the secret.
#[derive(Clone)]
pub struct VerifyKeys {
    public: VerifyingKey,
    head: Option<[u8; 32]>,
}

impl VerifyKeys {
    /// From a public key in hexadecimal: checkpoints can be checked, head records can't.
    pub fn public(text: &str) -> Result<Self, CheckpointError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text.trim(), &mut bytes)
            .map_err(|error| CheckpointError::Form(format!("public key: {error}")))?;
        let public = VerifyingKey::from_bytes(&bytes)
            .map_err(|error| CheckpointError::Form(format!("public key: {error}")))?;
        Ok(Self { public, head: None })
    }

    /// The public key in hexadecimal.
    #[must_use]
    pub fn public_hex(&self) -> String {
        hex::encode(self.public.to_bytes())
    }

    /// Whether this key wrote the head record; `None` if that can't be known from the public key.
    #[must_use]
    pub fn is_head_ours(&self, install: &str, record: &HeadRecord) -> Option<bool> {
        let message = head_message(install, record.sequence, &record.head, &record.checkpoint);
        let mac = self.head_mac(&message)?;
        Some(hex::decode(&record.mac).is_ok_and(|bytes| mac.verify_slice(&bytes).is_ok()))
    }

    /// Checks the signature of a record as it stands, with every member that it has.
    pub(super) fn check(&self, body: &str) -> Result<(), CheckpointError> {
        let mut map = object(body)?;
        if text(&map, "key")? != self.public_hex() {
            return Err(CheckpointError::Key);
        }
        let signature = text(&map, "signature")?;
        map.shift_remove("signature");
        let bytes = hex::decode(signature).map_err(|_| CheckpointError::Signature)?;
        let signature = Signature::from_slice(&bytes).map_err(|_| CheckpointError::Signature)?;
        let message = canonical::to_string(&Value::Object(map));
        self.public
            .verify_strict(message.as_bytes(), &signature)
            .map_err(|_| CheckpointError::Signature)
    }

    fn head_mac(&self, message: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.head?).ok()?;
        mac.update(message);
        Some(mac)
    }
}

impl std::fmt::Debug for VerifyKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerifyKeys({})", self.public_hex())
    }
}

fn head_message(install: &str, sequence: u64, head: &str, checkpoint: &str) -> Vec<u8> {
    format!("{install}\0{sequence}\0{head}\0{checkpoint}").into_bytes()
}

pub(super) fn object(body: &str) -> Result<Map<String, Value>, CheckpointError> {
    match json::parse(body.as_bytes()) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(CheckpointError::Form("not an object".to_owned())),
        Err(error) => Err(CheckpointError::Form(error.to_string())),
    }
}

pub(super) fn text(map: &Map<String, Value>, key: &str) -> Result<String, CheckpointError> {
    map.get(key)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| CheckpointError::Form(format!("no `{key}`")))
}

pub(super) fn number(map: &Map<String, Value>, key: &str) -> Result<u64, CheckpointError> {
    map.get(key).and_then(Value::as_u64).ok_or_else(|| CheckpointError::Form(format!("no `{key}`")))
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
