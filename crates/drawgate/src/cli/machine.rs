//! What the program gives to the libraries: the environment of this process, and itself as the launcher
//! of child processes.

#![expect(clippy::disallowed_methods, reason = "the program is what reads the environment")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

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
}

/// Secrets from the environment of this process.
#[must_use]
pub fn secrets() -> Secrets {
    Secrets::new(ProcessEnvironment)
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
        host: host()?,
        loaded,
        state: StateLocation::Folder(data.to_owned()),
        start,
        redactor,
        embedder: None,
    })
}

/// This machine, with this program as the launcher.
pub fn host() -> Result<Host, NoRandomness> {
    Host::new(secrets(), std::env::current_exe().ok())
}
