//! What several kinds of source have in their configuration: commands, addresses, headers.
//!
//! References to the environment are followed here, so that a missing variable is reported when the
//! configuration is read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use drawgate_host::egress::address::{AddressError, parse, to_uri};
use drawgate_host::egress::{Admission, Reach};
use drawgate_host::process::Spawn;
use drawgate_host::secrets::{NOT_IN_COMMAND_LINES, Resolved, Secrets, has_reference};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::confine::rules;
use crate::kind::ConfigError;
use crate::reserved::{folded, is_of_gateway};
use crate::setting::Setting;

/// Refuses a field that the configuration's other fields make meaningless.
pub(crate) fn unused(
    field: &'static str,
    present: bool,
    why: &'static str,
) -> Result<(), ConfigError> {
    if present { Err(ConfigError::Unused { field, why }) } else { Ok(()) }
}

/// A command; references in its environment have been followed.
pub(crate) fn spawn(
    command: &str,
    args: &[String],
    env: &BTreeMap<String, Setting>,
    working_dir: Option<PathBuf>,
    secrets: &Secrets,
) -> Result<Spawn, ConfigError> {
    let program = word("command", command)?;
    let args = args.iter().map(|arg| word("args", arg)).collect::<Result<_, ConfigError>>()?;
    let env = env
        .iter()
        .map(|(name, value)| {
            let resolved = resolve(&format!("env.{name}"), value.expose(), secrets)?;
            Ok((name.clone(), resolved.expose().to_owned()))
        })
        .collect::<Result<_, ConfigError>>()?;
    Ok(Spawn { program, args, env, working_dir, ..Spawn::default() })
}

/// A word of a command line, which holds no secret.
fn word(field: &str, text: &str) -> Result<String, ConfigError> {
    if has_reference(text) {
        return Err(ConfigError::value(field, NOT_IN_COMMAND_LINES));
    }
    Ok(text.to_owned())
}

/// An absolute `http` or `https` address.
pub(crate) fn uri(text: &str, secrets: &Secrets) -> Result<Uri, ConfigError> {
    address(text, secrets, "not an address; use one such as `http://127.0.0.1:3000/mcp`")
}

/// An absolute `ws` or `wss` address, as the `http` or `https` address that the connection begins
/// with.
pub(crate) fn websocket_uri(text: &str, secrets: &Secrets) -> Result<Uri, ConfigError> {
    const BAD: &str = "not an address; use one such as `ws://127.0.0.1:3000/mcp`";
    let resolved = resolve("url", text, secrets)?;
    let (scheme, rest) = resolved.expose().split_once("://").unwrap_or_default();
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "ws" => "http",
        "wss" => "https",
        _ => return Err(ConfigError::value("url", BAD)),
    };
    address(&format!("{scheme}://{rest}"), secrets, BAD)
}

fn address(text: &str, secrets: &Secrets, advice: &'static str) -> Result<Uri, ConfigError> {
    let resolved = resolve("url", text, secrets)?;
    let parsed = parse(resolved.expose()).and_then(|url| to_uri(&url));
    parsed.map_err(|error| match error {
        AddressError::Userinfo => {
            ConfigError::value("url", "must not contain a user name or password; use `headers`")
        }
        AddressError::Scheme(_) | AddressError::Malformed(_) | AddressError::Port => {
            ConfigError::value("url", advice)
        }
    })
}

/// Whom requests to an address may reach: its own host, wherever that is, since the operator wrote it;
/// or, for an address that the operator did not write, what the hosts beside it admit.
pub(crate) fn reach(uri: &Uri, hosts: Option<&[String]>) -> Result<Reach, ConfigError> {
    let Some(hosts) = hosts else { return Ok(Reach::own(uri)) };
    let reach = Reach::only(rules(hosts, false)?);
    let host = uri.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(usual);
    if reach.admits(bare, port) == Admission::Refused {
        let reason = format!("`{host}:{port}` of `url` is not among them; add it");
        return Err(ConfigError::value("hosts", reason));
    }
    Ok(reach)
}

/// Headers, marked so that they don't show in logs. The gateway sends none that is reserved.
pub(crate) fn headers<'a>(
    configured: impl Iterator<Item = (&'a str, &'a str)>,
    is_reserved: fn(&HeaderName) -> bool,
    secrets: &Secrets,
) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    for (name, value) in configured {
        let field = format!("headers.{name}");
        let resolved = resolve(&field, value, secrets)?;
        if let (Resolved::Secret(_), Some((_, token))) =
            (&resolved, resolved.expose().split_once(' '))
        {
            // A server that repeats `Bearer abc` often repeats only `abc`.
            secrets.remember(token.trim());
        }
        let header = HeaderName::try_from(name).ok().filter(|header| !is_reserved(header));
        let header = header.ok_or_else(|| {
            ConfigError::value(&field, "the gateway can't send a header of this name")
        })?;
        let mut value = HeaderValue::try_from(resolved.expose())
            .map_err(|_| ConfigError::value(&field, "the value can't stand in a header"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Headers that the gateway or the protocol itself needs.
pub(crate) fn is_reserved(header: &HeaderName) -> bool {
    let name = folded(header.as_str());
    is_of_gateway(header)
        || ["mcp-", "sec-websocket-"].iter().any(|prefix| name.starts_with(prefix))
        || ["accept", "last-event-id"].contains(&name.as_str())
}

/// The value that a text holds or refers to.
pub(crate) fn resolve(field: &str, text: &str, secrets: &Secrets) -> Result<Resolved, ConfigError> {
    secrets.resolve(text).map_err(|error| ConfigError::variable(field, error))
}
