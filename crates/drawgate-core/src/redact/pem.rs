//! Private keys in PEM blocks, also inside one line where the line ends are escaped.

use super::spans::Spans;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const KEY: &str = "PRIVATE KEY";
/// The longest label is `ENCRYPTED PRIVATE KEY`; PGP adds `BLOCK`.
const LONGEST_LABEL: usize = 48;

/// Notes every private key. One without an end is hidden up to the end of the text.
pub(super) fn find(text: &str, spans: &mut Spans) {
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(|rest| rest.find(BEGIN)).map(|at| from + at) {
        let label = start + BEGIN.len();
        from = label;
        if !has_key_label(text, label) {
            continue;
        }
        let end = text.get(label..).and_then(|rest| rest.find(END)).map_or(text.len(), |at| {
            let label = label + at + END.len();
            let rest = text.get(label..).unwrap_or_default();
            rest.find("-----").filter(|at| *at <= LONGEST_LABEL).map_or(label, |at| label + at + 5)
        });
        spans.push(start..end);
        from = end;
    }
}

fn has_key_label(text: &str, from: usize) -> bool {
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    let label = rest.get(..LONGEST_LABEL.min(rest.len())).unwrap_or_default();
    label.windows(KEY.len()).any(|part| part == KEY.as_bytes())
        && !label.starts_with(b"CERTIFICATE")
        && !label.starts_with(b"PUBLIC")
}
