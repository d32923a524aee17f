//! "Did you mean …?"

use strsim::osa_distance;

/// The candidate that `typed` is most probably a misspelling of.
#[must_use]
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong; with more, a suggestion is a guess.
    let allowed = typed.chars().count().max(3) / 3;
    let typed = plain(typed);
    candidates
        .into_iter()
        .map(|candidate| (osa_distance(&typed, &plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The word without what does not count as a difference: `maxBodyBytes` is `max_body_bytes`.
fn plain(word: &str) -> String {
    word.chars().filter(|c| *c != '_' && *c != '-').flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_misspellings_and_only_those() {
        let known = ["command", "args", "env", "url", "max_body_bytes", "timeout_seconds"];
        let cases = [
            ("comand", Some("command")),
            ("commnad", Some("command")),
            ("arg", Some("args")),
            ("agrs", Some("args")),
            ("maxBodyBytes", Some("max_body_bytes")),
            ("timeout-secs", Some("timeout_seconds")),
            ("uri", Some("url")),
            ("colour", None),
            ("", None),
        ];
        for (typed, expected) in cases {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
    }
}
