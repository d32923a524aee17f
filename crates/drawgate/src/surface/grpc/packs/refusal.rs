//! Why a manifest is refused, in words that fit into a gRPC status.

use drawgate_core::model::{SourceId, shown_name};
use drawgate_core::registry::{BadTool, Holder, NameConflict, RegistrationError};
use tonic::Status;

/// Bytes of a refusal. It travels in a header, percent-encoded, and many clients take 8 KiB of them.
const MAX_REFUSAL: usize = 3 * 1024;

/// Says what is wrong with a manifest, each fault on a line of its own; nothing if there is none.
pub(super) fn refused(
    mut faults: Vec<BadTool>,
    error: Option<RegistrationError>,
) -> Result<(), Status> {
    let mut taken = Vec::new();
    match error {
        Some(RegistrationError::Refused { faults: more, taken: held }) => {
            faults.extend(more);
            taken = held;
        }
        Some(RegistrationError::SourceTaken(id)) => {
            return Err(reserved(&id, Holder::Server));
        }
        Some(RegistrationError::Reserved { id, holder }) => return Err(reserved(&id, holder)),
        Some(error @ RegistrationError::ForeignManifest { .. }) => {
            return Err(Status::invalid_argument(error.to_string()));
        }
        None => {}
    }
    let lines: Vec<String> =
        faults.iter().map(fault_line).chain(taken.iter().map(conflict_line)).collect();
    match (faults.is_empty(), taken.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(Status::already_exists(within_bounds(&lines))),
        (false, _) => Err(Status::invalid_argument(within_bounds(&lines))),
    }
}

/// A pack whose id the operator has given to somebody else.
fn reserved(id: &SourceId, holder: Holder) -> Status {
    Status::already_exists(format!("`{id}` is {holder}; give the pack another name"))
}

/// A pack that names itself otherwise than it has proved.
pub(super) fn unknown_pack_id(claimed: &str, proved: &str) -> Status {
    Status::permission_denied(format!(
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

/// As many lines as fit, and how many more there are.
fn within_bounds(lines: &[String]) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        if text.len() + line.len() > MAX_REFUSAL && index > 0 {
            return format!("{text}\nand {} more", lines.len() - index);
        }
        if index > 0 {
            text.push('\n');
        }
        text.extend(line.chars().take(MAX_REFUSAL));
    }
    text
}

#[cfg(test)]
mod tests {
    use drawgate_core::model::{ToolId, WireName};
    use tonic::Code;

    use super::*;

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
        let status = refused(vec![fault("a", "bad")], Some(error)).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(
            status.message(),
            "tool `a`: bad\ntool `b`: worse\ntool `c`: the name `c` is taken by `files:c`"
        );
    }

    #[test]
    fn collisions_alone_are_told_apart() {
        let error = RegistrationError::Refused { faults: Vec::new(), taken: vec![conflict("c")] };
        assert_eq!(refused(Vec::new(), Some(error)).unwrap_err().code(), Code::AlreadyExists);
        let taken = RegistrationError::SourceTaken(SourceId::new("p").unwrap());
        assert_eq!(refused(Vec::new(), Some(taken)).unwrap_err().code(), Code::AlreadyExists);
        assert!(refused(Vec::new(), None).is_ok());
    }

    #[test]
    fn a_long_refusal_is_cut_between_lines() {
        let faults = (0..1000).map(|number| fault(&format!("t{number}"), "bad")).collect();
        let message = refused(faults, None).unwrap_err().message().to_owned();
        assert!(message.len() < MAX_REFUSAL + 100, "{}", message.len());
        let last = message.lines().last().unwrap();
        let shown = message.lines().count() - 1;
        assert_eq!(last, format!("and {} more", 1000 - shown));
        let one = refused(vec![fault("t", &"x".repeat(10_000))], None).unwrap_err();
        assert_eq!(one.message().len(), MAX_REFUSAL);
    }
}
