//! Signed heads: what is kept outside the log, so that a log that was set back as a whole is found.
//!
//! The same record stands in the files beside the log, goes to syslog or a URL, and is printed on
//! demand.

use serde_json::{Map, Value};

use super::checkpoint::{CheckpointError, Signer, VerifyKeys, number, object, signed_json, text};

/// A signed statement about the newest event of a log at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    /// The newest event, 0 for a log that is about to begin.
    pub sequence: u64,
    /// Its hash.
    pub hash: String,
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// The installation.
    pub install: String,
    /// The run of the machine in which it was written, if the log may lose its newest events with
    /// the power.
    pub boot: Option<String>,
    /// The public key, in hexadecimal.
    pub key: String,
    /// The signature over all the others, in hexadecimal.
    pub signature: String,
}

impl SignedHead {
    /// Signs it; its `key` and `signature` are replaced.
    #[must_use]
    pub fn sign(mut self, signer: &Signer) -> Self {
        self.key = signer.keys().public_hex();
        self.signature = signer.sign(self.members());
        self
    }

    /// Reads a signed head. Its signature must be of the key that it names; whose key that is, is
    /// for the caller to know.
    pub fn parse(body: &str) -> Result<Self, CheckpointError> {
        let map = object(body)?;
        let key = text(&map, "key")?;
        VerifyKeys::public(&key)?.check(body)?;
        Ok(Self {
            // Its own name, so that a checkpoint can't be passed off as a signed head.
            sequence: number(&map, "anchor")?,
            hash: text(&map, "head")?,
            at: number(&map, "at")?,
            install: text(&map, "install")?,
            boot: map.get("boot").and_then(Value::as_str).map(str::to_owned),
            key,
            signature: text(&map, "signature")?,
        })
    }

    /// One line of canonical JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        signed_json(self.members(), &self.key, &self.signature)
    }

    fn members(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("anchor".to_owned(), self.sequence.into());
        map.insert("at".to_owned(), self.at.into());
        if let Some(boot) = &self.boot {
            map.insert("boot".to_owned(), boot.clone().into());
        }
        map.insert("head".to_owned(), self.hash.clone().into());
        map.insert("install".to_owned(), self.install.clone().into());
        map
    }
}

/// An event that a log must contain, because a place outside the log says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// The event's place.
    pub sequence: u64,
    /// Its hash.
    pub hash: String,
    /// The key that signed it, if it is signed.
    pub key: Option<String>,
    /// Where it was kept, in words.
    pub place: String,
    /// Whether the log may have lost it with the power of the machine.
    pub may_be_lost: bool,
}

impl Anchor {
    /// A head that was kept without its signature.
    #[must_use]
    pub fn new(sequence: u64, hash: impl Into<String>) -> Self {
        Self {
            sequence,
            hash: hash.into(),
            key: None,
            place: "the anchor".to_owned(),
            may_be_lost: false,
        }
    }

    /// A signed head that was found in a place.
    #[must_use]
    pub fn signed(head: &SignedHead, place: impl Into<String>) -> Self {
        Self {
            sequence: head.sequence,
            hash: head.hash.clone(),
            key: Some(head.key.clone()),
            place: place.into(),
            may_be_lost: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_head_survives_its_text_and_no_change_to_it() {
        let signer = Signer::new(&[1; 32]);
        let head = SignedHead {
            sequence: 7,
            hash: "aa".to_owned(),
            at: 5,
            install: "here".to_owned(),
            boot: Some("b".to_owned()),
            key: String::new(),
            signature: String::new(),
        };
        let head = head.sign(&signer);
        let body = head.to_json();
        assert_eq!(SignedHead::parse(&body), Ok(head));
        for (from, to) in
            [("\"anchor\":7", "\"anchor\":6"), ("\"aa\"", "\"ab\""), ("here", "there")]
        {
            assert!(body.contains(from), "{from}");
            let changed = SignedHead::parse(&body.replace(from, to));
            assert_eq!(changed, Err(CheckpointError::Signature), "{from}");
        }
        let renamed = body.replace("\"anchor\"", "\"sequence\"");
        assert_eq!(SignedHead::parse(&renamed), Err(CheckpointError::Signature));
    }
}
