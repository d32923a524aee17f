//! What a pack will be able to do: what it declares and what its tools imply, in words for people.
//!
//! Kept in the lock, so that an update can say what it adds.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use drawgate_core::canonical::sha256_hex;
use drawgate_core::registry::visible_text;
use drawgate_host::egress::HostRule;
use drawgate_host::egress::ranges::is_public;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifest::{Connector, Manifest, PackProfile, Tool, address, is_reference};
use crate::command::Template;

/// Most of a command that is shown, in characters.
const MAX_COMMAND: usize = 400;
/// How much of a digest tells two commands apart, in hexadecimal digits.
const DIGEST: usize = 16;

/// What a pack will be able to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Permissions {
    /// Programs that it runs on this machine.
    pub programs: BTreeSet<Program>,
    /// Hosts that it reaches.
    pub hosts: BTreeSet<String>,
    /// Variables that hold addresses which it reaches.
    pub addresses: BTreeSet<String>,
    /// Variables that it reads.
    pub env: BTreeSet<String>,
    /// Files and folders that it reads.
    pub read: BTreeSet<String>,
    /// Files and folders that it writes.
    pub write: BTreeSet<String>,
}

/// A program that a pack runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Program {
    /// Its name or path, or the reference that names it.
    pub name: String,
    /// Its arguments where the pack fixes them all, as it does for a server. References as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its sandbox, unless the operator says otherwise.
    pub sandbox: PackProfile,
}

/// What another version of a pack may do that this one may not, and the other way round.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PermissionChange {
    /// New lines.
    pub added: Vec<String>,
    /// Lines that are gone.
    pub removed: Vec<String>,
}

impl PermissionChange {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl Manifest {
    /// What the pack in this folder will be able to do.
    #[must_use]
    pub fn permissions(&self, folder: &Path) -> Permissions {
        let declared = &self.permissions;
        let mut all = Permissions {
            hosts: declared.hosts.iter().map(|host| plain(host)).collect(),
            env: declared.env.iter().cloned().collect(),
            read: declared.paths.read.iter().cloned().collect(),
            write: declared.paths.write.iter().cloned().collect(),
            ..Permissions::default()
        };
        for connector in &self.connectors {
            all.add_connector(self, connector, folder);
        }
        for tool in self.tools.iter().filter(|tool| tool.is_command()) {
            all.add_command(self, tool);
        }
        all
    }

    /// The sandbox of the pack's programs, where a tool does not ask for a tighter one.
    #[must_use]
    pub fn profile(&self) -> PackProfile {
        if self.permissions.hosts.is_empty() {
            PackProfile::Workspace
        } else {
            PackProfile::Network
        }
    }
}

impl Permissions {
    /// In words, one line for each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.programs.iter().map(Program::line).collect();
        lines.extend(self.hosts.iter().map(|host| host_line(host)));
        lines.extend(
            self.addresses.iter().map(|name| format!("reaches the address in the variable {name}")),
        );
        lines.extend(self.env.iter().map(|name| format!("reads the variable {name}")));
        lines.extend(self.read.iter().map(|path| format!("reads {}", place(path))));
        lines.extend(self.write.iter().map(|path| format!("reads and writes {}", place(path))));
        lines
    }

    /// What changes when these give way to newer ones.
    #[must_use]
    pub fn change(&self, newer: &Self) -> PermissionChange {
        let (before, after) = (self.lines(), newer.lines());
        let beyond = |of: &[String], other: &[String]| {
            of.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        PermissionChange { added: beyond(&after, &before), removed: beyond(&before, &after) }
    }

    fn add_connector(&mut self, manifest: &Manifest, connector: &Connector, folder: &Path) {
        add_references(connector.section().unwrap_or(&Value::Null), &mut self.env);
        let Some(settings) = connector.settings() else { return };
        if let Some((name, args)) = settings.program() {
            let (name, args) = (name.to_owned(), args.to_vec());
            self.programs.insert(Program { name, args, sandbox: manifest.profile() });
        }
        for (_, url) in settings.addresses() {
            self.add_address(url);
        }
        for url in settings.file_addresses(folder) {
            self.hosts.extend(address(&url).map(|address| address.rule().to_owned()));
        }
    }

    fn add_address(&mut self, url: &str) {
        if let Some(name) = is_reference(url) {
            self.addresses.insert(name.to_owned());
        } else if let Ok(address) = address(url) {
            self.hosts.insert(address.rule().to_owned());
        }
    }

    fn add_command(&mut self, manifest: &Manifest, tool: &Tool) {
        let template = tool.command_template.as_deref().unwrap_or_default();
        if let Ok(template) = Template::parse(template, &tool.parameters()) {
            let name = template.program().to_owned();
            let sandbox = tool.sandbox.unwrap_or_else(|| manifest.profile());
            self.programs.insert(Program { name, args: Vec::new(), sandbox });
        }
    }
}

impl Program {
    fn line(&self) -> String {
        let sandbox = self.sandbox.as_str();
        let words = shown_words(std::iter::once(&self.name).chain(&self.args));
        format!("runs `{words}` on this machine, in the sandbox `{sandbox}`")
    }
}

/// A command as people may read it: its words apart, nothing hidden, and not endless. What is left out
/// is told by its digest, so that a change in it is seen.
fn shown_words<'a>(words: impl Iterator<Item = &'a String>) -> String {
    let whole = words.map(|word| shown_word(word)).collect::<Vec<_>>().join(" ");
    let length = whole.chars().count();
    if length <= MAX_COMMAND {
        return whole;
    }
    let short: String = whole.chars().take(MAX_COMMAND).collect();
    let digest: String = sha256_hex(whole.as_bytes()).chars().take(DIGEST).collect();
    format!("{short}… and {} more characters, digest {digest}", length - MAX_COMMAND)
}

/// In quotes unless it is plain. A backtick could feign the end of the command.
fn shown_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let escaped: String = word.escape_debug().to_string().replace('`', "\\u{60}");
    format!("\"{}\"", visible_text(&escaped.replace("\\'", "'")))
}

/// Every variable that a value refers to.
fn add_references(value: &Value, env: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => env.extend(is_reference(text).map(str::to_owned)),
        Value::Array(items) => items.iter().for_each(|item| add_references(item, env)),
        Value::Object(map) => map.values().for_each(|value| add_references(value, env)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// One spelling for each rule.
fn plain(host: &str) -> String {
    host.parse::<HostRule>().map_or_else(|_| host.to_owned(), |rule| rule.to_string())
}

fn place(path: &str) -> String {
    if path.starts_with(['/', '~']) { path.to_owned() } else { format!("{path} in its workspace") }
}

fn host_line(rule: &str) -> String {
    let (host, port) = match rule.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (rule, None),
    };
    let ports = match port {
        Some("*") => " at every port",
        Some(_) | None => "",
    };
    if host == "*" {
        return format!("reaches every public host{ports}");
    }
    if let Some(domain) = host.strip_prefix("*.") {
        return format!("reaches every host below {domain}{ports}");
    }
    let shown = if ports.is_empty() { rule } else { host };
    format!("reaches {shown}{ports}{}", whereabouts(host))
}

/// What people may not see in an address.
fn whereabouts(host: &str) -> &'static str {
    const HERE: &str = ", which is this machine";
    const NEAR: &str = ", which is in a private network";
    let (address, prefix) = host.split_once('/').unwrap_or((host, ""));
    let address = address.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(ip) if ip.is_loopback() || ip.is_unspecified() => HERE,
        Ok(ip) if !is_public(ip) => NEAR,
        Ok(_) if !prefix.is_empty() => ", a range of addresses",
        Err(_) if address == "localhost" || address.ends_with(".localhost") => HERE,
        Ok(_) | Err(_) => "",
    }
}

#[cfg(test)]
#[path = "permissions_tests.rs"]
mod tests;
