//! The form of a signed token (RFC 7515, RFC 7519) and its header, before anything in it is trusted.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use drawgate_core::json;
use serde_json::{Map, Value};

use crate::config::Algorithm;

/// Tokens with many claims exist; longer ones than this would not pass common proxies.
const MAX_JWT: usize = 8 * 1024;

/// Headers by which a token would bring its own key.
const OWN_KEY: [&str; 3] = ["jku", "jwk", "x5u"];

/// Why a token is not taken. The caller hears only that it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// Not three parts, not base64url, not JSON, or too long.
    Form,
    /// A header that is not understood or must not be there.
    Header,
    /// Signed in a way that is not allowed.
    Algorithm,
    /// No key of this name.
    Key,
    /// The signature is not the key's.
    Signature,
    /// From somebody else.
    Issuer,
    /// Meant for somebody else.
    Audience,
    /// It has ended, or does not say when it ends.
    Expired,
    /// It does not hold yet.
    NotYet,
    /// It does not say who calls, or names somebody that it can't.
    Principal,
}

impl Rejection {
    /// For metrics and the audit log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Form => "jwt_form",
            Self::Header => "jwt_header",
            Self::Algorithm => "jwt_algorithm",
            Self::Key => "jwt_key",
            Self::Signature => "jwt_signature",
            Self::Issuer => "jwt_issuer",
            Self::Audience => "jwt_audience",
            Self::Expired => "jwt_expired",
            Self::NotYet => "jwt_not_yet",
            Self::Principal => "jwt_principal",
        }
    }
}

/// A token whose signature has not been looked at.
pub(super) struct Unverified<'a> {
    /// How it says it is signed; one of the allowed ways.
    pub(super) algorithm: Algorithm,
    /// The key's name: text to compare, nothing else.
    pub(super) key: Option<String>,
    /// What is signed.
    pub(super) signed: &'a [u8],
    pub(super) signature: Vec<u8>,
    payload: &'a str,
}

impl<'a> Unverified<'a> {
    /// Reads a token that must be signed in one of the allowed ways.
    pub(super) fn read(token: &'a str, allowed: &[Algorithm]) -> Result<Self, Rejection> {
        if token.len() > MAX_JWT {
            return Err(Rejection::Form);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Rejection::Form)?;
        let (header, payload) = signed.split_once('.').ok_or(Rejection::Form)?;
        if payload.contains('.') {
            return Err(Rejection::Form);
        }
        let header = object(header)?;
        let algorithm = algorithm(&header, allowed)?;
        check_header(&header)?;
        Ok(Self {
            algorithm,
            key: key_name(&header)?,
            signed: signed.as_bytes(),
            signature: bytes(signature)?,
            payload,
        })
    }

    /// What it claims; for callers that have checked the signature.
    pub(super) fn claims(&self) -> Result<Map<String, Value>, Rejection> {
        object(self.payload)
    }
}

/// What is allowed is the operator's word; the token only says which of it applies.
fn algorithm(header: &Map<String, Value>, allowed: &[Algorithm]) -> Result<Algorithm, Rejection> {
    let named = header.get("alg").and_then(Value::as_str).ok_or(Rejection::Algorithm)?;
    let mut allowed = allowed.iter().copied();
    allowed.find(|algorithm| algorithm.as_str() == named).ok_or(Rejection::Algorithm)
}

fn check_header(header: &Map<String, Value>) -> Result<(), Rejection> {
    // We understand no extension, and a critical one must not be passed over.
    if header.contains_key("crit") || OWN_KEY.iter().any(|name| header.contains_key(*name)) {
        return Err(Rejection::Header);
    }
    match header.get("typ") {
        None => Ok(()),
        Some(Value::String(kind)) if is_access_token(kind) => Ok(()),
        Some(_) => Err(Rejection::Header),
    }
}

/// A token of another kind, such as a logout token, is signed with the same keys.
fn is_access_token(kind: &str) -> bool {
    ["at+jwt", "application/at+jwt", "JWT"].iter().any(|known| known.eq_ignore_ascii_case(kind))
}

fn key_name(header: &Map<String, Value>) -> Result<Option<String>, Rejection> {
    match header.get("kid") {
        None => Ok(None),
        Some(Value::String(name)) => Ok(Some(name.clone())),
        Some(_) => Err(Rejection::Header),
    }
}

fn object(part: &str) -> Result<Map<String, Value>, Rejection> {
    match json::parse(&bytes(part)?) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) | Err(_) => Err(Rejection::Form),
    }
}

/// Without padding and with one spelling only, as the standard asks.
fn bytes(part: &str) -> Result<Vec<u8>, Rejection> {
    match URL_SAFE_NO_PAD.decode(part) {
        Ok(bytes) if !bytes.is_empty() => Ok(bytes),
        Ok(_) | Err(_) => Err(Rejection::Form),
    }
}
