//! What a gateway is made from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use drawgate_core::model::{Capability, Principal};
use drawgate_host::Host;
use drawgate_host::process::launcher;
use drawgate_host::secrets::Secrets;
use drawgate_runtime::config::Config;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fault::Fault;

/// The options of the public class, and what its loader knows.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Options {
    /// Where state is kept; in memory without one.
    pub(crate) data_dir: Option<PathBuf>,
    /// TOML text, or an object of the same shape.
    #[serde(default)]
    config: Value,
    /// The name under which the program calls.
    #[serde(default = "embedded")]
    principal: String,
    /// The session in which it calls, for grants to `session:ID`.
    session: Option<String>,
    /// What it always holds.
    #[serde(default)]
    pub(crate) capabilities: Vec<Capability>,
    /// Variables for `env:` references and for children.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The launcher, if the program names one.
    helper: Option<PathBuf>,
    /// Where the launcher is otherwise: beside the native file.
    default_helper: PathBuf,
    /// How many threads all gateways of the process share.
    threads: Option<usize>,
}

fn embedded() -> String {
    "embedded".to_owned()
}

impl Options {
    /// The name under which the program calls.
    pub(crate) fn principal(&self) -> Result<Principal, Fault> {
        Principal::new(&self.principal)
            .map_err(|error| Fault::invalid(format!("principal: {error}")))
    }

    /// The session in which the program calls.
    pub(crate) fn session(&self) -> Result<Option<&str>, Fault> {
        match self.session.as_deref() {
            Some(id) if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err(Fault::invalid("session: use visible ASCII characters without spaces"))
            }
            id => Ok(id),
        }
    }

    /// How many threads, if that is said.
    pub(crate) fn threads(&self) -> Result<Option<usize>, Fault> {
        match self.threads {
            Some(0 | 257..) => Err(Fault::invalid("threads: use a number from 1 to 256")),
            threads => Ok(threads),
        }
    }

    /// The configuration as a document. The built-in tools are off unless it says otherwise: they reach
    /// into folders of the machine, which a program that wants a gate for its own tools does not expect.
    pub(crate) fn document(&self) -> Result<Value, Fault> {
        let mut document = match &self.config {
            Value::Null => Map::new(),
            Value::String(text) => match Config::document(text)? {
                Value::Object(document) => document,
                _ => Map::new(),
            },
            Value::Object(document) => document.clone(),
            _ => {
                return Err(Fault::invalid(
                    "config: give TOML text, or an object of the same shape",
                ));
            }
        };
        let builtin = document.entry("builtin").or_insert_with(|| json!({}));
        if let Value::Object(builtin) = builtin {
            builtin.entry("enabled").or_insert(Value::Bool(false));
        }
        Ok(Value::Object(document))
    }

    /// The machine, with the variables and the launcher of the program.
    pub(crate) fn host(&self) -> Result<Host, Fault> {
        let secrets = Secrets::new(self.env.clone());
        let failed = |error: &dyn std::fmt::Display| Fault::invalid(format!("helper: {error}"));
        let host = |launcher| Host::new(secrets, launcher).map_err(anyhow::Error::from);
        if let Some(path) = &self.helper {
            let launcher = launcher::trusted(path).map_err(|error| failed(&error))?;
            return Ok(host(Some(launcher))?);
        }
        match launcher::trusted(&self.default_helper) {
            Ok(launcher) => Ok(host(Some(launcher))?),
            Err(error) => {
                let host = host(None)?;
                let why = no_helper(&self.default_helper, &error);
                let processes = host.processes.clone().without_launcher(&why);
                Ok(Host { processes, ..host })
            }
        }
    }
}

fn no_helper(path: &Path, error: &launcher::UntrustedLauncher) -> String {
    let name = path.file_name().unwrap_or_default().display();
    format!(
        "{error}; install the package again, name the program `{name}` in the option `helper`, or set \
         `sandbox` to `\"none\"` for a server that you trust with all that this process may do"
    )
}
