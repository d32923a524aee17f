//! What the program gives to the libraries: the environment of this process, and itself as the launcher
//! of child processes.

#![expect(clippy::disallowed_methods, reason = "the program is what reads the environment")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::secrets_file;
use arc_swap::ArcSwap;
use drawgate_core::redact::Redactor;
use drawgate_host::Host;
use drawgate_host::clock::NoRandomness;
use drawgate_host::secrets::{Environment, Secrets};
use drawgate_runtime::assemble::{RuntimeOptions, Start, StateLocation};
use drawgate_runtime::config::Loaded;

/// The environment of this process.
#[derive(Debug, Clone, Copy)]
struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn all(&self) -> Vec<(String, OsString)> {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        std::env::vars_os().filter_map(text).collect()
    }
}

/// The environment of this process, then `secrets.env` in a data folder. That is read when it is asked,
/// so that a gateway that runs finds what is added.
#[derive(Debug, Clone)]
struct GatewayEnvironment {
    data: PathBuf,
}

impl Environment for GatewayEnvironment {
    fn get(&self, name: &str) -> Option<OsString> {
        let stored = || secrets_file::find(&self.data, name).map(OsString::from);
        std::env::var_os(name).or_else(stored)
    }

    fn all(&self) -> Vec<(String, OsString)> {
        let stored = secrets_file::read(&self.data).into_iter();
        let stored = stored.map(|(name, value)| (name, OsString::from(value)));
        // Those of this process win.
        let all: BTreeMap<String, OsString> = stored.chain(ProcessEnvironment.all()).collect();
        all.into_iter().collect()
    }
}

/// Secrets from the environment of this process.
#[must_use]
pub fn secrets() -> Secrets {
    Secrets::new(ProcessEnvironment)
}

/// The whole environment of this process, for programs that the operator could start as well: what is not
/// text is left out.
pub(super) fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (String, OsString)| Some((name, value.into_string().ok()?));
    ProcessEnvironment.all().into_iter().filter_map(text).collect()
}

/// A variable of this process's environment, if it is set and text.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether terminals are to be written to in colours, as the environment says.
#[must_use]
pub fn has_colours() -> bool {
    variable("NO_COLOR").is_none() && variable("TERM").is_some_and(|term| term != "dumb")
}

/// Whether terminals can write a line over, as the environment says.
#[must_use]
pub(super) fn can_write_over() -> bool {
    variable("TERM").is_some_and(|term| term != "dumb")
}

/// What programs of the desktop need of the environment beside the few variables that every child gets.
const DESKTOP: [&str; 7] = [
    "BROWSER",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_CURRENT_DESKTOP",
    "XDG_RUNTIME_DIR",
];

/// The environment of a program of the desktop: a browser, a notification.
pub(super) fn desktop(secrets: &Secrets) -> BTreeMap<String, String> {
    let variable = |name: &&str| {
        let value = secrets.resolve(&format!("env:{name}")).ok()?;
        Some(((*name).to_owned(), value.expose().to_owned()))
    };
    DESKTOP.iter().filter_map(variable).collect()
}

/// A gateway of this machine, on a data folder.
pub(super) fn runtime_options<'a>(
    loaded: &'a Loaded,
    data: &Path,
    start: Start,
    redactor: Arc<ArcSwap<Redactor>>,
) -> Result<RuntimeOptions<'a>, NoRandomness> {
    Ok(RuntimeOptions {
        host: host_with(Secrets::new(GatewayEnvironment { data: data.to_owned() }))?,
        loaded,
        state: StateLocation::Folder(data.to_owned()),
        start,
        redactor,
        embedder: None,
    })
}

/// This machine, with this program as the launcher.
pub fn host() -> Result<Host, NoRandomness> {
    host_with(secrets())
}

fn host_with(secrets: Secrets) -> Result<Host, NoRandomness> {
    let host = Host::new(secrets, std::env::current_exe().ok())?;
    Ok(Host { allow_command: Some("drawgate servers allow"), ..host })
}
