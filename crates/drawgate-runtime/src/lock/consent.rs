//! Who agreed that something runs, and when: proved under the key of a data folder.

use drawgate_core::model::Principal;
use drawgate_host::seal::{SealError, SealingKey};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// An operator's consent that something runs with the content that it has.
///
/// A lock can come with a copied project. So a consent counts only with the key of the data folder where
/// it was given, and only for the content that it was given for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consent {
    /// Who agreed.
    pub by: String,
    /// When, by ISO 8601.
    pub at: String,
    /// What only the key of the data folder makes.
    proof: String,
}

/// What a consent is about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The kind of thing.
    pub kind: &'static str,
    /// Its id.
    pub id: &'a str,
    /// The hash of its content.
    pub content_hash: &'a str,
}

impl Consent {
    /// Notes that an operator agrees.
    pub fn give(
        key: &SealingKey,
        subject: Subject<'_>,
        by: &Principal,
        at: String,
    ) -> Result<Self, SealError> {
        let mut consent = Self { by: by.as_str().to_owned(), at, proof: String::new() };
        consent.proof = key.seal(&consent.context(subject), Vec::new())?;
        Ok(consent)
    }

    /// Whether it was given about this, on the data folder with this key.
    #[must_use]
    pub fn is_valid(&self, key: &SealingKey, subject: Subject<'_>) -> bool {
        key.open(&self.context(subject), &self.proof).is_some()
    }

    fn context(&self, Subject { kind, id, content_hash }: Subject<'_>) -> Vec<u8> {
        json!(["drawgate consent 1", kind, id, content_hash, self.by, self.at])
            .to_string()
            .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_for_one_content_on_one_data_folder() {
        let (key, other) = (SealingKey::new(&[1; 32]).unwrap(), SealingKey::new(&[2; 32]).unwrap());
        let subject = Subject { kind: "toolpack", id: "own", content_hash: "sha256:1" };
        let by = Principal::local();
        let consent = Consent::give(&key, subject, &by, "2026-01-01T00:00:00.000Z".into()).unwrap();
        assert!(consent.is_valid(&key, subject));
        assert!(!consent.is_valid(&other, subject), "another data folder");
        for another in [
            Subject { kind: "plugin", ..subject },
            Subject { id: "other", ..subject },
            Subject { content_hash: "sha256:2", ..subject },
        ] {
            assert!(!consent.is_valid(&key, another), "{another:?}");
        }
        for forged in [
            Consent { by: "ann".into(), ..consent.clone() },
            Consent { at: "2027-01-01T00:00:00.000Z".into(), ..consent.clone() },
            Consent { proof: String::new(), ..consent },
        ] {
            assert!(!forged.is_valid(&key, subject), "{forged:?}");
        }
    }
}
