//! What a source asks of a person, so that the person can see who asks.
//!
//! The text is the source's own and may pretend to be the gateway's. The gate's own questions do not
//! come through here.

use serde_json::{Map, Value};

use crate::model::SourceId;
use crate::registry::visible_text;

/// Puts the source's name before each text that a person will read, and shows what hides in it.
pub(super) fn sign(requests: &mut Map<String, Value>, source: &SourceId) {
    for request in requests.values_mut() {
        if let Some(Value::String(message)) = request.pointer_mut("/params/message") {
            *message = format!("[{source}] {}", visible_text(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_person_sees_who_asks_and_everything_that_is_asked() {
        let Value::Object(mut requests) = json!({
            "a": { "method": "form", "params": { "message": "sure\u{202e}?\nyes" } },
            "b": { "method": "page", "params": { "mode": "url", "message": "look" } },
            "c": { "method": "model", "params": { "messages": [{ "message": "x" }] } },
            "d": { "method": "form", "params": { "message": 7 } },
            "e": { "method": "folders" },
        }) else {
            panic!("not an object")
        };
        sign(&mut requests, &SourceId::new("notes").unwrap());
        assert_eq!(requests["a"]["params"]["message"], "[notes] sure\\u{202e}?\nyes");
        assert_eq!(requests["b"]["params"]["message"], "[notes] look");
        assert_eq!(requests["c"]["params"]["messages"][0]["message"], "x");
        assert_eq!(requests["d"]["params"]["message"], 7);
        assert_eq!(requests["e"], json!({ "method": "folders" }));
    }
}
