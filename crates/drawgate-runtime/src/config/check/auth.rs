//! Checks of `[auth]` and of the address by which the gateway is known.

use drawgate_core::model::Principal;

use super::check_url;
use crate::config::auth::Auth;
use crate::config::problem::Problem;
use crate::config::tree::child;
use crate::config::{Config, Endpoint};

/// Longest prefix of principals: half of a name, so that the rest has room.
const MAX_PREFIX: usize = 32;

/// Everything that is wrong with one section.
pub(super) fn check(config: &Config, auth: &Auth, found: &mut Vec<Problem>) {
    check_issuer(&auth.issuer, found);
    if let Some(url) = &auth.jwks_url {
        check_key_url("auth.jwks_url", url, found);
    }
    if auth.audience.as_deref().is_some_and(|audience| audience.trim().is_empty()) {
        let message = "`audience` is empty";
        found.push(Problem::error("auth.audience", message).hint("name it, or remove the key"));
    }
    if auth.algorithms.is_empty() {
        let message = "without `algorithms` no token would be taken";
        found.push(Problem::error("auth.algorithms", message).hint("name one, or remove the key"));
    }
    if auth.principal_claim.is_empty() {
        let message = "`principal_claim` is empty";
        found.push(Problem::error("auth.principal_claim", message).hint("name a claim"));
    }
    check_prefix(&auth.principal_prefix, found);
    for scope in auth.scopes.keys().filter(|scope| !is_scope(scope)) {
        let message = format!("`{}` is not a scope", scope.escape_debug());
        let hint = "use printable ASCII without space, `\"` and `\\`";
        found.push(Problem::error(child("auth.scopes", scope), message).hint(hint));
    }
    if config.server.public_url.is_none() && !config.listen.ip().is_loopback() {
        let message = "clients can't tell which address tokens must be meant for";
        let hint = "set `server.public_url`, such as `https://gateway.example`";
        found.push(Problem::warning("auth", message).hint(hint));
    }
}

/// Requests to a public name are refused unless it is an allowed host.
pub(super) fn check_public_url(server: &Endpoint, found: &mut Vec<Problem>) {
    let Some(url) = &server.public_url else { return };
    let authority = url.split_once("://").map_or(url.as_str(), |(_, authority)| authority);
    let uri = url.parse::<http::Uri>().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let known = |allowed: &String| {
        allowed.eq_ignore_ascii_case(authority) || allowed.eq_ignore_ascii_case(host)
    };
    if !is_loopback(host) && !server.allowed_hosts.iter().any(known) {
        let message = format!("requests addressed to `{}` are refused", host.escape_debug());
        let hint = "add it to `server.allowed_hosts`";
        found.push(Problem::warning("server.public_url", message).hint(hint));
    }
}

fn check_issuer(issuer: &str, found: &mut Vec<Problem>) {
    if issuer.contains(['?', '#']) {
        let message = "an issuer has neither query nor fragment";
        let hint = "write it as it stands in the `iss` of tokens";
        found.push(Problem::error("auth.issuer", message).hint(hint));
    }
    check_key_url("auth.issuer", issuer, found);
}

/// Whoever can change what comes from there can make tokens.
fn check_key_url(key: &str, url: &str, found: &mut Vec<Problem>) {
    let before = found.len();
    check_url(key, url, found);
    let uri = url.parse::<http::Uri>().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    if found.len() == before && !url.starts_with("https://") && !is_loopback(host) {
        let message = format!("keys would come from `{}` in clear", host.escape_debug());
        found.push(Problem::error(key, message).hint("use `https://`"));
    }
}

fn check_prefix(prefix: &str, found: &mut Vec<Problem>) {
    if Principal::new(prefix).is_err() || prefix.len() > MAX_PREFIX {
        let message = format!("`{}` can't begin the name of a caller", prefix.escape_debug());
        let hint = "use 1 to 32 of `a-z A-Z 0-9 _ - .`, not beginning with `-` or `.`";
        found.push(Problem::error("auth.principal_prefix", message).hint(hint));
    }
}

/// A scope token by RFC 6749, section 3.3.
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
