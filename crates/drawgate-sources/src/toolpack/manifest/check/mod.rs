//! What a manifest means, checked: everything that its form alone can't tell.
//!
//! Each file looks at one part and adds to the same list, so that an author sees all at once.

mod connectors;
mod files;
mod permissions;
mod programs;
mod text;
mod tools;
mod variables;

use std::path::Path;

use drawgate_host::egress::{HostRule, Reach};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use connectors::ConnectorCheck;
pub(in crate::toolpack) use files::expanded;
pub(crate) use files::{inside, is_bundled, spec_file};
pub(crate) use text::is_reference;
pub(in crate::toolpack) use text::{Address, address};

use super::problem::{Sink, element, member};
use super::types::{Connector, DeclaredPermissions, Manifest, Tool};
use crate::kind::Kinds;
use text::{check_id, check_line, check_text};

/// Most connectors and tools of a pack.
const MAX_CONNECTORS: usize = 64;
const MAX_TOOLS: usize = 1000;
/// Longest name of a pack, in characters.
const MAX_NAME: usize = 100;
/// Longest version.
const MAX_VERSION: usize = 64;
/// Ids that the gateway's own sources have.
const RESERVED_IDS: [&str; 1] = ["builtin"];

/// A manifest whose parts may be missing.
pub(super) struct Draft {
    kinds: Kinds,
    schema: Option<String>,
    id: String,
    name: String,
    version: String,
    description: Option<String>,
    enabled: bool,
    /// `None` where one can't be read, which has been reported.
    connectors: Vec<Option<Connector>>,
    /// The ids of all connectors, of those that can't be read too.
    ids: Vec<String>,
    tools: Vec<Option<Tool>>,
    permissions: DeclaredPermissions,
}

impl Draft {
    pub(super) fn new(value: &Value, kinds: Kinds, sink: &mut Sink) -> Self {
        let text = |key| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let permissions = value.get("permissions");
        let permissions = permissions.and_then(|value| read(value, "$.permissions", sink));
        let mut connectors = items(value, "connectors", sink);
        for (index, connector) in connectors.iter_mut().enumerate() {
            settings(connector, &element("$.connectors", index), kinds, sink);
        }
        Self {
            kinds,
            schema: text("$schema"),
            id: text("id").unwrap_or_default(),
            name: text("name").unwrap_or_default(),
            version: text("version").unwrap_or_default(),
            description: text("description"),
            enabled: value.get("enabled").and_then(Value::as_bool).unwrap_or(false),
            connectors,
            ids: ids(value),
            tools: items(value, "tools", sink),
            permissions: permissions.unwrap_or_default(),
        }
    }

    /// The manifest, where no problem was found.
    pub(super) fn finish(self) -> Manifest {
        Manifest {
            schema: self.schema,
            id: self.id,
            name: self.name,
            version: self.version,
            description: self.description,
            enabled: self.enabled,
            connectors: self.connectors.into_iter().flatten().collect(),
            tools: self.tools.into_iter().flatten().collect(),
            permissions: self.permissions,
        }
    }

    /// What the declared hosts admit.
    fn reach(&self) -> Reach {
        Reach::only(self.permissions.hosts.iter().filter_map(|host| host.parse::<HostRule>().ok()))
    }

    /// The first connector of this id, and its place.
    fn connector(&self, id: &str) -> Option<(usize, &Connector)> {
        let known = self.connectors.iter().enumerate();
        known
            .filter_map(|(index, connector)| Some((index, connector.as_ref()?)))
            .find(|(_, connector)| connector.id == id)
    }
}

fn ids(value: &Value) -> Vec<String> {
    let all = value.get("connectors").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|item| item.get("id")?.as_str().map(str::to_owned)).collect()
}

fn items<T: DeserializeOwned>(value: &Value, key: &str, sink: &mut Sink) -> Vec<Option<T>> {
    let path = member("$", key);
    let items = value.get(key).and_then(Value::as_array).into_iter().flatten().enumerate();
    items.map(|(index, item)| read(item, &element(&path, index), sink)).collect()
}

/// Reads the settings of a connector, which is left out where they can't be read.
fn settings(connector: &mut Option<Connector>, path: &str, kinds: Kinds, sink: &mut Sink) {
    let Some(Err(error)) = connector.as_mut().map(|connector| connector.read(kinds)) else {
        return;
    };
    *connector = None;
    unreadable(path, &error, sink);
}

/// A part of the manifest, if it can be read. Why not, is reported unless it has been.
fn read<T: DeserializeOwned>(value: &Value, path: &str, sink: &mut Sink) -> Option<T> {
    match serde_json::from_value(value.clone()) {
        Ok(read) => Some(read),
        Err(error) => {
            unreadable(path, &error, sink);
            None
        }
    }
}

fn unreadable(path: &str, error: &serde_json::Error, sink: &mut Sink) {
    if !sink.knows(path) {
        let message = format!("it can't be read: {error}");
        sink.add(path, message, "compare it with the manifest's schema");
    }
}

/// Finds every problem of meaning; those of the files that the manifest names only with a folder.
pub(super) fn check(draft: &Draft, folder: Option<&Path>, sink: &mut Sink) {
    head(draft, sink);
    connectors::check(draft, sink);
    permissions::check(&draft.permissions, sink);
    let documents = files::check(draft, folder, sink);
    tools::check(draft, folder, &documents, sink);
}

fn head(draft: &Draft, sink: &mut Sink) {
    if !sink.knows("$.id") {
        check_id("$.id", &draft.id, sink);
        if RESERVED_IDS.contains(&draft.id.as_str()) {
            sink.add("$.id", format!("`{}` is the gateway's own", draft.id), "choose another id");
        }
    }
    if !sink.knows("$.name") {
        check_line("$.name", &draft.name, MAX_NAME, sink);
    }
    if !sink.knows("$.version") {
        version(&draft.version, sink);
    }
    if let Some(description) = &draft.description {
        check_text("$.description", description, sink);
    }
    many("$.connectors", draft.connectors.len(), MAX_CONNECTORS, "connectors", sink);
    many("$.tools", draft.tools.len(), MAX_TOOLS, "tools", sink);
    if draft.tools.is_empty() && !sink.knows("$.tools") {
        sink.add("$.tools", "a pack needs at least one tool", "add a tool, or remove the pack");
    }
}

fn many(path: &str, count: usize, most: usize, what: &str, sink: &mut Sink) {
    if count > most {
        let message = format!("{count} {what} are too many");
        sink.add(path, message, format!("use at most {most}; split the pack"));
    }
}

/// `1`, `1.2` or `1.2.3`, with what semantic versions may add.
fn version(version: &str, sink: &mut Sink) {
    let (numbers, rest) = match version.find(['-', '+']) {
        Some(at) => version.split_at_checked(at).unwrap_or((version, "")),
        None => (version, ""),
    };
    let number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let parts: Vec<&str> = numbers.split('.').collect();
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    let fits = version.len() <= MAX_VERSION && parts.len() <= 3 && parts.into_iter().all(number);
    if !fits || rest.len() == 1 || !rest.chars().all(legal) {
        let message = format!("`{}` is not a version", drawgate_core::model::shown_name(version));
        sink.add("$.version", message, "use one such as `1.0.0`");
    }
}
