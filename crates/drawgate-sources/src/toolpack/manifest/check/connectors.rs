//! Connectors: each with what its type needs, and nothing else.

use std::collections::BTreeMap;

use drawgate_core::model::shown_name;
use drawgate_host::egress::Admission;

use super::super::problem::{Sink, element, hint, member};
use super::super::types::{
    Connector, ConnectorKind, McpConnector, OpenapiConnector, PackTransport,
};
use super::Draft;
use super::programs::check_program;
use super::text::{
    address, check_header, check_id, check_reference, check_text, check_value, check_word,
    is_variable_name,
};
use super::variables::check_given;

/// Most arguments, headers and variables of a connector.
const MAX_VALUES: usize = 256;

pub(super) fn check(draft: &Draft, sink: &mut Sink) {
    let mut places: BTreeMap<&str, String> = BTreeMap::new();
    for (index, connector) in draft.connectors.iter().enumerate() {
        let path = element("$.connectors", index);
        let Some(connector) = connector else { continue };
        let id_path = member(&path, "id");
        if !sink.knows(&id_path) {
            check_id(&id_path, &connector.id, sink);
            if let Some(first) = places.get(connector.id.as_str()) {
                let message = format!("the id `{}` is used twice", shown_name(&connector.id));
                sink.add(
                    &id_path,
                    message,
                    hint(format!("the first is {first}; give each its own")),
                );
            } else {
                places.insert(&connector.id, id_path);
            }
        }
        if let Some(description) = &connector.description {
            check_text(&member(&path, "description"), description, sink);
        }
        sections(draft, connector, &path, sink);
    }
}

fn sections(draft: &Draft, connector: &Connector, path: &str, sink: &mut Sink) {
    let (mcp_path, openapi_path) = (member(path, "mcp"), member(path, "openapi"));
    let (needed, other, other_is_there) = match connector.kind {
        ConnectorKind::Mcp => (&mcp_path, &openapi_path, connector.openapi.is_some()),
        ConnectorKind::Openapi => (&openapi_path, &mcp_path, connector.mcp.is_some()),
    };
    if other_is_there {
        let message =
            format!("it has no meaning in a connector of type `{}`", connector.kind.as_str());
        sink.add(other, message, hint("remove it, or change `type`"));
    }
    match (connector.kind, &connector.mcp, &connector.openapi) {
        (ConnectorKind::Mcp, Some(mcp), _) => check_mcp(draft, mcp, &mcp_path, sink),
        (ConnectorKind::Openapi, _, Some(openapi)) => {
            check_openapi(draft, openapi, &openapi_path, sink);
        }
        (ConnectorKind::Mcp, None, _) | (ConnectorKind::Openapi, _, None) => {
            if !sink.knows(needed) {
                let kind = connector.kind.as_str();
                let advice = match connector.kind {
                    ConnectorKind::Mcp => {
                        "add `\"mcp\": { \"transport\": \"stdio\", \"command\": … }`"
                    }
                    ConnectorKind::Openapi => "add `\"openapi\": { \"spec_path\": … }`",
                };
                let message = format!("`{kind}` is missing; a connector of type `{kind}` needs it");
                sink.add(needed, message, hint(advice));
            }
        }
    }
}

fn check_mcp(draft: &Draft, mcp: &McpConnector, path: &str, sink: &mut Sink) {
    let at = |key: &str| member(path, key);
    let stdio_only = [
        ("command", mcp.command.is_some()),
        ("args", !mcp.args.is_empty()),
        ("env", !mcp.env.is_empty()),
        ("working_dir", mcp.working_dir.is_some()),
    ];
    let http_only = [("url", mcp.url.is_some()), ("headers", !mcp.headers.is_empty())];
    match mcp.transport() {
        Some(PackTransport::Stdio) => {
            unused(path, &http_only, "a server with transport `stdio` is a program", sink);
            check_server(draft, mcp, path, sink);
        }
        Some(PackTransport::StreamableHttp) => {
            let why = "a server with transport `streamable_http` is an address";
            unused(path, &stdio_only, why, sink);
            match &mcp.url {
                Some(url) => check_address(draft, &at("url"), url, sink),
                None if sink.knows(&at("url")) => {}
                None => sink.add(
                    &at("url"),
                    "`url` is missing; a server with transport `streamable_http` is reached by it",
                    hint("add one such as `https://mcp.example.com`"),
                ),
            }
        }
        None if sink.knows(path) => {}
        None => sink.add(
            &at("transport"),
            "`transport` is missing",
            hint("use `stdio` with `command`, or `streamable_http` with `url`"),
        ),
    }
    check_headers(&mcp.headers, path, sink);
}

fn unused(path: &str, members: &[(&str, bool)], why: &str, sink: &mut Sink) {
    for (key, _) in members.iter().filter(|(_, present)| *present) {
        sink.add(
            &member(path, key),
            format!("`{key}` has no meaning here; {why}"),
            hint("remove it, or change `transport`"),
        );
    }
}

fn check_server(draft: &Draft, mcp: &McpConnector, path: &str, sink: &mut Sink) {
    let at = |key: &str| member(path, key);
    match mcp.command.as_deref() {
        Some("") => sink.add(&at("command"), "it is empty", hint("name the server's program")),
        Some(command) => {
            check_word(&at("command"), command, sink);
            if !sink.knows(&at("command")) {
                check_program(draft, &at("command"), command, sink);
            }
        }
        None if sink.knows(&at("command")) => {}
        None => sink.add(
            &at("command"),
            "`command` is missing; a server with transport `stdio` is a program",
            hint("name it, such as `node`"),
        ),
    }
    few(&at("args"), mcp.args.len(), sink);
    for (index, arg) in mcp.args.iter().enumerate() {
        check_word(&element(&at("args"), index), arg, sink);
    }
    few(&at("env"), mcp.env.len(), sink);
    for (name, value) in &mcp.env {
        let path = member(&at("env"), name);
        if is_variable_name(name) {
            check_given(&path, name, sink);
        } else {
            let message = format!("`{}` is not a variable's name", shown_name(name));
            sink.add(&path, message, hint("use letters, digits and `_`"));
        }
        check_value(&path, value, sink);
    }
}

fn check_openapi(draft: &Draft, openapi: &OpenapiConnector, path: &str, sink: &mut Sink) {
    let at = |key: &str| member(path, key);
    match (&openapi.spec_path, &openapi.spec_url) {
        (Some(_), Some(_)) => sink.add(
            &at("spec_url"),
            "there are both `spec_path` and `spec_url`",
            hint("keep one of them"),
        ),
        (None, None) if !sink.knows(&at("spec_path")) && !sink.knows(&at("spec_url")) => sink.add(
            path,
            "`spec_path` or `spec_url` is needed",
            hint("give the OpenAPI document as a file of the pack or by its address"),
        ),
        (Some(_), None) | (None, Some(_) | None) => {}
    }
    for (key, url) in openapi.addresses() {
        let path = format!("{path}.{key}");
        match template(url) {
            Some(reason) => sink.add(&path, reason, hint(TEMPLATE_ADVICE)),
            None => check_address(draft, &path, url, sink),
        }
    }
    check_headers(&openapi.headers, path, sink);
    check_auth(openapi, &at("auth"), sink);
}

/// Every string in `auth` may be a reference.
fn check_auth(openapi: &OpenapiConnector, path: &str, sink: &mut Sink) {
    let value = serde_json::to_value(&openapi.auth).unwrap_or_default();
    strings(&value, path, &mut |path, text| {
        check_reference(path, text, sink);
    });
}

fn strings(value: &serde_json::Value, path: &str, look: &mut dyn FnMut(&str, &str)) {
    match value {
        serde_json::Value::String(text) => look(path, text),
        serde_json::Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                strings(item, &element(path, index), look);
            }
        }
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                strings(value, &member(path, key), look);
            }
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

fn check_headers(headers: &BTreeMap<String, String>, path: &str, sink: &mut Sink) {
    let path = member(path, "headers");
    few(&path, headers.len(), sink);
    for (name, value) in headers {
        check_header(&member(&path, name), name, value, sink);
    }
}

fn few(path: &str, count: usize, sink: &mut Sink) {
    if count > MAX_VALUES {
        sink.add(path, format!("{count} are too many"), hint(format!("use at most {MAX_VALUES}")));
    }
}

/// An address, or a reference to one. Addresses of this machine and of private networks must be
/// declared, so that whoever installs the pack reads of them.
const TEMPLATE_ADVICE: &str =
    "write the whole address, or `env:NAME` to take it from the environment";

/// Why an address is a template: nobody fills in what an OpenAPI document's server variables would.
fn template(url: &str) -> Option<String> {
    let (_, rest) = url.split_once('{')?;
    let (name, _) = rest.split_once('}')?;
    Some(format!("`{{{}}}` is not filled in", shown_name(name)))
}

fn check_address(draft: &Draft, path: &str, text: &str, sink: &mut Sink) {
    if !check_reference(path, text, sink) {
        check_declared(draft, path, text, sink);
    }
}

pub(super) fn check_declared(draft: &Draft, path: &str, text: &str, sink: &mut Sink) {
    match address(text) {
        Err(reason) => sink.add(path, reason, None),
        Ok(address) if address.inner => {
            let admitted = draft.reach().admits(&address.host, address.port);
            if admitted != Admission::Anywhere {
                let rule = address.rule();
                let message = format!("`{rule}` is on this machine or in a private network");
                let advice =
                    format!("declare it: `\"permissions\": {{ \"hosts\": [\"{rule}\"] }}`");
                sink.add(path, message, hint(advice));
            }
        }
        Ok(_) => {}
    }
}
