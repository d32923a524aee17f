//! What an operator writes about credentials.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drawgate_host::egress::address;
use drawgate_host::secrets::Secrets;
use http::{HeaderMap, HeaderValue, header};
use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use super::token::{Client, TokenClient};
use super::{Guard, Guards, Scheme, header_name};
use crate::kind::ConfigError;
use crate::openapi::document::{Document, meant, reference};
use crate::openapi::origins::Origins;
use crate::openapi::parameter::Place;
use crate::openapi::request::unreserved;
use crate::suggest::nearest;

/// Credentials by the name of their security scheme in the document.
pub type AuthConfig = BTreeMap<String, Credential>;

/// One credential. Strings of the form `env:NAME` are replaced by that variable's value.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Credential {
    /// An API key or a token; for `basic`, `user:password`.
    Text(String),
    /// For `basic`.
    Password(Password),
    /// For OAuth 2.0 with client credentials.
    Client(ClientCredentials),
}

/// A user name and a password.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Password {
    /// The user name.
    pub username: String,
    /// The password; may be empty.
    #[serde(default)]
    pub password: String,
}

/// A client of an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientCredentials {
    /// The client's id.
    pub client_id: String,
    /// Its secret.
    pub client_secret: String,
    /// The scopes to ask for; those that the operation names, if there are none.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Where tokens are fetched; the document's own address by default.
    pub token_url: Option<String>,
    /// How the client says who it is.
    #[serde(default)]
    pub client_authentication: ClientAuthentication,
}

/// How a client says who it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthentication {
    /// In the `Authorization` header.
    #[default]
    Basic,
    /// In the body of the request.
    Body,
}

/// Follows references in credentials, so that a missing variable shows when configuration is read.
pub(in crate::openapi) fn resolve(
    auth: &AuthConfig,
    secrets: &Secrets,
) -> Result<AuthConfig, ConfigError> {
    let text = |scheme: &str, field: &str, text: &str| -> Result<String, ConfigError> {
        let resolved = secrets.resolve(text);
        let resolved = resolved
            .map_err(|error| ConfigError::variable(format!("auth.{scheme}{field}"), error))?;
        Ok(resolved.expose().to_owned())
    };
    let secret = |scheme: &str, field: &str, given: &str| {
        let value = text(scheme, field, given)?;
        // A secret is one also where it was written into the configuration itself.
        for form in [value.clone(), unreserved(&value)] {
            secrets.remember(&form);
        }
        Ok(value)
    };
    let one = |scheme: &String, credential: &Credential| -> Result<_, ConfigError> {
        let resolved = match credential {
            Credential::Text(given) => Credential::Text(secret(scheme, "", given)?),
            Credential::Password(given) => Credential::Password(Password {
                username: text(scheme, ".username", &given.username)?,
                password: secret(scheme, ".password", &given.password)?,
            }),
            Credential::Client(given) => Credential::Client(ClientCredentials {
                client_id: text(scheme, ".client_id", &given.client_id)?,
                client_secret: secret(scheme, ".client_secret", &given.client_secret)?,
                token_url: match &given.token_url {
                    Some(url) => Some(text(scheme, ".token_url", url)?),
                    None => None,
                },
                ..given.clone()
            }),
        };
        Ok((scheme.clone(), resolved))
    };
    auth.iter().map(|(scheme, credential)| one(scheme, credential)).collect()
}

impl Guards {
    /// Brings credentials and the document's schemes together.
    pub(in crate::openapi) fn of(
        document: &Document,
        auth: &AuthConfig,
        headers: &HeaderMap,
        origins: &Origins<'_>,
        secrets: &Secrets,
    ) -> Result<Self, ConfigError> {
        if let Some((name, reason)) = document.auth_faults(auth).into_iter().next() {
            return Err(ConfigError::value(format!("auth.{name}"), reason));
        }
        let mut guards = Self::default();
        let table = document.scheme_table();
        for (name, value) in table.into_iter().flatten() {
            let scheme = Scheme::of(reference::resolve(document.root(), value).unwrap_or(value));
            guards.kinds.insert(name.clone(), scheme.kind());
            match auth.get(name) {
                Some(credential) => {
                    let guard = guard(&scheme, credential, origins, secrets)
                        .map_err(|reason| ConfigError::value(format!("auth.{name}"), reason))?;
                    guards.by_scheme.insert(name.clone(), guard);
                }
                None if scheme.is_in(headers) => guards.by_header.push(name.clone()),
                None => {}
            }
        }
        Ok(guards)
    }
}

impl Document {
    /// What is wrong with the schemes that credentials are for, by the schemes' names. The credentials
    /// themselves are not looked at.
    #[must_use]
    pub fn auth_faults(&self, auth: &AuthConfig) -> Vec<(String, String)> {
        let unknown = |name: &str| {
            let known = self.scheme_table().into_iter().flatten().map(|(name, _)| name.as_str());
            let question = meant(nearest(name, known));
            Some(format!("the OpenAPI document has no security scheme of this name{question}"))
        };
        let fault =
            |name: &String| self.scheme(name).map_or_else(|| unknown(name), |it| it.fault());
        auth.keys().filter_map(|name| Some((name.clone(), fault(name)?))).collect()
    }

    fn scheme(&self, name: &str) -> Option<Scheme> {
        let value = self.scheme_table()?.get(name)?;
        Some(Scheme::of(reference::resolve(self.root(), value).unwrap_or(value)))
    }
}

fn guard(
    scheme: &Scheme,
    credential: &Credential,
    origins: &Origins<'_>,
    secrets: &Secrets,
) -> Result<Guard, String> {
    match (scheme, credential) {
        (Scheme::Key(Place::Query, name), Credential::Text(key)) => {
            Ok(Guard::Query(format!("{}={}", unreserved(name), unreserved(key))))
        }
        (Scheme::Key(Place::Cookie, name), Credential::Text(key)) => {
            Ok(Guard::Cookie(format!("{}={}", unreserved(name), unreserved(key))))
        }
        (Scheme::Key(_, name), Credential::Text(key)) => {
            Ok(Guard::Header(header_name(name)?, sensitive(key)?))
        }
        (Scheme::Bearer | Scheme::OAuth(_), Credential::Text(token)) => {
            Ok(Guard::Header(header::AUTHORIZATION, sensitive(&format!("Bearer {token}"))?))
        }
        (Scheme::Basic, Credential::Text(both)) => basic(both, secrets),
        (Scheme::Basic, Credential::Password(Password { username, password })) => {
            basic(&format!("{username}:{password}"), secrets)
        }
        (Scheme::OAuth(stated), Credential::Client(client)) => {
            let url = token_url(client.token_url.as_deref(), stated.as_deref(), origins)?;
            Ok(Guard::Client(Box::new(TokenClient::new(Client {
                id: client.client_id.clone(),
                secret: client.client_secret.clone(),
                scopes: client.scopes.clone(),
                authentication: client.client_authentication,
                url,
            }))))
        }
        (Scheme::Other(kind), _) => Err(format!("the scheme is {kind}")),
        (Scheme::Key(..) | Scheme::Bearer, _) => {
            Err("takes one text, such as `env:API_TOKEN`".to_owned())
        }
        (Scheme::Basic, _) => Err("takes `username` and `password`".to_owned()),
        (Scheme::OAuth(_), _) => {
            Err("takes a token, or `client_id` and `client_secret`".to_owned())
        }
    }
}

/// Where tokens are fetched, by what the operator wrote or else by what the document states.
fn token_url(
    written: Option<&str>,
    stated: Option<&str>,
    origins: &Origins<'_>,
) -> Result<Url, String> {
    let text = written.or(stated).ok_or_else(|| {
        "`token_url` is missing; the document has none for client credentials".to_owned()
    })?;
    let url = address::parse(text).map_err(|error| format!("`token_url`: {error}"))?;
    if written.is_none() {
        origins.check(&url).map_err(|stray| format!("{stray}; if it is meant, set `token_url`"))?;
    }
    Ok(url)
}

fn basic(both: &str, secrets: &Secrets) -> Result<Guard, String> {
    let encoded = STANDARD.encode(both);
    secrets.remember(&encoded);
    // A server that repeats credentials may repeat the password alone.
    if let Some((_, password)) = both.split_once(':') {
        secrets.remember(password);
    }
    Ok(Guard::Header(header::AUTHORIZATION, sensitive(&format!("Basic {encoded}"))?))
}

fn sensitive(text: &str) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(text);
    let mut value = value.map_err(|_| "the value can't stand in a header".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}
