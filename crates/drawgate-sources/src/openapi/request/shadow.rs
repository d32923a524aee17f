//! Members of an object that is written apart become parameters of their own. None may stand where a
//! parameter of another schema stands, or a credential.

use std::cell::OnceCell;
use std::collections::HashSet;

use serde_json::Value;

use super::{encode, style};
use crate::openapi::parameter::{Place, Provided, Reserved, Style, Writing, folded};

/// What is wrong with such an object.
pub(super) const SHADOWS: &str =
    "a member has the name of another parameter, or of one that the connector sets; rename it";

/// The names beside which a value is written.
pub(super) struct Beside<'a> {
    pub(super) place: Place,
    /// The value's own.
    pub(super) own: &'a str,
    /// The value's own may be among them.
    pub(super) others: Names<'a>,
    pub(super) provided: Option<&'a Provided>,
}

/// Names of one place. Callers choose how many members are compared with how many names, so members
/// are looked up in sets, which are made when the first one is.
pub(super) struct Names<'a> {
    all: Vec<&'a str>,
    sets: OnceCell<Sets<'a>>,
}

struct Sets<'a> {
    exact: HashSet<&'a str>,
    folded: HashSet<String>,
}

impl<'a> FromIterator<&'a str> for Names<'a> {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        Self { all: names.into_iter().collect(), sets: OnceCell::new() }
    }
}

impl<'a> Names<'a> {
    fn sets(&self, place: Place) -> &Sets<'a> {
        self.sets.get_or_init(|| Sets {
            exact: self.all.iter().copied().collect(),
            folded: self.all.iter().map(|name| folded(place, name)).collect(),
        })
    }
}

impl Beside<'_> {
    /// Whether a value brings a name along that is another's.
    pub(super) fn is_shadowed_by(&self, value: &Value, writing: Writing) -> bool {
        let own = folded(self.place, self.own);
        brought(self.own, value, writing).iter().any(|name| self.is_taken(name, &own))
    }

    fn is_taken(&self, name: &str, own: &str) -> bool {
        let meant = folded(self.place, name);
        // `filter[a]` belongs to `filter`, unless another parameter has exactly this name.
        let others = self.others.sets(self.place);
        let is_others = if meant == own {
            name != self.own && others.exact.contains(name)
        } else {
            others.folded.contains(&meant)
        };
        is_others || self.provided.is_some_and(|provided| provided.contains(&(self.place, meant)))
    }
}

fn brought(own: &str, value: &Value, writing: Writing) -> Vec<String> {
    match (writing, value) {
        (Writing::Styled { style: Style::DeepObject, .. }, Value::Object(_) | Value::Array(_)) => {
            let pairs = style::field(own, value, writing, Reserved::Encoded);
            let names = pairs.iter().filter_map(|pair| pair.split('=').next());
            names.map(encode::decoded).collect()
        }
        (Writing::Styled { explode: true, .. }, Value::Object(map)) => {
            map.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key.clone()).collect()
        }
        (Writing::Styled { .. } | Writing::Json, _) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FORM: Writing = Writing::Styled { style: Style::Form, explode: true };
    const JOINED: Writing = Writing::Styled { style: Style::Form, explode: false };
    const DEEP: Writing = Writing::Styled { style: Style::DeepObject, explode: true };

    #[test]
    fn no_member_takes_anothers_place() {
        let provided = Provided::from([(Place::Query, folded(Place::Query, "api key"))]);
        for (writing, value, expected) in [
            (FORM, json!({ "free": 1 }), false),
            (FORM, json!({ "filter": 1 }), false),
            (FORM, json!({ "limit": 1 }), true),
            (FORM, json!({ "LIMIT": 1 }), true),
            (FORM, json!({ "limit[]": 1 }), true),
            (FORM, json!({ "limit[0]": 1 }), true),
            (FORM, json!({ "limit\u{0}x": 1 }), true),
            (FORM, json!({ " limit": 1 }), true),
            (FORM, json!({ "limit": null }), false),
            (FORM, json!({ "limited": 1 }), false),
            (FORM, json!({ "api key": "ATTACKER" }), true),
            (FORM, json!({ "api_key": "ATTACKER" }), true),
            (FORM, json!({ "api.key": "ATTACKER" }), true),
            (FORM, json!({ "filter[own]": 1 }), true),
            (FORM, json!({ "filter[free]": 1 }), false),
            (FORM, json!(["limit"]), false),
            (FORM, json!("limit"), false),
            (JOINED, json!({ "limit": 1 }), false),
            (Writing::Json, json!({ "limit": 1 }), false),
            (DEEP, json!({ "limit": 1 }), false),
            (DEEP, json!({ "own": 1 }), true),
            (DEEP, json!({ "a": { "b": 1 } }), false),
            (DEEP, json!({ "a][c": 1 }), true),
            (DEEP, json!({ "a": { "c": 1 } }), true),
        ] {
            let others = ["filter", "limit", "filter[own]", "filter[a][c]"].into_iter().collect();
            let provided = Some(&provided);
            let beside = Beside { place: Place::Query, own: "filter", others, provided };
            assert_eq!(beside.is_shadowed_by(&value, writing), expected, "{writing:?} {value}");
        }
    }
}
