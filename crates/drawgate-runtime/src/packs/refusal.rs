//! Why a pack is refused, in words that fit into the status of an answer.

use drawgate_core::model::{SourceId, shown_name};
use drawgate_core::registry::{BadTool, Holder, IdTaken, NameConflict, RegistrationError};

/// Bytes of a refusal. It travels in a header, percent-encoded, and many clients take 8 KiB of them.
const MAX_REFUSAL: usize = 3 * 1024;

/// Why a pack is not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackRefusal {
    /// The name that its key stands for can be no source's.
    #[error("{0}")]
    InvalidName(String),
    /// Faults of the manifest, a line each.
    #[error("{0}")]
    InvalidManifest(String),
    /// The pack's id or names of its tools belong to others.
    #[error("{0}")]
    NameTaken(String),
    /// It names itself otherwise than it has proved.
    #[error("{0}")]
    ForeignId(String),
    /// The connection has ended, or the gateway stops.
    #[error("this connection has ended, or the gateway stops")]
    ConnectionEnded,
    /// A fault of the gateway.
    #[error("the gateway failed inside")]
    Internal,
}

/// Says what is wrong with a manifest, each fault on a line of its own; nothing if there is none.
pub(super) fn refused(
    pack: &SourceId,
    mut faults: Vec<BadTool>,
    error: Option<RegistrationError>,
) -> Result<(), PackRefusal> {
    let mut taken = Vec::new();
    match error {
        Some(RegistrationError::Refused { faults: more, taken: held }) => {
            faults.extend(more);
            taken = held;
        }
        Some(RegistrationError::SourceTaken(id)) => {
            let (asked, held) = (id.clone(), id);
            return Err(reserved(&IdTaken { asked, held, holder: Holder::Server }));
        }
        Some(RegistrationError::Reserved(taken)) => return Err(reserved(&taken)),
        Some(error @ RegistrationError::ForeignManifest { .. }) => {
            return Err(PackRefusal::InvalidManifest(error.to_string()));
        }
        None => {}
    }
    let lines: Vec<String> =
        faults.iter().map(fault_line).chain(taken.iter().map(conflict_line)).collect();
    match (faults.is_empty(), taken.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(PackRefusal::NameTaken(within_bounds(pack, &lines))),
        (false, _) => Err(PackRefusal::InvalidManifest(within_bounds(pack, &lines))),
    }
}

/// A pack whose id the operator has given to another source.
fn reserved(taken: &IdTaken) -> PackRefusal {
    PackRefusal::NameTaken(format!("{taken}; give the pack another name"))
}

/// A pack that names itself otherwise than it has proved.
pub(super) fn unknown_pack_id(claimed: &str, proved: &str) -> PackRefusal {
    PackRefusal::ForeignId(format!(
        "this connection was proved for pack `{proved}`, and the manifest's pack_id is `{}`",
        shown_name(claimed)
    ))
}

fn fault_line(fault: &BadTool) -> String {
    format!("tool `{}`: {}", shown_name(&fault.tool), fault.reason)
}

fn conflict_line(conflict: &NameConflict) -> String {
    let NameConflict { tool, name, holder } = conflict;
    let own = tool.split_once(':').map_or(tool.as_str(), |(_, own)| own);
    format!("tool `{}`: the name `{name}` is taken by `{holder}`", shown_name(own))
}

/// As much as fits, and where the rest is: the gateway's log gets all of a refusal that is cut.
fn within_bounds(pack: &SourceId, lines: &[String]) -> String {
    let mut text = String::new();
    let mut shown = 0;
    for line in lines {
        if text.len() + line.len() > MAX_REFUSAL {
            break;
        }
        text.push_str(line);
        text.push('\n');
        shown += 1;
    }
    if shown == lines.len() {
        text.pop();
        return text;
    }
    for fault in lines {
        tracing::warn!(%pack, fault, "a manifest is refused");
    }
    if let (0, Some(line)) = (shown, lines.first()) {
        text.extend(line.chars().take(MAX_REFUSAL));
        text.push_str("…\n");
        shown = 1;
    }
    let rest = match lines.len() - shown {
        0 => "the gateway's log has all of it".to_owned(),
        left => format!("and {left} more; the gateway's log has all of them"),
    };
    text + &rest
}

#[cfg(test)]
mod tests {
    use drawgate_core::model::{ToolId, WireName};

    use super::*;

    fn refused(faults: Vec<BadTool>, error: Option<RegistrationError>) -> Result<(), PackRefusal> {
        super::refused(&SourceId::new("p").unwrap(), faults, error)
    }

    fn fault(tool: &str, reason: &str) -> BadTool {
        let source_id = SourceId::new("p").unwrap();
        BadTool { source_id, tool: tool.to_owned(), reason: reason.to_owned() }
    }

    fn conflict(tool: &str) -> NameConflict {
        NameConflict {
            tool: format!("p:{tool}"),
            name: WireName::new(tool).unwrap(),
            holder: ToolId::new(&SourceId::new("files").unwrap(), tool).unwrap(),
        }
    }

    #[test]
    fn every_fault_has_its_line() {
        let error = RegistrationError::Refused {
            faults: vec![fault("b", "worse")],
            taken: vec![conflict("c")],
        };
        let lines = "tool `a`: bad\ntool `b`: worse\ntool `c`: the name `c` is taken by `files:c`";
        let refusal = refused(vec![fault("a", "bad")], Some(error)).unwrap_err();
        assert_eq!(refusal, PackRefusal::InvalidManifest(lines.to_owned()));
    }

    #[test]
    fn collisions_alone_are_told_apart() {
        let error = RegistrationError::Refused { faults: Vec::new(), taken: vec![conflict("c")] };
        let refusal = refused(Vec::new(), Some(error)).unwrap_err();
        assert!(matches!(refusal, PackRefusal::NameTaken(_)), "{refusal:?}");
        let taken = RegistrationError::SourceTaken(SourceId::new("p").unwrap());
        let refusal = refused(Vec::new(), Some(taken)).unwrap_err();
        assert!(matches!(refusal, PackRefusal::NameTaken(_)), "{refusal:?}");
        assert!(refused(Vec::new(), None).is_ok());
    }

    #[test]
    fn a_long_refusal_is_cut_between_lines() {
        let faults = (0..1000).map(|number| fault(&format!("t{number}"), "bad")).collect();
        let message = refused(faults, None).unwrap_err().to_string();
        assert!(message.len() < MAX_REFUSAL + 100, "{}", message.len());
        let last = message.lines().last().unwrap();
        let shown = message.lines().count() - 1;
        let rest = 1000 - shown;
        assert_eq!(last, format!("and {rest} more; the gateway's log has all of them"));
        let one = refused(vec![fault("t", &"x".repeat(10_000))], None).unwrap_err();
        let said = one.to_string();
        assert!(said.ends_with("…\nthe gateway's log has all of it"), "{said}");
        assert!(said.len() < MAX_REFUSAL + 100, "{}", said.len());
    }
}
