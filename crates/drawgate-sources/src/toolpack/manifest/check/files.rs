//! Files of the pack that its manifest names: they are there, inside the folder, and can be read.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use drawgate_core::model::shown_name;

use super::super::problem::{Sink, element, member};
use super::super::types::Tool;
use super::Draft;
use super::connectors::ConnectorCheck;
use crate::openapi::{Document, Operation, Operations, SelectError};

/// The documents of APIs that could be read, by the place of their connector.
pub(super) type Documents = BTreeMap<usize, Document>;

pub(super) fn check(draft: &Draft, folder: Option<&Path>, sink: &mut Sink) -> Documents {
    let mut documents = Documents::new();
    for (index, connector) in draft.connectors.iter().enumerate() {
        let Some(connector) = connector else { continue };
        let Some(settings) = connector.settings() else { continue };
        let path = member(&element("$.connectors", index), &connector.kind);
        let mut check = ConnectorCheck::new(draft, connector, path, sink);
        documents.extend(settings.check_files(folder, &mut check).map(|it| (index, it)));
    }
    documents
}

/// A path that stays inside the folder that it is relative to.
pub(crate) fn inside(text: &str) -> Result<(), String> {
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
pub(crate) fn spec_file(folder: &Path, spec: &str) -> Result<PathBuf, String> {
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
pub(crate) fn is_bundled(command: &str) -> bool {
    command.contains('/') && !command.starts_with('/')
}
