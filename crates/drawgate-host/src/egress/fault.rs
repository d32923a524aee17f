//! Where the fault is in a head that can't be read.

use super::redirect::is_redirect;

/// Where the status is, as in `HTTP/1.1 302 Found`.
const STATUS: std::ops::Range<usize> = 9..12;

/// Whether a redirect's head is broken by its `Location`: by the line itself, or by a line after it
/// that is no header, and so what a line end in the address has cut off.
pub(super) fn is_in_location(head: &[u8]) -> bool {
    let mut lines =
        head.split(|byte| *byte == b'\n').map(|it| it.strip_suffix(b"\r").unwrap_or(it));
    let status = lines.next().and_then(|line| std::str::from_utf8(line.get(STATUS)?).ok());
    if !status.and_then(|status| status.parse().ok()).is_some_and(is_redirect) {
        return false;
    }
    let mut after_location = false;
    // What is after an empty line is no longer of the head, and at the very end it is a line to come.
    for line in lines.take_while(|line| !line.is_empty()) {
        let is_location = name(line).trim_ascii_end().eq_ignore_ascii_case(b"location");
        if !is_named(line) {
            return is_location || after_location;
        }
        if !line.iter().copied().all(is_legal) {
            return is_location;
        }
        after_location = is_location;
    }
    false
}

fn name(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b':').next().unwrap_or_default()
}

/// Whether a line begins as headers do.
fn is_named(line: &[u8]) -> bool {
    let name = name(line);
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.len() < line.len() && name.iter().all(token)
}

/// Whether a header may hold it.
const fn is_legal(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
