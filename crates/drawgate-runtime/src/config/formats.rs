//! Our own string formats: each a word in the JSON Schema, and a check that says what to write.

use std::borrow::Cow;
use std::net::SocketAddr;

use drawgate_core::model::{Capability, Operation, SourceId, ToolId};
use drawgate_host::egress::HostRule;
use drawgate_host::sandbox::protected;
use drawgate_sources::mcp::method_of;
use drawgate_sources::suggest::nearest;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Checks a string against one of our own formats. The error says what to write instead.
pub(super) fn check_format(format: &str, text: &str) -> Result<(), String> {
    match format {
        "capability" => Capability::new(text).map(drop).map_err(|error| error.to_string()),
        "server-name" => server_name(text),
        "tool-name" => tool_name(text),
        "tool-or-operation" => tool_or_operation(text),
        "socket-address" => socket_address(text),
        "policy-action" => policy_action(text),
        "host-name" => host_name(text),
        "web-origin" => web_origin(text),
        "protected-name" => protected_name(text),
        "host-rule" => text.parse().map(|_: HostRule| ()).map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

fn server_name(text: &str) -> Result<(), String> {
    SourceId::new(text).map_err(|error| error.to_string().replace("source id", "server name"))?;
    if text == "builtin" {
        return Err("`builtin` is the name of the built-in tools; choose another".to_owned());
    }
    Ok(())
}

fn tool_name(text: &str) -> Result<(), String> {
    let any_source = SourceId::new("any").map_err(|error| error.to_string())?;
    ToolId::new(&any_source, text).map(drop).map_err(|error| error.to_string())
}

fn tool_or_operation(text: &str) -> Result<(), String> {
    // A server's tools may have any name.
    if !text.starts_with('@') {
        return Ok(());
    }
    let known = Operation::BESIDE_TOOLS.map(|operation| format!("@{}", method_of(operation)));
    if known.iter().any(|key| key == text) {
        return Ok(());
    }
    let shown = text.escape_debug();
    Err(format!("`{shown}` is not an operation beside tools; use `{}`", known.join("`, `")))
}

fn socket_address(text: &str) -> Result<(), String> {
    let hint = match text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')) {
        Some(port) if port.parse::<u16>().is_ok() => format!("127.0.0.1:{port}"),
        _ if text.parse::<u16>().is_ok() => format!("127.0.0.1:{text}"),
        _ => "127.0.0.1:7700".to_owned(),
    };
    text.parse::<SocketAddr>().map(drop).map_err(|_| {
        format!("`{}` is not an address with a port; write `{hint}`", text.escape_debug())
    })
}

fn policy_action(text: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    let part = |part: &str| !part.is_empty() && part.chars().all(legal);
    let parts: Vec<&str> = text.split('.').collect();
    let good = match parts.as_slice() {
        [first, .., "*"] => part(first) && parts.iter().all(|p| *p == "*" || part(p)),
        [_, _, ..] => parts.iter().all(|p| part(p)),
        [] | [_] => false,
    };
    if good {
        return Ok(());
    }
    Err(format!("`{}` is not a policy action; write one like `mail.send`", text.escape_debug()))
}

fn host_name(text: &str) -> Result<(), String> {
    let authority = text.parse::<http::uri::Authority>();
    if authority.is_ok_and(|authority| !authority.as_str().contains(['@', '*'])) {
        return Ok(());
    }
    let shown = text.escape_debug();
    Err(format!("`{shown}` is not a host name; write `gateway.example` or `gateway.example:8443`"))
}

fn web_origin(text: &str) -> Result<(), String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    if rest.is_some_and(|authority| host_name(authority).is_ok()) {
        return Ok(());
    }
    let shown = text.escape_debug();
    Err(format!(
        "`{shown}` is not an origin; write scheme and host alone, `https://console.example`"
    ))
}

fn protected_name(text: &str) -> Result<(), String> {
    let known = protected::names();
    if known.contains(&text) {
        return Ok(());
    }
    let near = nearest(text, known.iter().copied());
    let hint = near.map_or("write one of those in `docs/sandbox.md`".to_owned(), |near| {
        format!("did you mean `{near}`?")
    });
    Err(format!("`{}` is not a protected name; {hint}", text.escape_debug()))
}

macro_rules! format_type {
    ($(#[$doc:meta])* $name:ident, $format:literal) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schemars::json_schema!({ "type": "string", "format": $format })
            }
        }
    };
}

format_type!(
    /// Stands in the schema for a capability.
    CapabilityText, "capability"
);
format_type!(
    /// Stands in the schema for an address with a port.
    SocketAddress, "socket-address"
);
format_type!(
    /// Stands in the schema for a policy action.
    PolicyAction, "policy-action"
);
format_type!(
    /// Stands in the schema for a host name, perhaps with a port.
    HostName, "host-name"
);
format_type!(
    /// Stands in the schema for the origin of a web page.
    WebOrigin, "web-origin"
);
format_type!(
    /// Stands in the schema for a rule about hosts.
    HostRuleText, "host-rule"
);
format_type!(
    /// Stands in the schema for a protected name.
    ProtectedName, "protected-name"
);
