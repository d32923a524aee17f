//! What the headers of a request must say: the revision that it follows, and what the body says too.

use std::borrow::Cow;

use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::era::{
    Era, META_CAPABILITIES, META_VERSION, STATELESS, VERSION_HEADER, WITH_SESSIONS, supported,
};
use super::message::{HEADER_MISMATCH, INVALID_PARAMS, RpcError, UNSUPPORTED_VERSION};
use super::method::{Method, MethodName, Need};

const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";

/// Whether the headers and the body matter to each other: not over standard input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Headers {
    Checked,
    Absent,
}

/// Finds the era of a request and checks what that era demands of its headers and metadata.
pub(crate) fn establish(
    method: &MethodName,
    params: &Map<String, Value>,
    headers: &HeaderMap,
    mode: Headers,
) -> Result<Era, RpcError> {
    let header = header(headers, VERSION_HEADER);
    let meta = params.get("_meta").and_then(Value::as_object);
    let claimed = meta.and_then(|meta| meta.get(META_VERSION));
    if claimed.is_none() && header != Some(STATELESS) && !method.is(Method::Discover) {
        return match header {
            Some(version)
                if !method.is(Method::Initialize) && !WITH_SESSIONS.contains(&version) =>
            {
                Err(unsupported(version))
            }
            _ => Ok(Era::Sessions),
        };
    }
    let Some(Value::String(version)) = claimed else {
        return Err(invalid(&format!("`_meta` must hold `{META_VERSION}`")));
    };
    if !meta.and_then(|meta| meta.get(META_CAPABILITIES)).is_some_and(Value::is_object) {
        return Err(invalid(&format!("`_meta` must hold `{META_CAPABILITIES}`")));
    }
    if mode == Headers::Checked {
        check_headers(method, params, headers, version)?;
    }
    if version != STATELESS {
        return Err(unsupported(version));
    }
    Ok(Era::Stateless)
}

fn check_headers(
    method: &MethodName,
    params: &Map<String, Value>,
    headers: &HeaderMap,
    version: &str,
) -> Result<(), RpcError> {
    expect(headers, VERSION_HEADER, version)?;
    expect(headers, METHOD_HEADER, method.as_str())?;
    let named = method.needs().iter().find_map(|need| match need {
        Need::NameHeader(member) => params.get(*member),
        Need::NameHeaderIfSent(member) if headers.contains_key(NAME_HEADER) => params.get(*member),
        Need::NameHeaderIfSent(_)
        | Need::FirstLists
        | Need::Narrowing
        | Need::Reports
        | Need::Outcome => None,
    });
    match named {
        Some(Value::String(name)) => expect(headers, NAME_HEADER, name),
        _ => Ok(()),
    }
}

fn expect(headers: &HeaderMap, name: &str, wanted: &str) -> Result<(), RpcError> {
    match single(headers, name) {
        Ok(Some(value)) if value == wanted => Ok(()),
        Ok(_) | Err(()) => {
            let message = format!("header `{name}` does not match the body");
            Err(RpcError::new(HEADER_MISMATCH, message))
        }
    }
}

/// A header that may be there once, without the form that hides what headers can't hold. An error if
/// it is there twice or can't be read.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<Cow<'a, str>>, ()> {
    let mut all = headers.get_all(name).iter();
    let value = match (all.next(), all.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.to_str().map_err(drop)?.trim(),
        (Some(_), Some(_)) => return Err(()),
    };
    let Some(encoded) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="))
    else {
        return Ok(Some(value.into()));
    };
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded);
    let text = String::from_utf8(bytes.map_err(drop)?).map_err(drop)?;
    Ok(Some(text.into()))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

fn invalid(message: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, message)
}

fn unsupported(version: &str) -> RpcError {
    let shown = drawgate_core::model::shown_name(version);
    RpcError::new(UNSUPPORTED_VERSION, format!("protocol version `{shown}` is not supported"))
        .with_data(json!({ "supported": supported(), "requested": shown }))
}
