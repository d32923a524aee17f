//! Names of tools from what authors call their operations.

use http::Method;
use sha2::{Digest, Sha256};

/// The longest name: clients put `mcp__drawgate__` in front, and many model APIs count the sum
/// against 64.
const MAX_NAME: usize = 48;
/// Hexadecimal digits that tell apart what was cut.
const HASH_DIGITS: usize = 8;

/// A name for what has none: `GET /pets/{petId}` is `get_pets_by_pet_id`.
pub(super) fn of_place(method: &Method, path: &str) -> String {
    let mut words = vec![method.as_str().to_ascii_lowercase()];
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(parameter) => words.push(format!("by_{parameter}")),
            None => words.push(segment.to_owned()),
        }
    }
    words_of(&words.join("_"))
}

/// `getPetById`, `pets/get-by-id` and `Get Pet By ID` in the spelling of tools.
pub(super) fn snake_case(text: &str) -> String {
    let words = words_of(text);
    match words.chars().next() {
        Some('a'..='z') if words.len() > 1 => words,
        Some(_) => format!("op_{words}"),
        None => hashed("op", text),
    }
}

/// A name behind a prefix, short enough.
pub(super) fn with_prefix(prefix: &str, name: &str) -> String {
    let whole = format!("{prefix}{name}");
    if whole.len() <= MAX_NAME { whole } else { hashed(&whole, &whole) }
}

/// A name with the hash of something that tells it apart.
pub(super) fn hashed(name: &str, distinct: &str) -> String {
    let digest = Sha256::digest(distinct.as_bytes());
    let first = digest.iter().take(HASH_DIGITS / 2);
    let number = first.fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
    let digits = format!("{number:0HASH_DIGITS$x}");
    let head: String = name.chars().take(MAX_NAME - HASH_DIGITS - 1).collect();
    format!("{}_{digits}", head.trim_end_matches('_'))
}

fn words_of(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 8);
    let mut before: Option<char> = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c.is_ascii_alphanumeric() {
            let follows_lower =
                before.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            let ends_acronym = before.is_some_and(|b| b.is_ascii_uppercase())
                && rest.peek().is_some_and(char::is_ascii_lowercase);
            if c.is_ascii_uppercase() && (follows_lower || ends_acronym) {
                words.push('_');
            }
            words.push(c.to_ascii_lowercase());
        } else if !words.is_empty() && !words.ends_with('_') {
            words.push('_');
        }
        before = Some(c);
    }
    words.truncate(words.trim_end_matches('_').len());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal_and_readable() {
        for (id, expected) in [
            ("getPetById", "get_pet_by_id"),
            ("pets/get-by-id", "pets_get_by_id"),
            ("HTTPServerStatus", "http_server_status"),
            ("listV2Items", "list_v2_items"),
            ("  Get\u{0}Pet\n", "get_pet"),
            ("2fa", "op_2fa"),
            ("x", "op_x"),
            ("\u{202e}", "op_"),
            ("Größe", "gr_e"),
        ] {
            let name = snake_case(id);
            assert!(name.starts_with(expected), "{id:?}: {name}");
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(legal) && name.len() > 1, "{name}");
        }
    }

    #[test]
    fn places_are_names_too() {
        let name = |path| of_place(&Method::GET, path);
        assert_eq!(name("/pets/{petId}/toys"), "get_pets_by_pet_id_toys");
        assert_eq!(name("/"), "get");
        assert_eq!(name("/v1.2/a-b"), "get_v1_2_a_b");
    }

    #[test]
    fn long_names_stay_apart() {
        let (one, other) = ("a".repeat(60) + "1", "a".repeat(60) + "2");
        let (one, other) = (with_prefix("gh_", &one), with_prefix("gh_", &other));
        assert_ne!(one, other);
        assert_eq!(one.len(), MAX_NAME);
        assert_eq!(with_prefix("gh_", "list"), "gh_list");
    }
}
