//! What the program gives to the libraries: the environment of this process, and itself as the launcher
//! of child processes.

#![expect(clippy::disallowed_methods, reason = "the program is what reads the environment")]

use std::ffi::OsString;

use drawgate_host::Host;
use drawgate_host::clock::NoRandomness;
use drawgate_host::secrets::{Environment, Secrets};

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

/// This machine, with this program as the launcher.
pub fn host() -> Result<Host, NoRandomness> {
    Host::new(secrets(), std::env::current_exe().ok())
}
