//! Where requests go.

use drawgate_host::egress::address::{self, AddressError};
use serde_json::{Map, Value};
use url::Url;

use super::shown;
use crate::openapi::origins::Stray;

/// Variables that are filled in one address.
const MAX_VARIABLES: usize = 32;

/// Why there is no address to send requests to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The document names none.
    #[error(
        "the OpenAPI document names no server; set `base_url`, such as `https://api.example.com`"
    )]
    Absent,
    /// It is relative to where the document came from.
    #[error(
        "the server address `{}` of the OpenAPI document is not absolute; set `base_url`, such as `https://api.example.com`",
        shown(.0)
    )]
    Relative(String),
    /// Not an address for HTTP.
    #[error(
        "`{}` can't be used as the address of an API; use one such as `https://api.example.com/v1`, without user name, query or fragment",
        shown(.0)
    )]
    Address(String),
    /// A variable without a value.
    #[error("the server variable `{}` has no default, or one that is not in its `enum`; set `base_url`", shown(.0))]
    Variable(String),
    /// A document that was fetched leads away.
    #[error("{0}; {advice}", advice = .0.advice())]
    Stray(Stray),
}

/// The first server. A relative address counts from where the document was fetched.
pub(super) fn first(servers: Option<&Value>, beside: Option<&Url>) -> Result<Url, ServerError> {
    let server = servers.and_then(Value::as_array).and_then(|list| list.first());
    let (text, variables) = match server {
        Some(server) => (
            server.get("url").and_then(Value::as_str).ok_or(ServerError::Absent)?,
            server.get("variables").and_then(Value::as_object),
        ),
        // Without `servers`, the specification means the address `/`.
        None if beside.is_some() => ("/", None),
        None => return Err(ServerError::Absent),
    };
    let filled = fill(text, variables)?;
    let is_relative = !filled.contains("://") || filled.starts_with('/');
    match beside {
        Some(beside) if is_relative => {
            usable(address::join(beside, &filled)).map_err(|_| ServerError::Address(filled))
        }
        None if is_relative => Err(ServerError::Relative(filled)),
        Some(_) | None => usable(address::parse(&filled)).map_err(|_| ServerError::Address(filled)),
    }
}

/// An address that paths can be put behind.
pub(in crate::openapi) fn usable(parsed: Result<Url, AddressError>) -> Result<Url, AddressError> {
    match parsed? {
        url if url.query().is_some() => Err(AddressError::Malformed("it has a query")),
        url => Ok(url),
    }
}

/// A path behind an address; the path is encoded already.
pub(in crate::openapi) fn join(base: &Url, path: &str) -> String {
    format!("{}{path}", base.as_str().trim_end_matches('/'))
}

pub(super) fn all(root: &Value) -> Vec<Url> {
    let items = root.get("paths").and_then(Value::as_object).into_iter().flat_map(Map::values);
    let inner = items.filter_map(Value::as_object).flat_map(|item| {
        let operations = item.values().map(|node| node.get("servers"));
        operations.chain([item.get("servers")])
    });
    let servers = inner.chain([root.get("servers")]).flatten();
    let mut found: Vec<Url> = servers.filter_map(|list| first(Some(list), None).ok()).collect();
    found.extend(tokens(root));
    found.sort();
    found.dedup();
    found
}

fn tokens(root: &Value) -> impl Iterator<Item = Url> {
    let schemes = root.pointer("/components/securitySchemes").and_then(Value::as_object);
    schemes.into_iter().flat_map(Map::values).filter_map(|scheme| {
        let text = scheme.pointer("/flows/clientCredentials/tokenUrl")?.as_str()?;
        address::parse(text).ok()
    })
}

fn fill(text: &str, variables: Option<&Map<String, Value>>) -> Result<String, ServerError> {
    let mut filled = text.to_owned();
    for (name, variable) in variables.into_iter().flatten().take(MAX_VARIABLES) {
        let slot = format!("{{{name}}}");
        if !filled.contains(&slot) {
            continue;
        }
        let default = variable.get("default").and_then(scalar);
        let allowed = variable.get("enum").and_then(Value::as_array);
        let value = default.filter(|value| {
            allowed.is_none_or(|list| list.iter().any(|one| scalar(one).as_ref() == Some(value)))
        });
        filled = filled.replace(&slot, &value.ok_or(ServerError::Variable(name.clone()))?);
    }
    match filled.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
        Some((name, _)) => Err(ServerError::Variable(name.to_owned())),
        None => Ok(filled),
    }
}

/// YAML writes a port's default without quotes.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
