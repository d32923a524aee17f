//! What masks stand for: each one with a description of what it hides, so that a person who reads a
//! redacted payload knows how much of it is not shown.

use serde_json::{Map, Value};

use super::MASK;
use crate::canonical;

/// The redacted object with every mask replaced by `[REDACTED: …]`, where `describe` says what to put
/// there, given the place in the object and the hidden text. `exact` is the object before redaction.
pub fn describe_masks(
    exact: &Map<String, Value>,
    redacted: &Map<String, Value>,
    describe: &mut dyn FnMut(&str, &str) -> String,
) -> Map<String, Value> {
    Walk { describe, place: String::new() }.map(exact, redacted)
}

/// Whether [`describe_masks`] has left its mark anywhere in the value. One that was written by the
/// caller counts as well: it hides nothing, and nothing is lost by a look.
#[must_use]
pub fn has_masks(value: &Value) -> bool {
    let text = value.to_string();
    text.contains(MARK) || text.contains(WHOLE)
}

const MARK: &str = "[REDACTED: ";
const WHOLE: &str = " [in full: ";

struct Walk<'d> {
    describe: &'d mut dyn FnMut(&str, &str) -> String,
    /// The way to the present value, as in a JSON pointer.
    place: String,
}

impl Walk<'_> {
    fn map(
        &mut self,
        exact: &Map<String, Value>,
        redacted: &Map<String, Value>,
    ) -> Map<String, Value> {
        let shown = exact.iter().map(|(name, value)| match redacted.get(name) {
            Some(redacted) => (name.clone(), self.at(name, |walk| walk.value(value, redacted))),
            None => (self.hidden(name), self.at(MASK, |walk| walk.whole(value))),
        });
        shown.collect()
    }

    fn value(&mut self, exact: &Value, redacted: &Value) -> Value {
        match (exact, redacted) {
            _ if exact == redacted => exact.clone(),
            (Value::String(exact), Value::String(redacted)) => {
                Value::String(self.text(exact, redacted))
            }
            (Value::Array(exact), Value::Array(redacted)) if exact.len() == redacted.len() => {
                let items = exact.iter().zip(redacted).enumerate();
                let shown = items.map(|(at, (exact, redacted))| {
                    self.at(&at.to_string(), |walk| walk.value(exact, redacted))
                });
                Value::Array(shown.collect())
            }
            (Value::Object(exact), Value::Object(redacted)) => {
                Value::Object(self.map(exact, redacted))
            }
            _ => self.whole(exact),
        }
    }

    /// A value of which nothing is shown.
    fn whole(&mut self, exact: &Value) -> Value {
        Value::String(match exact {
            Value::String(text) => self.hidden(text),
            other => self.hidden(&canonical::to_string(other)),
        })
    }

    /// A text of which parts are shown. Where the shown parts are not those of the exact text, because
    /// it was decoded or written anew, the whole of it is described at its end.
    fn text(&mut self, exact: &str, redacted: &str) -> String {
        let Some(parts) = hidden_parts(exact, redacted) else {
            let about = (self.describe)(&self.place, exact);
            return format!("{redacted}{WHOLE}{about}]");
        };
        let mut shown = String::new();
        let mut hidden = parts.into_iter();
        for (at, kept) in redacted.split(MASK).enumerate() {
            if at > 0 {
                shown.push_str(&self.hidden(hidden.next().unwrap_or_default()));
            }
            shown.push_str(kept);
        }
        shown
    }

    fn hidden(&mut self, text: &str) -> String {
        format!("{MARK}{}]", (self.describe)(&self.place, text))
    }

    fn at<T>(&mut self, name: &str, walk: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.place.len();
        self.place.push('/');
        self.place.push_str(name);
        let done = walk(self);
        self.place.truncate(before);
        done
    }
}

/// What each mask hides, if what stands between the masks is what stands in the exact text.
fn hidden_parts<'t>(exact: &'t str, redacted: &str) -> Option<Vec<&'t str>> {
    let mut kept = redacted.split(MASK);
    let mut rest = exact.strip_prefix(kept.next()?)?;
    let mut hidden = Vec::new();
    let mut kept = kept.peekable();
    while let Some(next) = kept.next() {
        if kept.peek().is_none() {
            hidden.push(rest.strip_suffix(next)?);
            return Some(hidden);
        }
        let (part, after) = rest.split_at_checked(rest.find(next)?)?;
        hidden.push(part);
        rest = after.strip_prefix(next)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Redactor;
    use super::*;

    #[track_caller]
    fn check(exact: Value, expected: &Value) {
        let Value::Object(exact) = exact else { panic!("not an object") };
        let redactor = Redactor::new(["hunter-nG5ZFJoC6vWCBi"]);
        let redacted = redactor.redact_map(&exact, &[]).into_owned();
        let mut places = Vec::new();
        let shown = describe_masks(&exact, &redacted, &mut |place, hidden| {
            places.push(place.to_owned());
            format!("{} at {place}", hidden.len())
        });
        assert_eq!(&Value::Object(shown), expected);
        assert!(places.iter().all(|place| !place.contains("hunter")), "{places:?}");
    }

    #[test]
    fn each_mask_says_how_much_it_hides() {
        check(json!({ "a": 1, "b": "plain" }), &json!({ "a": 1, "b": "plain" }));
        check(json!({ "token": "abcdef" }), &json!({ "token": "[REDACTED: 6 at /token]" }));
        check(json!({ "token": { "a": 1 } }), &json!({ "token": "[REDACTED: 7 at /token]" }));
        check(
            json!({ "cmd": ["run --token=abc -v --password xyz now"] }),
            &json!({ "cmd": [
                "run --token=[REDACTED: 3 at /cmd/0] -v --password [REDACTED: 3 at /cmd/0] now"
            ] }),
        );
        check(
            json!({ "hunter-nG5ZFJoC6vWCBi": "x", "command": "rm" }),
            &json!({ "[REDACTED: 21 at ]": "[REDACTED: 1 at /[REDACTED]]", "command": "rm" }),
        );
        check(
            json!({ "body": "{\"a\": 1, \"token\": \"x\"}" }),
            &json!({ "body": "{\"a\":1,\"token\":\"[REDACTED]\"} [in full: 22 at /body]" }),
        );
        check(
            json!({ "text": "[REDACTED] and token=abc" }),
            &json!({ "text": "[REDACTED: 10 at /text] and token=[REDACTED: 3 at /text]" }),
        );
    }
}
