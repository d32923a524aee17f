//! YAML within a budget: what a document may hold is known before it is read, and no alias makes it grow.

use serde::de::DeserializeOwned;

/// How much of the parser's message is shown.
const SHOWN: usize = 300;
/// How deep aliases may stand in what aliases repeat.
const REPLAY_DEPTH: usize = 16;

/// What a document may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct YamlLimits {
    /// How deep values nest.
    pub depth: usize,
    /// Scalars, lists and maps.
    pub nodes: usize,
    /// Aliases, anchors and merged maps, each.
    pub aliases: usize,
    /// Events of the parser that aliases repeat.
    pub replayed: usize,
}

/// Why a text is not YAML, or holds too much.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    /// The line, if it is known.
    pub line: Option<u32>,
    /// What is wrong.
    pub message: String,
}

/// Reads one document. `yes` and `no` are texts.
pub fn parse<T: DeserializeOwned>(bytes: &[u8], limits: YamlLimits) -> Result<T, YamlError> {
    let YamlLimits { depth, nodes, aliases, replayed } = limits;
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: depth,
            max_documents: 1,
            max_nodes: nodes,
            max_events: nodes.saturating_mul(2),
            max_aliases: aliases,
            max_anchors: aliases,
            max_merge_keys: aliases,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: replayed,
            max_replay_stack_depth: REPLAY_DEPTH,
        },
    };
    serde_saphyr::from_slice_with_options(bytes, options).map_err(|error| YamlError {
        line: error.location().and_then(|place| known_line(place.line())),
        message: words(error.without_snippet()).chars().take(SHOWN).collect(),
    })
}

/// What is wrong, for the author of the document.
fn words(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key `{}` is there twice; remove one", key.escape_debug())
        }
        other => other.render_with_formatter(&serde_saphyr::UserMessageFormatter),
    }
}

/// A line that is known; the parser calls others 0.
#[must_use]
pub fn known_line(line: u64) -> Option<u32> {
    u32::try_from(line).ok().filter(|line| *line > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{YamlLimits, parse};

    const LIMITS: YamlLimits = YamlLimits { depth: 8, nodes: 50, aliases: 8, replayed: 20 };

    #[test]
    fn a_document_within_its_limits_is_read() {
        let text = b"a: &x [1, yes]\nb: *x\n";
        let value: Value = parse(text, LIMITS).unwrap();
        assert_eq!(value, json!({ "a": [1, "yes"], "b": [1, "yes"] }));
    }

    #[test]
    fn what_goes_beyond_a_limit_is_refused() {
        let deep = format!("{}{}", "[".repeat(9), "]".repeat(9));
        let many = format!("[{}]", "1,".repeat(51));
        let aliases = format!("- &a 1\n{}", "- *a\n".repeat(9));
        let growing = "a: &a [1, 1, 1, 1, 1]\nb: &b [*a, *a]\nc: [*b, *b]\n".to_owned();
        for text in [deep, many, aliases, growing, "a: 1\n---\nb: 2\n".to_owned()] {
            let refused = parse::<Value>(text.as_bytes(), LIMITS);
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
    }

    #[test]
    fn mistakes_have_their_line() {
        let error = parse::<Value>(b"a: 1\nb: [\n", LIMITS).unwrap_err();
        assert!(error.line.is_some_and(|line| line >= 2), "{error:?}");
        let error = parse::<Value>(b"a: \xff\n", LIMITS).unwrap_err();
        assert!(!error.message.is_empty());
    }
}
