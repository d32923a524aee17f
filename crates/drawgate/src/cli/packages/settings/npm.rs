//! Settings of npm: the operator's `.npmrc`, the one of the installation, and variables.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Operator, Settings, read};

const PREFIX: &str = "npm_config_";

/// Settings about registries, beside those that begin with the address of one (`//host/:_authToken`) or
/// name the one of a scope (`@scope:registry`).
const KEPT: [&str; 18] = [
    "registry",
    "_auth",
    "_authtoken",
    "_password",
    "username",
    "email",
    "always-auth",
    "ca",
    "ca[]",
    "cafile",
    "cert",
    "key",
    "strict-ssl",
    "replace-registry-host",
    "fetch-retries",
    "fetch-retry-maxtimeout",
    "fetch-retry-mintimeout",
    "fetch-timeout",
];

/// npm would wait for a minute before it says that a registry can't be reached.
const RETRIES: &str = "fetch-retries=1\nfetch-retry-mintimeout=1000\nfetch-retry-maxtimeout=2000\n";

/// Names of the proxy, the one that counts first.
const PROXY: [&str; 3] = ["https-proxy", "proxy", "http-proxy"];

/// What npm is told: files, then variables, then options of the command line; the last one counts.
pub(in super::super) fn settings(
    operator: &Operator,
    node: Option<&Path>,
    options: &[String],
) -> Settings {
    let mut settings = Settings::default();
    let own = read(&own_file(operator)).unwrap_or_default();
    let files = global_files(operator, node, &own).into_iter().filter_map(|file| read(&file));
    let mut all: Vec<(String, String)> =
        files.chain([own.clone()]).flat_map(|text| assignments(operator, &text)).collect();
    let variables = operator.variables(PREFIX).map(|(name, value)| (key_of(name), value));
    let options = options.iter().filter_map(|option| option.strip_prefix("--")?.split_once('='));
    let options = options.map(|(name, value)| (name.to_owned(), value));
    // As JSON, which npm reads: a value may hold what begins a comment.
    all.extend(variables.chain(options).map(|(key, value)| (key, Value::from(value).to_string())));
    let last = |name: &&str| all.iter().rev().find(|(key, _)| key == name);
    let proxy = PROXY.iter().find_map(last).map(|(_, value)| value.trim_matches('"').to_owned());
    settings.proxy = proxy;
    // Those of the operator follow, and count.
    let mut lines = RETRIES.to_owned();
    for (key, value) in all.into_iter().filter(|(key, _)| is_kept(key)) {
        lines.extend([key.as_str(), "=", value.as_str(), "\n"]);
        settings.values.push(value);
    }
    settings.add_file("npmrc", "npm_config_userconfig", lines);
    // There is no other file: not the one of the installation, which was read here.
    settings.env.insert(format!("{PREFIX}globalconfig"), "/nonexistent".to_owned());
    settings
}

fn own_file(operator: &Operator) -> PathBuf {
    let named = operator.variables(PREFIX).find(|(name, _)| key_of(name) == "userconfig");
    named.map_or_else(|| operator.home.join(".npmrc"), |(_, path)| PathBuf::from(path))
}

/// The files for all users: where Debian has it, and that of the prefix, which is around Node.js where it
/// is not set.
fn global_files(operator: &Operator, node: Option<&Path>, own: &str) -> Vec<PathBuf> {
    let variable = |wanted: &str| {
        operator.variables(PREFIX).find(|(name, _)| key_of(name) == wanted).map(|it| it.1)
    };
    if let Some(named) = variable("globalconfig") {
        return vec![PathBuf::from(named)];
    }
    let set = own.lines().filter_map(|line| line.split_once('='));
    let mut set = set.filter(|(key, _)| key.trim() == "prefix").map(|(_, value)| value.trim());
    let prefix = variable("prefix").or_else(|| set.next_back()).map(PathBuf::from);
    let around = || Some(node?.canonicalize().ok()?.parent()?.parent()?.to_owned());
    let prefix = prefix.or_else(around).map(|prefix| prefix.join("etc/npmrc"));
    std::iter::once(PathBuf::from("/etc/npmrc")).chain(prefix).collect()
}

/// The name of a setting that a variable is for.
fn key_of(variable: &str) -> String {
    if variable.starts_with("//") {
        return variable.to_owned();
    }
    let (first, rest) = variable.split_at_checked(1).unwrap_or((variable, ""));
    (first.to_owned() + &rest.replace('_', "-")).to_ascii_lowercase()
}

fn is_kept(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.starts_with("//") || key.ends_with(":registry") || KEPT.contains(&key.as_str())
}

/// The settings of a file in their order, with variables in them replaced.
fn assignments(operator: &Operator, text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with('['));
    let lines = lines.filter(|line| !line.starts_with([';', '#']));
    let lines = lines.map(|line| expanded(operator, line));
    let pair = |line: String| {
        let (key, value) = line.split_once('=')?;
        Some((key.trim().to_owned(), operator.at_home(value.trim())))
    };
    lines.filter_map(pair).collect()
}

/// Replaces `${NAME}`; one that is not set stays, as with npm.
fn expanded(operator: &Operator, line: &str) -> String {
    let mut whole = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        whole.push_str(before);
        match (operator.variable(name.trim_end_matches('?')), name.ends_with('?')) {
            (Some(value), _) => whole.push_str(value),
            (None, true) => {}
            (None, false) => whole.extend(["${", name, "}"]),
        }
        rest = behind;
    }
    whole + rest
}
