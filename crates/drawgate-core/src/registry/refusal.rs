//! Why a registration is refused, in words for whoever wrote the manifest or the configuration.

use super::{BadTool, IdTaken};
use crate::model::{SourceId, ToolId, WireName};

/// Why a registration was refused. Nothing of it took effect.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistrationError {
    /// Tools that can't be registered: each of them is named.
    #[error("{}", in_words(.faults, .taken))]
    Refused {
        /// Faults in a declared manifest.
        faults: Vec<BadTool>,
        /// Wire names that other sources hold.
        taken: Vec<NameConflict>,
    },
    /// Another source has this id.
    #[error("source id `{0}` is taken")]
    SourceTaken(SourceId),
    /// The operator has given this id, or one that looks like it, to another source.
    #[error("{0}")]
    Reserved(IdTaken),
    /// A manifest that speaks for another source.
    #[error("the manifest of `{source_id}` names `{claimed}` as its server")]
    ForeignManifest {
        /// The source that gave it.
        source_id: SourceId,
        /// The source that it names.
        claimed: SourceId,
    },
}

/// A wanted name and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameConflict {
    /// The tool that wanted the name.
    pub tool: String,
    /// The name.
    pub name: WireName,
    /// The tool that has it.
    pub holder: ToolId,
}

fn in_words(faults: &[BadTool], taken: &[NameConflict]) -> String {
    let wanted = taken
        .iter()
        .map(|c| format!("`{}` wants the name `{}`, which `{}` holds", c.tool, c.name, c.holder));
    let hint = (!taken.is_empty()).then(|| "set `names = \"qualified\"` or rename".to_owned());
    let all = faults.iter().map(ToString::to_string).chain(wanted).chain(hint);
    all.collect::<Vec<_>>().join("; ")
}
