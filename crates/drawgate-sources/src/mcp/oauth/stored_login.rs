//! What is kept of a login, and how it is sealed: the only place where secrets of a login become
//! bytes.

use drawgate_core::model::SourceId;
use drawgate_core::secret::Secret;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::error::LoginError;
use super::login::Grant;
use super::registration::Client;
use super::tokens::Tokens;
use drawgate_host::seal::SealingKey;

/// The kind of the documents.
pub(super) const KIND: &str = "oauth";

/// A login, current or expired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredLogin {
    /// The address of the protected server. Its tokens are for no other.
    pub(super) url: String,
    /// What the server calls itself.
    pub(super) resource: String,
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) client: Client,
    /// How its tokens came about.
    #[serde(default)]
    pub(super) grant: Grant,
    /// `None` once the login has expired.
    pub(super) tokens: Option<Tokens>,
    /// What the login allows.
    pub(super) scopes: Vec<String>,
    /// What a request lacked.
    pub(super) lacking: Vec<String>,
}

impl StoredLogin {
    /// The document for the store.
    pub(super) fn seal(&self, id: &SourceId, key: &SealingKey) -> Result<Value, LoginError> {
        let bytes = serde_json::to_vec(self).map_err(|_| drawgate_host::seal::SealError)?;
        let sealed = key.seal(&context(id, &self.issuer), bytes)?;
        Ok(json!({ "issuer": self.issuer, "sealed": sealed }))
    }

    /// What a document holds; `None` if it is not ours, or was changed.
    pub(super) fn open(document: &Value, id: &SourceId, key: &SealingKey) -> Option<Self> {
        let issuer = document.get("issuer")?.as_str()?;
        let bytes = key.open(&context(id, issuer), document.get("sealed")?.as_str()?)?;
        let kept: Self = serde_json::from_slice(&bytes).ok()?;
        (kept.issuer == issuer).then_some(kept)
    }
}

fn context(id: &SourceId, issuer: &str) -> Vec<u8> {
    format!("drawgate oauth\0{id}\0{issuer}").into_bytes()
}

/// A secret in what is about to be sealed.
pub(super) mod exposed {
    use super::{Deserialize, Deserializer, Secret, Serializer};

    pub(in crate::mcp::oauth) fn serialize<S: Serializer>(
        secret: &Secret<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(in crate::mcp::oauth) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Secret<String>, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

/// The same for one that may be missing.
pub(super) mod exposed_option {
    use super::{Deserialize, Deserializer, Secret, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(in crate::mcp::oauth) fn serialize<S: Serializer>(
        secret: &Option<Secret<String>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(serializer)
    }

    pub(in crate::mcp::oauth) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Secret<String>>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}
