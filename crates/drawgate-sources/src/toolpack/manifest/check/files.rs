//! Files of the pack that its manifest names: they are there, inside the folder, and can be read.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use drawgate_core::model::shown_name;

use super::super::problem::{Sink, element, hint, member};
use super::super::types::{Connector, Tool};
use super::Draft;
use super::connectors::check_declared;
use super::text::check_reference;
use crate::openapi::{Document, Operation, Operations, SelectError};

/// The documents of APIs that could be read, by the place of their connector.
pub(super) type Documents = BTreeMap<usize, Document>;

pub(super) fn check(draft: &Draft, folder: Option<&Path>, sink: &mut Sink) -> Documents {
    let mut documents = Documents::new();
    for (index, connector) in draft.connectors.iter().enumerate() {
        let path = element("$.connectors", index);
        let Some(connector) = connector else { continue };
        check_working_dir(connector, &path, folder, sink);
        if let Some(document) = check_spec(connector, &path, folder, sink) {
            check_servers(draft, connector, &document, &path, sink);
            check_schemes(connector, &document, &path, sink);
            documents.insert(index, document);
        }
    }
    documents
}

fn check_working_dir(connector: &Connector, path: &str, folder: Option<&Path>, sink: &mut Sink) {
    let Some(dir) = connector.mcp.as_ref().and_then(|mcp| mcp.working_dir.as_deref()) else {
        return;
    };
    let path = member(&member(path, "mcp"), "working_dir");
    if let Err(reason) = inside(dir) {
        return sink.add(&path, reason, hint("name a folder of the pack, or leave it out"));
    }
    if folder.is_some_and(|folder| !folder.join(dir).is_dir()) {
        let message = format!("the pack has no folder `{}`", shown_name(dir));
        sink.add(&path, message, hint("add it to the pack, or leave `working_dir` out"));
    }
}

fn check_spec(
    connector: &Connector,
    path: &str,
    folder: Option<&Path>,
    sink: &mut Sink,
) -> Option<Document> {
    let spec = connector.openapi.as_ref()?.spec_path.as_deref()?;
    let path = member(&member(path, "openapi"), "spec_path");
    if check_reference(&path, spec, sink) {
        return None;
    }
    if let Err(reason) = inside(spec) {
        sink.add(&path, reason, hint("name a file of the pack, such as `spec/api.json`"));
        return None;
    }
    let file = spec_file(folder?, spec);
    let document = file.and_then(|file| Document::read(&file).map_err(|error| error.to_string()));
    match document {
        Ok(document) => Some(document),
        Err(reason) => {
            sink.add(&path, reason, hint("put an OpenAPI 3 document there, as JSON or YAML"));
            None
        }
    }
}

/// Requests must go somewhere, and what lies inside must be declared like every other address.
fn check_servers(
    draft: &Draft,
    connector: &Connector,
    document: &Document,
    path: &str,
    sink: &mut Sink,
) {
    let has_base = connector.openapi.as_ref().is_some_and(|openapi| openapi.base_url.is_some());
    let path = member(&member(path, "openapi"), "base_url");
    if has_base || sink.knows(&path) {
        return;
    }
    if let Err(error) = document.base_url() {
        return sink.add(&path, error.to_string(), None);
    }
    for url in document.addresses() {
        check_declared(draft, &path, url.as_str(), sink);
    }
}

/// Credentials are for schemes that the document has, and that can be sent.
fn check_schemes(connector: &Connector, document: &Document, path: &str, sink: &mut Sink) {
    let Some(openapi) = &connector.openapi else { return };
    let path = member(&member(path, "openapi"), "auth");
    for (scheme, reason) in document.auth_faults(&openapi.auth) {
        sink.add(&member(&path, &scheme), reason, None);
    }
}

/// A path that stays inside the folder that it is relative to.
pub(super) fn inside(text: &str) -> Result<(), String> {
    let path = Path::new(text);
    let plain = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
    if text.is_empty() || text.contains(char::is_control) {
        return Err(format!("`{}` is not a path", shown_name(text)));
    }
    if path.is_absolute() || text.starts_with('~') || !path.components().all(plain) {
        return Err(format!(
            "`{}` leads out of the pack; paths are relative to the pack's folder",
            shown_name(text)
        ));
    }
    Ok(())
}

/// The file of a document, inside the pack whatever links there are.
pub(in crate::toolpack) fn spec_file(folder: &Path, spec: &str) -> Result<PathBuf, String> {
    inside(spec)?;
    let missing = || format!("the pack has no file `{}`", shown_name(spec));
    let folder = folder.canonicalize().map_err(|_| missing())?;
    let file = folder.join(spec).canonicalize().map_err(|_| missing())?;
    if !file.starts_with(&folder) {
        return Err(format!("`{}` is a link that leads out of the pack", shown_name(spec)));
    }
    if file.is_file() { Ok(file) } else { Err(missing()) }
}

/// The operations that a whole API stands for, each with its tool's name.
pub(in crate::toolpack) fn expanded<'a>(
    document: &'a Document,
    tool: &Tool,
) -> Result<Vec<(String, &'a Operation)>, SelectError> {
    document.select(&Operations::Chosen(tool.choice()))
}

/// Whether a command is a file of the pack: a relative path.
pub(in crate::toolpack) fn is_bundled(command: &str) -> bool {
    command.contains('/') && !command.starts_with('/')
}
