//! `toolpack.json`: what an author writes, read strictly and checked whole.
//!
//! Reading reports every problem at once, each with its place in the file and what to do about it.
//! What passes here can be built; whether it works, only [`examine`](super::examine) can tell.

mod check;
mod definitions;
mod problem;
mod schema;
mod shape;
mod types;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use drawgate_core::json as strict;
use drawgate_core::model::shown_name;
use serde_json::{Value, json};

pub use check::ConnectorCheck;
pub(super) use check::{Address, address};
pub(crate) use check::{inside, is_bundled, is_reference, spec_file};
use problem::Sink;
pub use problem::{Problem, Problems};
pub use schema::schema;
pub use types::{Connector, DeclaredPermissions, Manifest, Operations, PackProfile, Paths, Tool};

use crate::kind::Kinds;
use crate::openapi;

/// The name of the manifest's file.
pub const FILE: &str = "toolpack.json";
/// The type of tools that are programs.
pub(super) const COMMAND: &str = "command";
/// The largest manifest.
pub const MAX_BYTES: usize = 1024 * 1024;

impl Manifest {
    /// Reads the manifest of a pack's folder, and checks it together with the files that it names.
    pub fn read(folder: &Path) -> Result<Self, Problems> {
        Self::read_with(folder, Kinds::default())
    }

    /// Reads the manifest of a pack that may use these kinds of sources.
    pub fn read_with(folder: &Path, kinds: Kinds) -> Result<Self, Problems> {
        Self::validate(&load(folder)?, Some(folder), kinds)
    }

    /// Reads the manifest of a pack that was checked when it was installed: the text alone.
    pub(super) fn installed(folder: &Path, kinds: Kinds) -> Result<Self, Problems> {
        Self::validate(&load(folder)?, None, kinds)
    }

    /// Reads a manifest's text. Files that it names are not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, Problems> {
        Self::validate(bytes, None, Kinds::default())
    }

    /// How long calls may take, for tools that the manifest names.
    #[must_use]
    pub fn timeouts(&self) -> BTreeMap<String, Duration> {
        let own = |tool: &Tool| {
            let seconds = tool.timeout_seconds.or_else(|| self.connector_timeout(tool))?;
            Some((tool.name.clone()?, Duration::from_secs(seconds)))
        };
        self.tools.iter().filter_map(own).collect()
    }

    /// The connector of a tool.
    #[must_use]
    pub fn connector(&self, tool: &Tool) -> Option<&Connector> {
        let id = tool.connector_id.as_deref()?;
        self.connectors.iter().find(|connector| connector.id == id)
    }

    fn connector_timeout(&self, tool: &Tool) -> Option<u64> {
        self.connector(tool)?.settings()?.timeout_seconds()
    }

    fn validate(bytes: &[u8], folder: Option<&Path>, kinds: Kinds) -> Result<Self, Problems> {
        if bytes.len() > MAX_BYTES {
            return Err(whole(
                format!("the manifest is larger than {MAX_BYTES} bytes"),
                "keep large parts, such as OpenAPI documents, in files of their own",
            ));
        }
        let mut value = strict::parse(bytes).map_err(|error| {
            whole(format!("not usable JSON: {error}"), "check it with an editor that knows JSON")
        })?;
        if !value.is_object() {
            return Err(whole("a manifest is an object".to_owned(), "begin it with `{`"));
        }
        let mut sink = Sink::new(shape::check(&mut value, kinds));
        let draft = check::Draft::new(&value, kinds, &mut sink);
        check::check(&draft, folder, &mut sink);
        sink.finish()?;
        Ok(draft.finish())
    }
}

impl Tool {
    /// What to call it in a message.
    #[must_use]
    pub fn label(&self) -> String {
        match (&self.name, &self.connector_id) {
            (Some(name), _) => shown_name(name),
            (None, Some(connector)) => format!("{}:*", shown_name(connector)),
            (None, None) => "*".to_owned(),
        }
    }

    /// The schema of a command's arguments: none, where the manifest says nothing.
    #[must_use]
    pub fn parameters(&self) -> Value {
        let none = || json!({ "type": "object", "properties": {}, "additionalProperties": false });
        self.parameters.clone().map_or_else(none, Value::Object)
    }

    /// The choice of operations of a whole API.
    #[must_use]
    pub fn choice(&self) -> openapi::Choice {
        openapi::Choice {
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            prefix: self.prefix.clone(),
        }
    }

    /// Whether it is a program that is run for each call, and comes from no connector.
    #[must_use]
    pub fn is_command(&self) -> bool {
        self.kind == COMMAND
    }

    /// The server's name for it, or the operation's.
    #[must_use]
    pub fn remote_name(&self) -> &str {
        let own = self.remote_tool.as_deref().or(self.operation_id.as_deref());
        own.or(self.name.as_deref()).unwrap_or_default()
    }
}

fn load(folder: &Path) -> Result<Vec<u8>, Problems> {
    let path = folder.join(FILE);
    let failed = |error: std::io::Error| {
        whole(
            format!("`{}` can't be read: {error}", path.display()),
            "a toolpack is a folder that holds a `toolpack.json`",
        )
    };
    let file = drawgate_host::user_files::open(&path).map_err(failed)?;
    let mut bytes = Vec::new();
    // One byte more than is allowed shows that there is more.
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn whole(message: String, advice: &str) -> Problems {
    Problems {
        problems: vec![Problem { path: "$".to_owned(), message, hint: Some(advice.to_owned()) }],
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
