//! `$ref`: only into the document itself.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::shown;

/// How many references may lead to each other before anything else comes.
const MAX_HOPS: usize = 16;

/// Why a reference leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Out of the document.
    #[error("`$ref` to `{}` leads out of the document; bundle the document into one file", shown(.0))]
    Remote(String),
    /// To nothing.
    #[error("`$ref` to `{}` points to nothing", shown(.0))]
    Dangling(String),
    /// To itself.
    #[error("`$ref` to `{}` only leads to other references", shown(.0))]
    Loop(String),
}

/// The value itself, or what it refers to.
pub(in crate::openapi) fn resolve<'a>(
    root: &'a Value,
    value: &'a Value,
) -> Result<&'a Value, ReferenceError> {
    let mut value = value;
    for _ in 0..MAX_HOPS {
        match of(value) {
            None => return Ok(value),
            Some(reference) => value = target(root, reference)?,
        }
    }
    Err(ReferenceError::Loop(of(value).unwrap_or_default().to_owned()))
}

/// The reference that this value is.
pub(in crate::openapi) fn of(value: &Value) -> Option<&str> {
    value.get("$ref").and_then(Value::as_str)
}

/// What a reference points to.
pub(in crate::openapi) fn target<'a>(
    root: &'a Value,
    reference: &str,
) -> Result<&'a Value, ReferenceError> {
    let Some(fragment) = reference.strip_prefix('#') else {
        return Err(ReferenceError::Remote(reference.to_owned()));
    };
    let dangling = || ReferenceError::Dangling(reference.to_owned());
    // Most documents write neither escapes nor percent signs.
    if !fragment.contains('%') {
        return root.pointer(fragment).ok_or_else(dangling);
    }
    let pointer = percent_decode_str(fragment).decode_utf8().map_err(|_| dangling())?;
    root.pointer(&pointer).ok_or_else(dangling)
}
