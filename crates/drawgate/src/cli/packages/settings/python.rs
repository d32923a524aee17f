//! Settings of pip and uv: their files, variables, and options of the command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{Operator, Settings, read};

/// Settings about indexes, of both; `index` begins the names of more.
const KEPT: [&str; 15] = [
    "extra-index-url",
    "default-index",
    "find-links",
    "no-index",
    "trusted-host",
    "insecure-host",
    "allow-insecure-host",
    "cert",
    "client-cert",
    "native-tls",
    "system-certs",
    "timeout",
    "default-timeout",
    "http-timeout",
    "retries",
];

/// How often a request is tried again: an index that can't be reached is reported soon.
const RETRIES: &str = "1";

fn is_kept(key: &str) -> bool {
    key.starts_with("index") || KEPT.contains(&key)
}

/// The setting that a variable is for.
fn key_of(variable: &str) -> String {
    variable.to_ascii_lowercase().replace('_', "-")
}

/// What pip is told, as variables. Options are in the words of uv, too.
pub(in super::super) fn pip(operator: &Operator, options: &[String]) -> Settings {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for file in pip_files(operator) {
        found.extend(pip_file(&read(&file).unwrap_or_default()));
    }
    let variables = operator.variables("PIP_");
    found.extend(variables.map(|(name, value)| (key_of(name), value.to_owned())));
    let in_words_of_pip = |key: &str| match key {
        "default-index" => "index-url".to_owned(),
        "index" => "extra-index-url".to_owned(),
        other => other.to_owned(),
    };
    found.extend(joined(options).into_iter().map(|(key, value)| (in_words_of_pip(&key), value)));
    let mut settings = Settings { proxy: found.remove("proxy"), ..Settings::default() };
    for (key, value) in found.into_iter().filter(|(key, _)| is_kept(key)) {
        settings.add(variable("PIP_", &key), &operator.at_home(&value));
    }
    settings.env.entry("PIP_RETRIES".to_owned()).or_insert_with(|| RETRIES.to_owned());
    settings.env.insert("PIP_CONFIG_FILE".to_owned(), "/dev/null".to_owned());
    settings.env.insert("PIP_NO_CACHE_DIR".to_owned(), "1".to_owned());
    settings.env.insert("PIP_NO_INPUT".to_owned(), "1".to_owned());
    settings.with_logins(operator)
}

/// What uv is told: one file, and variables.
pub(in super::super) fn uv(operator: &Operator, options: &[String]) -> Settings {
    let mut settings = Settings::default();
    let mut merged = Table::new();
    for file in uv_files(operator) {
        let table = read(&file).and_then(|text| text.parse::<Table>().ok()).unwrap_or_default();
        merge(&mut merged, kept_table(table));
    }
    strings(&Value::Table(merged.clone()), &mut settings.values);
    settings.add_file("uv.toml", "UV_CONFIG_FILE", merged.to_string());
    let variables = operator.variables("UV_").map(|(name, value)| (key_of(name), name, value));
    for (_, name, value) in variables.filter(|(key, ..)| is_kept(key)) {
        settings.add(format!("UV_{name}"), value);
    }
    for (key, value) in joined(options) {
        settings.add(variable("UV_", &key), &value);
    }
    if let Some(certificate) = operator.variable("SSL_CLIENT_CERT") {
        settings.add("SSL_CLIENT_CERT".to_owned(), certificate);
    }
    let retries = operator.variable("UV_HTTP_RETRIES").unwrap_or(RETRIES);
    settings.env.insert("UV_HTTP_RETRIES".to_owned(), retries.to_owned());
    // One that it has is used; one that it fetched into the sandbox would be gone afterwards.
    settings.env.insert("UV_PYTHON_DOWNLOADS".to_owned(), "never".to_owned());
    let pythons = operator.managed_pythons().to_string_lossy().into_owned();
    settings.env.insert("UV_PYTHON_INSTALL_DIR".to_owned(), pythons);
    settings.with_logins(operator)
}

fn variable(prefix: &str, key: &str) -> String {
    format!("{prefix}{}", key.to_ascii_uppercase().replace('-', "_"))
}

/// Options as `--name=value`, by name; what is written more than once is joined.
fn joined(options: &[String]) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in options.iter().filter_map(|it| it.strip_prefix("--")?.split_once('=')) {
        let values = found.entry(name.to_owned()).or_default();
        if !values.is_empty() {
            values.push(' ');
        }
        values.push_str(value);
    }
    found
}

fn pip_files(operator: &Operator) -> Vec<PathBuf> {
    let named = operator.variable("PIP_CONFIG_FILE").map(PathBuf::from);
    if named.as_deref() == Some(Path::new("/dev/null")) {
        return Vec::new();
    }
    let older = [PathBuf::from("/etc/pip.conf"), operator.home.join(".pip/pip.conf")];
    let folders = operator.config_folders().into_iter().map(|folder| folder.join("pip/pip.conf"));
    older.into_iter().chain(folders).chain(named).collect()
}

/// The settings for all commands, then those for `install`.
fn pip_file(text: &str) -> BTreeMap<String, String> {
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let (mut section, mut key) = (String::new(), String::new());
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        let settings = sections.entry(section.clone()).or_default();
        if line.starts_with(char::is_whitespace) {
            // It goes on with the value above.
            if let Some(value) = settings.get_mut(&key) {
                value.extend([" ", bare]);
            }
        } else if let Some(name) = bare.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((name, value)) = bare.split_once(['=', ':']) {
            key = key_of(name.trim());
            settings.insert(key.clone(), value.trim().to_owned());
        }
    }
    let mut found = sections.remove("global").unwrap_or_default();
    found.extend(sections.remove("install").unwrap_or_default());
    found
}

fn uv_files(operator: &Operator) -> Vec<PathBuf> {
    if let Some(named) = operator.variable("UV_CONFIG_FILE") {
        return vec![PathBuf::from(named)];
    }
    if operator.variable("UV_NO_CONFIG").is_some() {
        return Vec::new();
    }
    let folders = operator.config_folders().into_iter().map(|folder| folder.join("uv/uv.toml"));
    std::iter::once(PathBuf::from("/etc/uv/uv.toml")).chain(folders).collect()
}

/// What a file says about indexes, for all commands and for `uv pip`.
fn kept_table(table: Table) -> Table {
    let kept = |(key, value): (String, Value)| match (key.as_str(), value) {
        ("pip", Value::Table(own)) => Some((key, Value::Table(kept_table(own)))),
        (_, value) => is_kept(&key).then_some((key, value)),
    };
    table.into_iter().filter_map(kept).collect()
}

/// Adds a file that counts for more: its lists come first, and its other values win.
fn merge(all: &mut Table, more: Table) {
    for (key, value) in more {
        let value = match (all.remove(&key), value) {
            (Some(Value::Array(before)), Value::Array(mut value)) => {
                value.extend(before);
                Value::Array(value)
            }
            (Some(Value::Table(mut before)), Value::Table(value)) => {
                merge(&mut before, value);
                Value::Table(before)
            }
            (_, value) => value,
        };
        all.insert(key, value);
    }
}

fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|value| strings(value, found)),
        Value::Table(all) => all.values().for_each(|value| strings(value, found)),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}
