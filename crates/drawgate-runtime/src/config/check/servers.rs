//! Checks of `[servers.NAME]`.

use std::collections::{BTreeMap, BTreeSet};

use drawgate_core::model::{McpToolSpec, SourceId};
use drawgate_core::policy::KNOWN_ACTIONS;
use drawgate_core::registry::{declared_faults, skeleton};
use drawgate_host::sandbox::Profile;
use drawgate_host::secrets::{NOT_IN_COMMAND_LINES, has_reference};
use http::HeaderName;
use serde::Deserialize;

use super::rules::BUILTIN;
use super::{Scheme, check_address, check_timeout};
use crate::config::formats::check_format;
use crate::config::problem::Problem;
use crate::config::servers::Server;
use crate::config::setting::{is_key_shaped, looks_like_secret};
use crate::config::tree::{child, element, is_within};
use crate::config::{Config, declared_terms};
use drawgate_sources::server::{DeclaredRole, DeclaredTools, Transport};
use drawgate_sources::setting::Setting;
use drawgate_sources::shape::list;
use drawgate_sources::suggest::nearest;

/// Headers that the transport sets itself; a second value would break the protocol.
const OWN_HEADERS: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
    "upgrade",
];

/// Ids that look alike would take turns by which of them is there first.
pub(super) fn check_names(config: &Config, found: &mut Vec<Problem>) {
    let mut seen = BTreeMap::from([(skeleton(BUILTIN), BUILTIN)]);
    for name in config.servers.keys().map(SourceId::as_str) {
        if let Some(other) = seen.get(&skeleton(name)) {
            let message = format!("the name `{name}` looks like `{other}`, which is taken");
            let problem = Problem::error(child("servers", name), message);
            found.push(problem.hint("choose another"));
        } else {
            seen.insert(skeleton(name), name);
        }
    }
}

/// Everything that is wrong with one server.
pub(super) fn check(config: &Config, name: &SourceId, server: &Server, found: &mut Vec<Problem>) {
    let table = child("servers", name.as_str());
    check_connection(&table, server, found);
    check_timeout(config, &table, server.limits.timeout_seconds, found);
    check_protocol(config, name, server, found);
    super::oauth::check(config, &table, server, found);
    for (tool, settings) in &server.tools {
        let table = child(&child(&table, "tools"), tool);
        check_timeout(config, &table, settings.limits.timeout_seconds, found);
        if settings.sandbox.is_some() {
            let message = "a server's tools all run in the server's program";
            let hint = "set `sandbox` in the server's own table";
            found.push(Problem::error(child(&table, "sandbox"), message).hint(hint));
        }
        if let Some(action) = &settings.policy_action {
            check_action(config, &child(&table, "policy_action"), action, found);
        }
    }
}

/// What is wrong with how it is reached.
pub(super) fn check_connection(table: &str, server: &Server, found: &mut Vec<Problem>) {
    match server.connection.transport() {
        Transport::Stdio => check_stdio(table, server, found),
        Transport::StreamableHttp | Transport::Sse | Transport::Websocket => {
            check_network(table, server, found);
        }
    }
}

fn check_stdio(table: &str, server: &Server, found: &mut Vec<Problem>) {
    match server.connection.command.as_deref().map(str::trim) {
        None if server.connection.transport.is_none() => {
            let message = format!("[{table}] has neither `command` nor `url`");
            found.push(Problem::error(table, message).hint("add the one that reaches the server"));
        }
        None | Some("") => {
            let message = format!("[{table}] needs `command`");
            found.push(Problem::error(table, message).hint("name the program to start"));
        }
        Some(command) => check_command(table, command, server, found),
    }
    let connection = &server.connection;
    let unused = [("url", connection.url.is_some()), ("headers", !connection.headers.is_empty())];
    refuse_unused(table, Transport::Stdio, &unused, found);
    check_sandbox(table, server, found);
    check_environment(&child(table, "env"), &connection.env, found);
    for (index, arg) in connection.args.iter().enumerate() {
        if has_reference(arg) {
            let key = element(&child(table, "args"), index);
            found.push(Problem::error(key, NOT_IN_COMMAND_LINES));
        }
        if is_key_shaped(arg.rsplit('=').next().unwrap_or(arg)) {
            let message = "the argument looks like a secret, and other users can read arguments";
            let hint = "pass it in `env` as `env:NAME`";
            let key = element(&child(table, "args"), index);
            found.push(Problem::warning(key, message).hint(hint));
        }
    }
}

/// What is allowed must be in force under the profile.
fn check_sandbox(table: &str, server: &Server, found: &mut Vec<Problem>) {
    let profile = server.sandbox.unwrap_or_default();
    let allowed = &server.permissions;
    let paths = !allowed.read.is_empty() || !allowed.write.is_empty();
    let without_effect = match profile {
        Profile::None => !allowed.is_empty(),
        Profile::Strict => paths || !allowed.hosts.is_empty(),
        Profile::Workspace => !allowed.hosts.is_empty(),
        Profile::Network => false,
    };
    if without_effect {
        let message =
            format!("`permissions` allow what `sandbox = \"{profile}\"` does not ask for");
        let hint = match profile {
            Profile::None => "remove them: nothing is confined",
            Profile::Strict => "use `workspace` for paths, `network` for hosts",
            Profile::Workspace | Profile::Network => "set `sandbox = \"network\"` for hosts",
        };
        found.push(Problem::error(child(table, "permissions"), message).hint(hint));
    }
    if profile == Profile::Network && allowed.hosts.is_empty() {
        let message = "`sandbox = \"network\"` without hosts reaches no host";
        let hint = "list them in `permissions.hosts`, `*` for every public one";
        found.push(Problem::warning(child(table, "sandbox"), message).hint(hint));
    }
}

/// No shell splits the command, a habit from other files.
fn check_command(table: &str, command: &str, server: &Server, found: &mut Vec<Problem>) {
    if has_reference(command) {
        found.push(Problem::error(child(table, "command"), NOT_IN_COMMAND_LINES));
    }
    let has_args = !server.connection.args.is_empty();
    if command.contains(char::is_whitespace) && !has_args && !command.contains('/') {
        let message = "`command` is one program, without arguments";
        found
            .push(Problem::error(child(table, "command"), message).hint("move the rest to `args`"));
    }
}

fn check_network(table: &str, server: &Server, found: &mut Vec<Problem>) {
    let connection = &server.connection;
    let scheme = match connection.transport() {
        Transport::Websocket => Scheme::Websocket,
        Transport::Stdio | Transport::StreamableHttp | Transport::Sse => Scheme::Http,
    };
    match &connection.url {
        None => {
            let message = format!("[{table}] needs `url`");
            let hint = format!("write `{}`", scheme.example());
            found.push(Problem::error(table, message).hint(hint));
        }
        Some(url) => check_address(&child(table, "url"), url, scheme, found),
    }
    let unused = [
        ("command", connection.command.is_some()),
        ("args", !connection.args.is_empty()),
        ("env", !connection.env.is_empty()),
        ("working_dir", connection.working_dir.is_some()),
        ("sandbox", server.sandbox.is_some()),
        ("permissions", !server.permissions.is_empty()),
    ];
    refuse_unused(table, connection.transport(), &unused, found);
    check_headers(&child(table, "headers"), &connection.headers, found);
}

/// The keys of the server's protocol, and those of others, which have no meaning for it.
fn check_protocol(config: &Config, name: &SourceId, server: &Server, found: &mut Vec<Problem>) {
    let table = child("servers", name.as_str());
    // A word that stands for no protocol has been reported.
    let Some(kind) = config.kinds.server(server.protocol.as_str()) else { return };
    let own = kind.properties();
    for (key, value) in server.own.iter().filter(|(key, _)| !own.contains_key(*key)) {
        let mut others = config.kinds.servers();
        if others.any(|other| other.properties().get(key).is_some_and(|it| it["default"] == *value))
        {
            continue;
        }
        let protocol = kind.protocol();
        let message = format!("`{key}` has no meaning for `protocol = \"{protocol}\"`");
        found.push(Problem::error(child(&table, key), message).hint("remove it"));
    }
    let settings = match kind.read(&server.own) {
        Ok(settings) => settings,
        Err(error) => return found.push(Problem::error(table, error.to_string())),
    };
    for fault in settings.check(&server.connection) {
        let problem = match fault.key.as_str() {
            "" => Problem::error(&table, format!("[{table}] {}", fault.message)),
            key => Problem::error(child(&table, key), fault.message),
        };
        found.push(problem.hint(fault.hint));
    }
    if let Some(declared) = settings.declared() {
        check_tools(&table, declared, server, found);
        check_declared(config, name, server, declared, found);
    }
}

fn refuse_unused(
    table: &str,
    transport: Transport,
    unused: &[(&str, bool)],
    found: &mut Vec<Problem>,
) {
    for (key, _) in unused.iter().filter(|(_, present)| *present) {
        let message = format!("`{key}` has no meaning for a `{}` server", transport.as_str());
        let hint = "remove it, or change `transport`";
        found.push(Problem::error(child(table, key), message).hint(hint));
    }
}

fn check_environment(table: &str, env: &BTreeMap<String, Setting>, found: &mut Vec<Problem>) {
    for (name, value) in env {
        let key = child(table, name);
        if name.is_empty() || name.contains(['=', '\0']) {
            let message = format!("`{}` can't be the name of a variable", name.escape_debug());
            found.push(Problem::error(&key, message).hint("leave out `=` and control characters"));
        }
        check_setting(&key, name, value, found);
    }
}

/// Headers must be legal, not the transport's own, and free of literal secrets.
pub(super) fn check_headers(
    table: &str,
    headers: &BTreeMap<String, Setting>,
    found: &mut Vec<Problem>,
) {
    for (name, value) in headers {
        let key = child(table, name);
        if name.parse::<HeaderName>().is_err() {
            let message = format!("`{}` can't be the name of a header", name.escape_debug());
            found.push(Problem::error(&key, message).hint("use letters, digits and `-`"));
        } else if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            let message = format!("`{name}` is set by the gateway itself");
            found.push(Problem::error(&key, message).hint("remove it"));
        }
        if value.expose().chars().any(char::is_control) {
            let message = format!("the value of `{}` has a control character", name.escape_debug());
            found.push(Problem::error(&key, message).hint("remove it"));
        }
        check_setting(&key, name, value, found);
    }
}

pub(super) fn check_setting(key: &str, name: &str, value: &Setting, found: &mut Vec<Problem>) {
    if value.is_broken_reference() {
        let message = "the reference names no variable";
        found.push(
            Problem::error(key, message).hint("write `env:NAME`, of letters, digits and `_`"),
        );
    } else if value.variable().is_none() && looks_like_secret(name, value.expose()) {
        let message = format!("the value of `{name}` looks like a secret");
        let hint = "put it in an environment variable, and write `env:NAME`";
        found.push(Problem::warning(key, message).hint(hint));
    }
}

/// What the registry would refuse of definitions whose form is right.
fn check_declared(
    config: &Config,
    name: &SourceId,
    server: &Server,
    declared: DeclaredTools<'_>,
    found: &mut Vec<Problem>,
) {
    let table = child("servers", name.as_str());
    let list = format!("{table}.{}", declared.list);
    // What is known to be wrong with an entry is not said again in other words.
    let is_faulty = |index: usize| {
        let path = element(&list, index);
        found.iter().any(|it| is_within(&it.key, &path) && it.is_error())
    };
    let items = declared.items.iter().enumerate().filter(|(index, _)| !is_faulty(*index));
    let tools = items.filter_map(|(_, item)| McpToolSpec::deserialize(item).ok()).collect();
    for fault in declared_faults(name, tools, declared_terms(config, server)) {
        let message = format!("the tool `{}` can't be offered: {}", fault.tool, fault.reason);
        let place = declared.items.iter().rposition(|item| item["name"] == fault.tool.as_str());
        let key = place.map_or_else(|| child(&table, declared.key), |index| element(&list, index));
        found.push(Problem::error(key, message));
    }
}

fn check_tools(
    table: &str,
    declared: DeclaredTools<'_>,
    server: &Server,
    found: &mut Vec<Problem>,
) {
    let list = format!("{table}.{}", declared.list);
    let mut names = BTreeSet::new();
    for (index, item) in declared.items.iter().enumerate() {
        let path = element(&list, index);
        match McpToolSpec::deserialize(item) {
            Ok(tool) => check_tool(&path, tool, &mut names, found),
            Err(error) => found.push(Problem::error(path, format!("not a tool: {error}"))),
        }
    }
    if declared.role == DeclaredRole::Terms {
        return;
    }
    for tool in server.tools.keys().filter(|tool| !names.contains(*tool)) {
        let path = child(&child(table, "tools"), tool);
        let mut problem =
            Problem::warning(path, format!("`{}` has no tool `{tool}`", declared.key));
        problem.hint = nearest(tool, names.iter().map(String::as_str))
            .map(|near| format!("did you mean `{near}`?"));
        found.push(problem);
    }
}

fn check_tool(
    path: &str,
    tool: McpToolSpec,
    names: &mut BTreeSet<String>,
    found: &mut Vec<Problem>,
) {
    if let Err(message) = check_format("tool-name", &tool.name) {
        found.push(Problem::error(child(path, "name"), message));
    }
    if tool.description.trim().is_empty() {
        let message = format!("the tool `{}` needs `description`", tool.name.escape_debug());
        found.push(Problem::error(path, message).hint("say what it does, for the model"));
    }
    if !tool.input_schema.is_object() {
        let message = "`inputSchema` must be a table";
        found.push(Problem::error(child(path, "inputSchema"), message).hint("write a JSON Schema"));
    }
    if names.contains(&tool.name) {
        let message = format!("`manifest` has two tools `{}`", tool.name.escape_debug());
        found.push(Problem::error(path, message).hint("rename one"));
    } else if let Some(twin) = names.iter().find(|name| skeleton(name) == skeleton(&tool.name)) {
        let name = tool.name.escape_debug();
        let message = format!("the tool `{name}` looks like `{}`", twin.escape_debug());
        found.push(Problem::error(path, message).hint("rename one"));
    }
    names.insert(tool.name);
}

fn check_action(config: &Config, key: &str, action: &str, found: &mut Vec<Problem>) {
    let own = config.policy.actions.iter().map(String::as_str);
    let known: Vec<&str> = KNOWN_ACTIONS.into_iter().chain(own).collect();
    if known.contains(&action) {
        return;
    }
    let hint = match nearest(action, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use {}, or add it to `policy.actions`", list(&known, "or")),
    };
    let message = format!("unknown policy action `{}`", action.escape_debug());
    found.push(Problem::error(key, message).hint(hint));
}
