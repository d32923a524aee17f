//! The gateway as an OAuth resource server: what it takes, and what it tells clients about it
//! (RFC 9728).

use std::sync::Arc;

use bytes::Bytes;
use drawgate_host::Host;
use http::HeaderValue;
use serde_json::json;

use super::jwt::Unverified;
use super::keys::Keys;
use super::{Identity, Unauthenticated, claims};
use crate::config::Auth;

/// Where clients look for the metadata of a resource; its path may follow.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// The path of the resource.
const PATH: &str = "/mcp";

/// How the gateway wants to be asked.
const REALM: &str = "Bearer realm=\"drawgate\"";

/// An authorization server whose tokens are taken.
pub struct OAuth {
    auth: Auth,
    audience: String,
    host: Arc<Host>,
    keys: Arc<Keys>,
    metadata: Bytes,
    metadata_url: String,
}

impl OAuth {
    /// Takes tokens for the gateway at `origin`, its scheme and host. The server's keys are fetched
    /// in the background; it need not be there yet.
    #[must_use]
    pub fn new(auth: Auth, origin: &str, host: Arc<Host>) -> Self {
        let resource = format!("{origin}{PATH}");
        let scopes: Vec<&String> = auth.scopes.keys().collect();
        let metadata = json!({
            "resource": resource,
            "authorization_servers": [auth.issuer],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": "Drawgate",
        });
        Self {
            metadata: metadata.to_string().into(),
            metadata_url: format!("{origin}{WELL_KNOWN}{PATH}"),
            audience: auth.audience.clone().unwrap_or(resource),
            keys: Keys::new(&auth, Arc::clone(&host)),
            host,
            auth,
        }
    }

    /// What clients are told about the gateway as a protected resource.
    #[must_use]
    pub fn metadata(&self) -> Bytes {
        self.metadata.clone()
    }

    pub(super) async fn identify(&self, token: &str) -> Result<Identity, Unauthenticated> {
        let token = Unverified::read(token, &self.auth.algorithms);
        let token = token.map_err(Unauthenticated::Rejected)?;
        self.keys.verify(&token).await?;
        let now = self.host.clock.now_ms();
        let identity = token
            .claims()
            .and_then(|claims| claims::identity(&claims, &self.auth, &self.audience, now));
        identity.map_err(Unauthenticated::Rejected)
    }
}

/// Whether clients look there for the metadata of a protected resource.
#[must_use]
pub fn is_metadata_path(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN).is_some_and(|rest| rest.is_empty() || rest == PATH)
}

/// What `WWW-Authenticate` says to somebody who is refused.
#[must_use]
pub fn challenge(oauth: Option<&OAuth>, problem: Unauthenticated) -> HeaderValue {
    let metadata = oauth.map(|oauth| format!(", resource_metadata=\"{}\"", oauth.metadata_url));
    let error = match problem {
        Unauthenticated::Missing => "",
        Unauthenticated::Unknown
        | Unauthenticated::Malformed
        | Unauthenticated::Rejected(_)
        | Unauthenticated::NoKeys => ", error=\"invalid_token\"",
    };
    let text = format!("{REALM}{}{error}", metadata.unwrap_or_default());
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(REALM))
}
