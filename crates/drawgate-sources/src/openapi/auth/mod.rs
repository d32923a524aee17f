//! Credentials: which of them an operation needs, and where they stand in a request.

pub(super) mod config;
mod token;

use std::collections::BTreeMap;

pub(super) use config::resolve;
pub use config::{AuthConfig, ClientAuthentication, ClientCredentials, Credential, Password};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::Value;
pub(super) use token::{TokenClient, TokenError};
use url::Url;

use super::document::shown;
use super::parameter::Place;
use super::request::Draft;
use crate::reserved::is_of_gateway;

/// Schemes that are needed together, each with its scopes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Requirement(pub(super) BTreeMap<String, Vec<String>>);

impl Requirement {
    /// The alternatives that a document states.
    pub(super) fn list(stated: Option<&Value>) -> Vec<Self> {
        let scopes = |value: &Value| -> Vec<String> {
            let list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            list.map(str::to_owned).collect()
        };
        let one = |map: &serde_json::Map<String, Value>| {
            Self(map.iter().map(|(name, value)| (name.clone(), scopes(value))).collect())
        };
        let list = stated.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_object).map(one).collect()
    }
}

/// A configured credential, ready to be put into requests.
pub(super) enum Guard {
    Header(HeaderName, HeaderValue),
    /// An encoded `name=value` pair.
    Query(String),
    /// An encoded `name=value` pair.
    Cookie(String),
    /// A token that is fetched when it is needed.
    Client(Box<TokenClient>),
}

/// All credentials of a connector.
#[derive(Default)]
pub(super) struct Guards {
    by_scheme: BTreeMap<String, Guard>,
    /// Schemes whose header the connector's own `headers` hold.
    by_header: Vec<String>,
    /// What every scheme of the document is, in words.
    kinds: BTreeMap<String, &'static str>,
}

/// The credentials for one operation.
pub(super) type Chosen<'a> = Vec<(&'a Guard, &'a [String])>;

impl Guards {
    /// The first alternative that is configured. An operation that may be called without any takes
    /// what there is all the same.
    pub(super) fn choose<'a>(&'a self, needed: &'a [Requirement]) -> Result<Chosen<'a>, String> {
        let is_met = |requirement: &&Requirement| {
            requirement.0.keys().all(|scheme| {
                self.by_scheme.contains_key(scheme) || self.by_header.contains(scheme)
            })
        };
        let named = needed.iter().filter(|requirement| !requirement.0.is_empty());
        let free = needed.iter().filter(|requirement| requirement.0.is_empty());
        match named.chain(free).find(is_met) {
            Some(requirement) => Ok(requirement
                .0
                .iter()
                .filter_map(|(name, scopes)| Some((self.by_scheme.get(name)?, scopes.as_slice())))
                .collect()),
            None if needed.is_empty() => Ok(Vec::new()),
            None => Err(self.missing(needed)),
        }
    }

    /// Where tokens are fetched.
    pub(super) fn token_addresses(&self) -> impl Iterator<Item = &Url> {
        self.by_scheme.values().filter_map(|guard| match guard {
            Guard::Client(client) => Some(client.url()),
            Guard::Header(..) | Guard::Query(_) | Guard::Cookie(_) => None,
        })
    }

    fn missing(&self, needed: &[Requirement]) -> String {
        let describe = |name: &String| {
            let kind = self.kinds.get(name).copied().unwrap_or("not in the document");
            format!("`{}` ({kind})", shown(name))
        };
        let alternative = |requirement: &Requirement| {
            requirement.0.keys().map(describe).collect::<Vec<_>>().join(" with ")
        };
        let alternatives: Vec<String> = needed.iter().map(alternative).collect();
        format!(
            "this operation needs credentials that are not configured: {}; set them under `auth` of the connector",
            alternatives.join(", or ")
        )
    }
}

/// Puts the credentials in; those that are fetched must be there already.
pub(super) fn apply(guard: &Guard, token: Option<HeaderValue>, draft: &mut Draft) {
    match guard {
        Guard::Header(name, value) => {
            draft.headers.insert(name.clone(), value.clone());
        }
        Guard::Query(pair) => draft.query.push(pair.clone()),
        Guard::Cookie(pair) => draft.cookies.push(pair.clone()),
        Guard::Client(_) => {
            draft.headers.extend(token.map(|token| (header::AUTHORIZATION, token)));
        }
    }
}

/// What a scheme of the document asks for.
pub(super) enum Scheme {
    Key(Place, String),
    Bearer,
    Basic,
    /// With the address of its token endpoint, if the document has one for client credentials.
    OAuth(Option<String>),
    Other(&'static str),
}

impl Scheme {
    pub(super) fn of(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        match text("type").unwrap_or_default() {
            "apiKey" => match (text("in").and_then(Place::parse), text("name")) {
                (Some(place @ (Place::Query | Place::Header | Place::Cookie)), Some(name)) => {
                    Self::Key(place, name.to_owned())
                }
                _ => Self::Other("an API key in an unknown place"),
            },
            "http" => match text("scheme").unwrap_or_default().to_ascii_lowercase().as_str() {
                "bearer" => Self::Bearer,
                "basic" => Self::Basic,
                _ => Self::Other("an HTTP scheme that is not supported"),
            },
            "oauth2" => {
                let token = value.pointer("/flows/clientCredentials/tokenUrl");
                Self::OAuth(token.and_then(Value::as_str).map(str::to_owned))
            }
            "openIdConnect" => Self::OAuth(None),
            "mutualTLS" => Self::Other("client certificates, which are not supported"),
            _ => Self::Other("a scheme that is not supported"),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Key(Place::Query, _) => "API key in the query",
            Self::Key(Place::Cookie, _) => "API key in a cookie",
            Self::Key(Place::Header | Place::Path, _) => "API key in a header",
            Self::Bearer => "bearer token",
            Self::Basic => "user name and password",
            Self::OAuth(_) => "OAuth 2.0",
            Self::Other(kind) => kind,
        }
    }

    /// Where it stands, for what callers must not set.
    pub(super) fn place(&self) -> Option<(Place, String)> {
        match self {
            Self::Key(Place::Header, name) => Some((Place::Header, name.to_ascii_lowercase())),
            Self::Key(place, name) => Some((*place, name.clone())),
            Self::Bearer | Self::Basic | Self::OAuth(_) => {
                Some((Place::Header, header::AUTHORIZATION.as_str().to_owned()))
            }
            Self::Other(_) => None,
        }
    }

    /// Why no credential can be sent for it.
    fn fault(&self) -> Option<String> {
        match self {
            Self::Key(Place::Header, name) => header_name(name).err(),
            Self::Other(kind) => Some(format!("the scheme is {kind}")),
            Self::Key(Place::Query | Place::Cookie | Place::Path, _)
            | Self::Bearer
            | Self::Basic
            | Self::OAuth(_) => None,
        }
    }

    fn is_in(&self, headers: &HeaderMap) -> bool {
        matches!(self.place(), Some((Place::Header, name)) if headers.contains_key(&name))
    }
}

/// The header that a document wants a key in.
fn header_name(name: &str) -> Result<HeaderName, String> {
    let header = HeaderName::try_from(name)
        .map_err(|_| "the scheme's name can't be the name of a header".to_owned())?;
    if is_of_gateway(&header) {
        return Err(format!(
            "the scheme asks for the header `{header}`, which only the gateway sets"
        ));
    }
    Ok(header)
}
