//! Excerpts of what programs say, without the secrets that they were given.
//!
//! Secrets are masked before the text is shortened: otherwise the beginning of one would be left.

/// How many bytes of a text are read into memory.
pub(crate) const MAX_READ: usize = 4 * 1024;
/// How many characters of it are shown.
const MAX_SHOWN: usize = 500;

const MASK: &str = "****";

/// The beginning of a text of which at most [`MAX_READ`] bytes were read.
pub(crate) fn excerpt(text: &str, secrets: &[String]) -> String {
    let is_torn = text.len() >= MAX_READ;
    // The last character may be torn as well.
    let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let shown = mask(text, secrets, is_torn);
    shown.trim().chars().take(MAX_SHOWN).collect()
}

/// The text without secrets.
pub(crate) fn masked(text: &str, secrets: &[String]) -> String {
    mask(text, secrets, false)
}

/// Secrets may overlap, so that each is looked for at each place; at the end of a torn text, its
/// beginning is enough.
fn mask(text: &str, secrets: &[String], is_torn: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut hidden_to = 0;
    for (at, character) in text.char_indices() {
        let rest = text.get(at..).unwrap_or_default();
        let hidden = secrets
            .iter()
            .filter(|secret| rest.starts_with(*secret) || (is_torn && secret.starts_with(rest)))
            .map(String::len)
            .max()
            .unwrap_or_default();
        if hidden > 0 && at >= hidden_to {
            shown.push_str(MASK);
        }
        hidden_to = hidden_to.max(at + hidden);
        if at >= hidden_to {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_secret_is_left_wherever_the_text_is_cut() {
        let secrets = ["hunter2-and-more".to_owned(), "hunter2".to_owned()];
        for before in (470..=520).chain(4070..=4110) {
            let text = format!("{}hunter2-and-more", "x".repeat(before));
            let read = text.get(..MAX_READ).unwrap_or(&text);
            let shown = excerpt(read, &secrets);
            assert!(shown.chars().all(|c| c == 'x' || c == '*'), "{before}: {shown}");
            assert!(shown.len() <= MAX_SHOWN);
        }
        // Masks are short, so that even the end of what was read is shown.
        let long = ["0123456789abcdef".repeat(4)];
        for before in 0..64 {
            let text = format!("{}{}", "x".repeat(before), long[0].repeat(70));
            let shown = excerpt(&text[..MAX_READ], &long);
            assert!(shown.chars().all(|c| c == 'x' || c == '*'), "{before}: {shown}");
        }
    }
}
