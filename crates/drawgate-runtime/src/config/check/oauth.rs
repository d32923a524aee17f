//! Checks of `[servers.NAME.oauth]`.

use drawgate_sources::server::{ServerKind, Transport};

use super::check_url;
use crate::config::Config;
use crate::config::oauth::{Grant, OAuth};
use crate::config::problem::Problem;
use crate::config::servers::Server;
use crate::config::tree::{child, element};

/// Everything that is wrong with a server's login.
pub(super) fn check(config: &Config, table: &str, server: &Server, found: &mut Vec<Problem>) {
    let Some(oauth) = &server.oauth else { return };
    let key = child(table, "oauth");
    let kind = config.kinds.server(server.protocol.as_str());
    let reachable = match server.connection.transport() {
        Transport::StreamableHttp | Transport::Sse => kind.is_some_and(ServerKind::has_logins),
        Transport::Stdio | Transport::Websocket => false,
    };
    if !reachable {
        let message = "`oauth` is for servers that speak MCP over HTTP";
        found.push(Problem::error(&key, message).hint("remove it"));
    }
    if server.connection.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
        let message = "`oauth` has no effect beside an `Authorization` header";
        found.push(Problem::error(&key, message).hint("remove one of the two"));
    }
    check_client(&key, oauth, found);
    match oauth.grant {
        Grant::AuthorizationCode => check_attended(&key, oauth, found),
        Grant::ClientCredentials => check_unattended(&key, oauth, found),
    }
    for (index, scope) in oauth.scopes.iter().enumerate() {
        let legal = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        if scope.is_empty() || !scope.bytes().all(legal) {
            let message = format!("`{}` is not a scope", scope.escape_debug());
            let hint = "write each scope as one text, without spaces";
            let key = element(&child(&key, "scopes"), index);
            found.push(Problem::error(key, message).hint(hint));
        }
    }
}

fn check_client(table: &str, oauth: &OAuth, found: &mut Vec<Problem>) {
    for (name, value) in
        [("client_secret", &oauth.client_secret), ("private_key", &oauth.private_key)]
    {
        let key = child(table, name);
        if value.as_ref().is_some_and(|value| value.variable().is_none()) {
            let message = format!("`{name}` must be a reference to the environment");
            found.push(Problem::error(&key, message).hint("write `env:NAME`"));
        }
        if value.is_some() && oauth.client_id.is_none() {
            let message = format!("`{name}` has no meaning without `client_id`");
            found.push(Problem::error(&key, message).hint("add it"));
        }
    }
    if let Some(url) = &oauth.client_metadata_url {
        let key = child(table, "client_metadata_url");
        let path = url.strip_prefix("https://").and_then(|rest| rest.split_once('/'));
        if path.is_none_or(|(_, path)| path.is_empty()) {
            let message = format!("`{}` can't be a client's id", url.escape_debug());
            found.push(Problem::error(key, message).hint("write `https://host/path`"));
        } else {
            check_url(&key, url, found);
        }
    }
    match &oauth.issuer {
        Some(issuer) => check_url(&child(table, "issuer"), issuer, found),
        None if oauth.client_secret.is_some() => {
            let message = "without `issuer` the client's secret goes to whichever authorization server the server names first";
            let hint = "set `issuer` to the one that you registered the client at";
            found.push(Problem::warning(child(table, "client_secret"), message).hint(hint));
        }
        None => {}
    }
}

fn check_attended(table: &str, oauth: &OAuth, found: &mut Vec<Problem>) {
    if oauth.private_key.is_some() {
        let message = "`private_key` is for the grant `client_credentials` only";
        let hint = "set `grant`, or use `client_secret`";
        found.push(Problem::error(child(table, "private_key"), message).hint(hint));
    }
}

fn check_unattended(table: &str, oauth: &OAuth, found: &mut Vec<Problem>) {
    let grant = child(table, "grant");
    let proofs =
        usize::from(oauth.client_secret.is_some()) + usize::from(oauth.private_key.is_some());
    if oauth.client_id.is_none() && proofs == 0 {
        let message = "the grant `client_credentials` needs `client_id`";
        found.push(Problem::error(&grant, message).hint("add the client that you registered"));
    }
    if proofs != 1 {
        let message =
            "the grant `client_credentials` needs either `client_secret` or `private_key`";
        found.push(Problem::error(&grant, message).hint("set one of the two to `env:NAME`"));
    }
    let idle = [
        ("client_metadata_url", oauth.client_metadata_url.is_some()),
        ("redirect_port", oauth.redirect_port.is_some()),
    ];
    for (name, _) in idle.into_iter().filter(|(_, set)| *set) {
        let message = format!("`{name}` has no meaning with the grant `client_credentials`");
        found.push(Problem::error(child(table, name), message).hint("remove it"));
    }
}
