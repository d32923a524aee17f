//! Scopes: how they are read, and which are asked for.

use std::collections::BTreeSet;

/// Most scopes that are asked for; a server that lists more lists too many.
const MAX_SCOPES: usize = 128;
/// The longest scope.
const MAX_LENGTH: usize = 256;
/// The scope that brings a refresh token where the authorization server offers it.
const OFFLINE: &str = "offline_access";

/// What can be known about the scopes of a login.
#[derive(Debug, Default)]
pub(super) struct Known<'a> {
    /// The operator's own choice.
    pub(super) configured: &'a [String],
    /// In the server's challenge.
    pub(super) challenged: &'a [String],
    /// In the server's metadata.
    pub(super) resource: &'a [String],
    /// In the authorization server's metadata.
    pub(super) offered: &'a [String],
    /// What an earlier login has.
    pub(super) held: &'a [String],
    /// What a request lacked since then.
    pub(super) lacking: &'a [String],
}

impl Known<'_> {
    /// The scopes to ask for; none means that the parameter is left out.
    pub(super) fn choose(&self) -> Vec<String> {
        let first = [self.configured, self.challenged, self.resource];
        let mut chosen =
            first.into_iter().find(|list| !list.is_empty()).unwrap_or_default().to_vec();
        if !self.lacking.is_empty() {
            // A step up keeps what there was, or the next call of the other kind would step up again.
            chosen.extend(self.held.iter().chain(self.lacking).cloned());
        }
        let offline = self.offered.iter().any(|scope| scope == OFFLINE);
        // By itself it would replace the scopes that the server gives by default.
        if offline && !chosen.is_empty() {
            chosen.push(OFFLINE.to_owned());
        }
        unique(chosen)
    }
}

/// The scopes in a text, without those that can't be one.
pub(super) fn split(text: &str) -> Vec<String> {
    unique(text.split(' ').filter(|scope| is_scope(scope)).map(str::to_owned))
}

/// The scopes in a list of metadata.
pub(super) fn listed(value: Option<&serde_json::Value>) -> Vec<String> {
    let list = value.and_then(serde_json::Value::as_array).map_or(&[][..], Vec::as_slice);
    let texts = list.iter().filter_map(serde_json::Value::as_str);
    unique(texts.filter(|scope| is_scope(scope)).map(str::to_owned))
}

/// What there was, and what comes to it.
pub(super) fn joined(held: &[String], more: &[String]) -> Vec<String> {
    unique(held.iter().chain(more).cloned())
}

/// In the first order, each once, not too many.
fn unique(scopes: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    scopes.into_iter().filter(|scope| seen.insert(scope.clone())).take(MAX_SCOPES).collect()
}

fn is_scope(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !text.is_empty() && text.len() <= MAX_LENGTH && text.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_scopes_are_asked_for() {
        let list = split;
        let (none, a, b, c) = (list(""), list("a"), list("b"), list("c"));
        let offered = list("x offline_access");
        let known = |configured, challenged, resource, offered, held, lacking| {
            Known { configured, challenged, resource, offered, held, lacking }.choose().join(" ")
        };
        assert_eq!(known(&none, &none, &none, &none, &none, &none), "");
        assert_eq!(known(&none, &none, &none, &offered, &none, &none), "");
        assert_eq!(known(&none, &none, &c, &none, &a, &none), "c");
        assert_eq!(known(&none, &b, &c, &none, &none, &none), "b");
        assert_eq!(known(&a, &b, &c, &none, &none, &none), "a");
        assert_eq!(known(&none, &b, &c, &offered, &none, &none), "b offline_access");
        assert_eq!(known(&none, &a, &none, &none, &b, &c), "a b c");
        assert_eq!(known(&none, &none, &none, &none, &b, &c), "b c");
        assert_eq!(known(&none, &offered, &none, &offered, &none, &none), "x offline_access");
    }

    #[test]
    fn what_is_lacking_does_not_grow_without_end() {
        let mut lacking = split("a b");
        assert_eq!(joined(&lacking, &split("b c")), ["a", "b", "c"]);
        for number in 0..500 {
            lacking = joined(&lacking, &split(&format!("s{number}")));
        }
        assert_eq!(lacking.len(), MAX_SCOPES);
    }

    #[test]
    fn what_can_not_be_a_scope_is_dropped() {
        assert_eq!(split("a  b a\u{7} \"q\" ü c:d/e"), ["a", "b", "c:d/e"]);
        let value = serde_json::json!(["a", 1, "b c", "", "d"]);
        assert_eq!(listed(Some(&value)), ["a", "d"]);
        assert_eq!(split(&"x ".repeat(500)).len(), 1);
        let many: Vec<String> = (0..500).map(|n| format!("s{n}")).collect();
        assert_eq!(split(&many.join(" ")).len(), MAX_SCOPES);
    }
}
