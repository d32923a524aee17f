//! `[auth]`: an authorization server whose access tokens the gateway takes beside its own.

use std::collections::BTreeMap;

use drawgate_core::model::Capability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::formats::CapabilityText;

/// An OAuth authorization server whose access tokens (JWT) are taken at `/mcp`, beside the tokens
/// of local agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// The server's issuer identifier, exactly as it stands in its tokens.
    pub issuer: String,
    /// What tokens must be meant for. Absent: `server.public_url` and `/mcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Where the server publishes its keys. Absent: as its metadata says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// What each scope of a token allows. A scope that is not here allows nothing.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Vec<CapabilityText>>")]
    pub scopes: BTreeMap<String, Vec<Capability>>,
    /// The claim that says who calls.
    #[serde(default = "subject")]
    pub principal_claim: String,
    /// What the names of such callers begin with, so that none can be taken for a local agent.
    #[serde(default = "prefix")]
    pub principal_prefix: String,
    /// The signatures that are taken.
    #[serde(default = "all")]
    pub algorithms: Vec<Algorithm>,
}

/// How a token is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Algorithm {
    /// RSA of 2048 to 8192 bits, PKCS #1 v1.5, with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl Algorithm {
    /// As in the header of a token.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

fn subject() -> String {
    "sub".to_owned()
}

fn prefix() -> String {
    "oauth-".to_owned()
}

fn all() -> Vec<Algorithm> {
    vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa]
}
