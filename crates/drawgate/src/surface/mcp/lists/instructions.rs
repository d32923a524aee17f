//! What clients are told for their models: about the gateway, and what each server behind it says about
//! itself.

use std::fmt::Write as _;

use drawgate_core::pipeline::{Gateway, View};
use drawgate_core::registry::{Snapshot, visible_text};

/// What every client is told about this server.
const OWN: &str = "Drawgate: one gate to many tools. Every call is checked and recorded. A result that is too \
     long comes with a resource link; read it with resources/read. A call that needs a person's approval says \
     so, and succeeds when it is made again after the approval.";
/// Characters of one server's instructions, and of all of them: clients put them into every prompt.
const MAX_EACH: usize = 2_000;
const MAX_ALL: usize = 10_000;

/// The instructions for a caller with this view.
pub(crate) fn of(gateway: &Gateway, view: &View, snapshot: &Snapshot) -> String {
    let open = gateway.usable_sources(view, snapshot);
    let redactor = gateway.redactor();
    let told = snapshot.instructions().filter(|(id, _)| open.contains(*id)).map(|(id, text)| {
        let mut text = text.into();
        redactor.mask_known_in(&mut text);
        (id.as_str(), text.as_str().map(visible_text).unwrap_or_default().into_owned())
    });
    composed(told)
}

fn composed<'a>(told: impl Iterator<Item = (&'a str, String)>) -> String {
    let (mut all, mut left) = (OWN.to_owned(), MAX_ALL);
    let mut left_out = Vec::new();
    for (source, text) in told {
        let shown: String = text.chars().take(MAX_EACH).collect();
        let length = shown.chars().count();
        if length > left {
            left_out.push(source);
            continue;
        }
        left -= length;
        let cut = if shown.len() < text.len() { " (cut)" } else { "" };
        let _ =
            write!(all, "\n\n## What the server `{source}` says about its tools{cut}\n\n{shown}");
    }
    if !left_out.is_empty() {
        let _ = write!(all, "\n\nLeft out, for length: what `{}` says.", left_out.join("`, `"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_under_its_servers_name_and_bounded() {
        assert_eq!(composed(std::iter::empty()), OWN);
        let told = [("a", "Call x first.".to_owned()), ("b", "y".repeat(MAX_EACH + 1))];
        let all = composed(told.into_iter());
        let expected = format!(
            "{OWN}\n\n## What the server `a` says about its tools\n\nCall x first.\n\n\
             ## What the server `b` says about its tools (cut)\n\n{}",
            "y".repeat(MAX_EACH)
        );
        assert_eq!(all, expected);
        let many = (0..8).map(|_| ("c", "z".repeat(MAX_EACH)));
        let all = composed(many);
        assert!(all.ends_with("Left out, for length: what `c`, `c`, `c` says."), "{all}");
        assert!(all.chars().count() < OWN.len() + MAX_ALL + 1_000);
    }
}
