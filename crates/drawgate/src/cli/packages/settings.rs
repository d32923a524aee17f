//! What the operator's npm, pip and uv are told about registries: addresses, logins, certificates.
//!
//! They run in a sandbox that has nothing of the operator's home and environment, so the settings that are
//! about registries are read here and passed in; all others stay out. What they name is opened: hosts,
//! wherever these are, and files.

mod netrc;
mod npm;
mod python;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::bail;
use drawgate_host::egress::{HostRule, ParentProxy, Reach};
use drawgate_host::user_files;
use http::Uri;
use percent_encoding::percent_decode_str;

use super::super::machine;

/// Where settings are looked for.
pub(super) struct Operator {
    env: BTreeMap<String, String>,
    home: PathBuf,
}

/// The settings in the form in which they are passed into the sandbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Variables.
    pub(super) env: BTreeMap<String, String>,
    /// Files of the sandbox's home, each with the variable that names it.
    pub(super) files: Vec<SettingsFile>,
    /// Every value, in which hosts and files may be named.
    values: Vec<String>,
    /// The proxy of its own that a package manager is told to use.
    proxy: Option<String>,
}

/// A file that is made for the sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SettingsFile {
    pub(super) name: &'static str,
    pub(super) variable: &'static str,
    pub(super) text: String,
}

impl Operator {
    /// Who runs this command.
    pub(super) fn here() -> Self {
        let home = machine::secrets().home().unwrap_or_default();
        Self { env: machine::environment(), home }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Variables that begin with a prefix in any case, without it.
    fn variables<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.env.iter().filter(|(_, value)| !value.is_empty()).filter_map(move |(name, value)| {
            let (start, rest) = name.split_at_checked(prefix.len())?;
            start.eq_ignore_ascii_case(prefix).then_some((rest, value.as_str()))
        })
    }

    /// The folders of settings, those of the system first.
    fn config_folders(&self) -> Vec<PathBuf> {
        let system = self.variable("XDG_CONFIG_DIRS").unwrap_or("/etc/xdg");
        let own = self.variable("XDG_CONFIG_HOME").map(PathBuf::from);
        let own = own.unwrap_or_else(|| self.home.join(".config"));
        std::env::split_paths(system).chain([own]).collect()
    }

    /// Where uv keeps the Pythons that it has installed.
    pub(super) fn managed_pythons(&self) -> PathBuf {
        let share = self.variable("XDG_DATA_HOME").map(PathBuf::from);
        let share = share.unwrap_or_else(|| self.home.join(".local/share"));
        let named = self.variable("UV_PYTHON_INSTALL_DIR").map(PathBuf::from);
        named.unwrap_or_else(|| share.join("uv/python"))
    }

    /// The proxy behind which registries are: the one that is set for the package manager, or for programs.
    pub(super) fn parent_proxy(&self, settings: &Settings) -> anyhow::Result<Option<ParentProxy>> {
        let all = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"];
        let set = || all.into_iter().find_map(|name| self.either(name));
        let named = settings.proxy.as_deref().or_else(set);
        let Some(uri) = named.and_then(|named| named.parse::<Uri>().ok()) else { return Ok(None) };
        match uri.scheme_str() {
            Some(scheme) if !scheme.eq_ignore_ascii_case("http") => bail!(
                "the proxy that is set for registries is one of `{scheme}://`, and packages are fetched \
                 through one of `http://` only; set `HTTPS_PROXY` or the package manager's `proxy` to such a one"
            ),
            Some(_) | None => Ok(self.proxy_at(&uri)),
        }
    }

    /// A variable that is written in small letters or large ones.
    fn either(&self, name: &str) -> Option<&str> {
        self.variable(&name.to_ascii_lowercase()).or_else(|| self.variable(name))
    }

    fn proxy_at(&self, uri: &Uri) -> Option<ParentProxy> {
        let (login, host) = match uri.authority()?.as_str().rsplit_once('@') {
            Some((login, _)) => (Some(login), uri.host()?),
            None => (None, uri.host()?),
        };
        let mut proxy =
            ParentProxy::new(host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(80));
        if let Some((user, password)) = login.and_then(|login| login.split_once(':')) {
            let plain = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
            proxy = proxy.with_login(&plain(user), &plain(password));
        }
        Some(proxy.without(self.either("NO_PROXY").unwrap_or_default()))
    }

    /// A value with the home folder that `~` means here.
    fn at_home(&self, value: &str) -> String {
        let below = value.strip_prefix("~/").map(|rest| self.home.join(rest));
        below.map_or_else(|| value.to_owned(), |path| path.to_string_lossy().into_owned())
    }
}

impl Settings {
    fn add(&mut self, variable: String, value: &str) {
        self.values.push(value.to_owned());
        self.env.insert(variable, value.to_owned());
    }

    fn add_file(&mut self, name: &'static str, variable: &'static str, text: String) {
        self.files.push(SettingsFile { name, variable, text });
    }

    /// Adds what the operator's file of logins has for the hosts that are named.
    pub(super) fn with_logins(mut self, operator: &Operator) -> Self {
        let named: Vec<Uri> = self.addresses().collect();
        let hosts: BTreeSet<&str> = named.iter().filter_map(Uri::host).collect();
        let text = netrc::of(operator, &hosts);
        if !text.is_empty() {
            self.add_file("netrc", "NETRC", text);
        }
        self
    }

    /// Whom a package manager with these settings may reach: what they name wherever it is, and hosts of the
    /// internet, where a registry that is not set is, and one may keep its files.
    pub(super) fn reach(&self) -> Reach {
        let named: Vec<HostRule> = self.addresses().filter_map(|uri| HostRule::of(&uri)).collect();
        Reach::public().and(named.into_iter().map(HostRule::anywhere))
    }

    /// Files and folders that they name.
    pub(super) fn named_files(&self) -> Vec<PathBuf> {
        let words = self.words().map(|word| word.strip_prefix("file://").unwrap_or(word));
        let paths = words.map(PathBuf::from).filter(|path| path.is_absolute() && path.exists());
        paths.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn addresses(&self) -> impl Iterator<Item = Uri> {
        self.words().filter_map(|word| {
            // The index of uv may have a name: `name=https://…`.
            let start = word.find("http://").or_else(|| word.find("https://"))?;
            word.get(start..)?.parse().ok()
        })
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        let split = |c: char| c.is_whitespace() || c == ',' || c == '"' || c == '\'';
        self.values.iter().flat_map(move |value| value.split(split)).filter(|word| !word.is_empty())
    }
}

pub(super) use npm::settings as npm;
pub(super) use python::{pip, uv};

/// A file of settings, if it can be read.
fn read(path: &Path) -> Option<String> {
    user_files::read_to_string(path).ok()
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
