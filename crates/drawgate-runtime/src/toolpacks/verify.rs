//! `lock verify`: the folder against the lock file, pack by pack.

use drawgate_sources::toolpack::Finding;

use super::changes::ToolChanges;
use super::error::ToolpackError;
use super::folder::Folder;
use super::list::{Installed, Integrity};

impl Folder {
    /// Compares every pack with what the lock file says of it.
    pub fn verify(&self) -> Result<Vec<Finding>, ToolpackError> {
        Ok(self.list()?.iter().map(finding).collect())
    }
}

fn finding(pack: &Installed) -> Finding {
    let advice = match (&pack.integrity, definitions(pack)) {
        (Integrity::Locked, None) => None,
        (Integrity::Locked, Some(changed)) => return bad(pack, changed, "install it again"),
        (Integrity::Changed(_), _) => Some("install it again, or put back what was installed"),
        (Integrity::Unread(_), _) => Some("make it readable, and try again"),
        (Integrity::Foreign, _) => Some("move it away, and install it from there"),
        (Integrity::Missing, _) => Some("install it again, or remove it"),
    };
    match advice {
        None => Finding {
            subject: pack.id.clone(),
            ok: true,
            message: pack.integrity.to_string(),
            advice: None,
        },
        Some(advice) => bad(pack, pack.integrity.to_string(), advice),
    }
}

/// How the tools differ from those that were installed. With the same files they do only where this
/// version of the program understands them differently.
fn definitions(pack: &Installed) -> Option<String> {
    let (Some(entry), Ok(manifest)) = (&pack.entry, &pack.manifest) else {
        return Some("its manifest can't be read".to_owned());
    };
    let found = manifest.definitions(&pack.folder);
    let changes = ToolChanges::between(&entry.definitions, &found);
    let names: Vec<String> = changes.all().map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| format!("defines {} differently than installed", names.join(", ")))
}

fn bad(pack: &Installed, message: String, advice: &str) -> Finding {
    Finding { subject: pack.id.clone(), ok: false, message, advice: Some(advice.to_owned()) }
}
