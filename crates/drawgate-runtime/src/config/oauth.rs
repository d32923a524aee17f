//! `[servers.NAME.oauth]`: how to log in at a protected server.

use drawgate_sources::setting::Setting;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the gateway comes by tokens for a protected server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// A person agrees in a browser, by `drawgate servers login`.
    #[default]
    AuthorizationCode,
    /// The gateway asks by itself, as the client of `client_id`; no person is needed.
    ClientCredentials,
}

/// How the gateway logs in at a protected server. Everything is found out by itself
/// where the table is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OAuth {
    /// How the gateway comes by tokens.
    pub grant: Grant,
    /// A client that you registered with the authorization server. Absent: the gateway registers
    /// itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its secret, if it has one. Write `env:NAME`.
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Setting>,
    /// The client's key in place of a secret, for `client_credentials`. Write `env:NAME`; the variable
    /// holds a PKCS#8 key in PEM: P-256, RSA or Ed25519.
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<Setting>,
    /// The authorization server that the client is registered with; a login at any other is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Scopes to ask for, instead of those that the server names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The address of a client metadata document, used as the client's id where the authorization
    /// server supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// The port on this machine that the browser is sent back to. Absent: any free one.
    #[schemars(range(min = 1, max = 65_535))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_port: Option<u16>,
}
