//! What a token must claim, and the caller that it makes.

use std::sync::Arc;

use drawgate_core::model::{CapabilityGrant, GrantScope, Principal};
use serde_json::{Map, Value};

use super::Identity;
use super::jwt::Rejection;
use crate::config::Auth;

/// Clocks differ; this much is forgiven.
const LEEWAY_SECONDS: u64 = 60;
/// The end of the year 9999. A later time is a mistake or an attempt.
const LATEST_SECONDS: u64 = 253_402_300_799;
/// Prefix of the ids of grants that came with a token.
const GRANT_PREFIX: &str = "oauth:";

/// Turns the claims of a token whose signature holds into a caller.
pub(super) fn identity(
    claims: &Map<String, Value>,
    auth: &Auth,
    audience: &str,
    now_ms: u64,
) -> Result<Identity, Rejection> {
    if claims.get("iss").and_then(Value::as_str) != Some(&auth.issuer) {
        return Err(Rejection::Issuer);
    }
    if !is_for(claims.get("aud"), audience) {
        return Err(Rejection::Audience);
    }
    let now = now_ms / 1000;
    let end = claims.get("exp").and_then(seconds).ok_or(Rejection::Expired)? + LEEWAY_SECONDS;
    if now >= end {
        return Err(Rejection::Expired);
    }
    if let Some(begin) = claims.get("nbf") {
        let begin = seconds(begin).ok_or(Rejection::NotYet)?;
        if begin > now + LEEWAY_SECONDS {
            return Err(Rejection::NotYet);
        }
    }
    let claim = claims.get(&auth.principal_claim).and_then(Value::as_str);
    let principal = principal(&auth.principal_prefix, claim.ok_or(Rejection::Principal)?)?;
    let carried = carried(&scopes(claims), auth, &principal, now_ms, end * 1000);
    Ok(Identity { principal, carried, lineage: None })
}

/// The name of a caller: the prefix and the claim, of which letters, digits, `.` and `-` stay and
/// every other byte becomes `_` and two hexadecimal digits, so that no two claims share a name.
pub(super) fn principal(prefix: &str, claim: &str) -> Result<Principal, Rejection> {
    let local = Principal::local();
    if claim.is_empty() || claim == local.as_str() || claim.chars().any(char::is_control) {
        return Err(Rejection::Principal);
    }
    let mut name = prefix.to_owned();
    for byte in claim.bytes() {
        if byte.is_ascii_alphanumeric() || b".-".contains(&byte) {
            name.push(char::from(byte));
        } else {
            name.push('_');
            name.push_str(&hex::encode([byte]));
        }
    }
    Principal::new(&name).ok().filter(|name| *name != local).ok_or(Rejection::Principal)
}

fn is_for(claim: Option<&Value>, audience: &str) -> bool {
    match claim {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(all)) => all.iter().any(|one| one == audience),
        _ => false,
    }
}

/// A time, perhaps with a fraction, which is dropped.
fn seconds(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the range is checked first"
    )]
    let whole = |fraction: f64| {
        (0.0..=LATEST_SECONDS as f64).contains(&fraction).then_some(fraction as u64)
    };
    value.as_u64().or_else(|| value.as_f64().and_then(whole)).filter(|it| *it <= LATEST_SECONDS)
}

/// `scope` with spaces by RFC 9068, or the `scp` that some servers write instead.
fn scopes(claims: &Map<String, Value>) -> Vec<&str> {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(text)) => text.split(' ').collect(),
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn carried(
    scopes: &[&str],
    auth: &Auth,
    principal: &Principal,
    now_ms: u64,
    end_ms: u64,
) -> Arc<[Arc<CapabilityGrant>]> {
    // By the operator's list, so that a token that repeats itself does not weigh more.
    let known = auth.scopes.iter().filter(|(scope, _)| scopes.contains(&scope.as_str()));
    let grants = known.flat_map(|(scope, capabilities)| {
        capabilities.iter().map(move |capability| {
            Arc::new(CapabilityGrant {
                grant_id: format!("{GRANT_PREFIX}{scope}").into(),
                capability: capability.clone(),
                issued_at: now_ms,
                expires_at: Some(end_ms),
                scope: Some(GrantScope::User(principal.clone())),
                approval_id: None,
            })
        })
    });
    grants.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_one_to_one() {
        let cases = [
            ("alice", Some("oauth-alice")),
            ("auth0|5f7c8ec7", Some("oauth-auth0_7c5f7c8ec7")),
            ("a_b", Some("oauth-a_5fb")),
            ("a_5fb", Some("oauth-a_5f5fb")),
            ("bob@example.org", Some("oauth-bob_40example.org")),
            ("ü", Some("oauth-_c3_bc")),
            ("", None),
            ("local", None),
            ("a\nb", None),
            ("a\u{85}b", None),
        ];
        for (claim, name) in cases {
            assert_eq!(principal("oauth-", claim).ok().as_ref().map(Principal::as_str), name);
        }
        assert!(principal("oauth-", &"a".repeat(58)).is_ok());
        assert!(principal("oauth-", &"a".repeat(59)).is_err());
        assert!(principal("lo", "cal").is_err());
    }

    #[test]
    fn times_are_whole_seconds_in_range() {
        use serde_json::json;
        let cases = [
            (json!(0), Some(0)),
            (json!(1_700_000_000.9), Some(1_700_000_000)),
            (json!(LATEST_SECONDS), Some(LATEST_SECONDS)),
            (json!(LATEST_SECONDS + 1), None),
            (json!(u64::MAX), None),
            (json!(1e300), None),
            (json!(-1), None),
            (json!("1700000000"), None),
            (json!(null), None),
        ];
        for (value, expected) in cases {
            assert_eq!(seconds(&value), expected, "{value}");
        }
    }
}
