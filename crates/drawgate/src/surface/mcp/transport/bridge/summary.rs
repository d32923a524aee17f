//! What the bridge must know of a message.

use drawgate_core::json;
use serde_json::Value;

use crate::surface::mcp::wire::era::META_VERSION;
use crate::surface::mcp::wire::method::{Method, MethodName};

/// The kinds of messages that the bridge treats in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Initialize,
    /// A request within a session.
    Request,
    /// A request that stands alone, by revision 2026-07-28.
    Alone,
    /// Such a one that lasts until it is ended.
    Listen,
    Notification,
    /// The notification that a request is given up.
    Cancel,
    /// An answer to a question of the gateway's.
    Response,
}

/// What the bridge must know of a message; the gateway validates it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MessageSummary {
    pub(crate) kind: Kind,
    /// The request's id, or that of the request to cancel, as JSON.
    pub(crate) id: String,
}

impl MessageSummary {
    pub(crate) fn of(line: &[u8]) -> Self {
        let value = json::parse(line).unwrap_or_default();
        let params = &value["params"];
        let alone = !params["_meta"][META_VERSION].is_null();
        let method = value["method"].as_str().map(|name| MethodName::new(name.to_owned()));
        let kind = match (method, value.get("id")) {
            (Some(method), _) if method.is(Method::Initialize) => Kind::Initialize,
            (Some(method), None) if method.is(Method::Cancelled) => Kind::Cancel,
            (Some(method), Some(_)) if method.is(Method::Listen) => Kind::Listen,
            (Some(_), Some(_)) if alone => Kind::Alone,
            (None, Some(_)) if value.get("method").is_none() => Kind::Response,
            (_, None) if value.is_object() => Kind::Notification,
            _ => Kind::Request,
        };
        let id = if kind == Kind::Cancel { params.get("requestId") } else { value.get("id") };
        Self { kind, id: id.map(Value::to_string).unwrap_or_default() }
    }
}

/// The id of a message that is a request of the gateway's.
pub(crate) fn question_id(message: &[u8]) -> Option<Value> {
    let message = json::parse(message).ok()?;
    message.get("method")?;
    message.get("id").cloned()
}

/// The id of a message.
pub(crate) fn request_id(line: &[u8]) -> Option<Value> {
    json::parse(line).ok()?.get("id").cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_at_a_glance() {
        let alone =
            r#""params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        let rows = [
            (r#"{"id":1,"method":"initialize"}"#.to_owned(), Kind::Initialize, "1"),
            (r#"{"id":"1","method":"tools/list"}"#.to_owned(), Kind::Request, "\"1\""),
            (format!(r#"{{"id":2,"method":"tools/call",{alone}}}"#), Kind::Alone, "2"),
            (format!(r#"{{"id":3,"method":"subscriptions/listen",{alone}}}"#), Kind::Listen, "3"),
            (r#"{"method":"notifications/initialized"}"#.to_owned(), Kind::Notification, ""),
            (
                r#"{"method":"notifications/cancelled","params":{"requestId":2}}"#.to_owned(),
                Kind::Cancel,
                "2",
            ),
            (r#"{"id":"q","result":{}}"#.to_owned(), Kind::Response, "\"q\""),
            (r#"{"id":"q","error":{"code":1}}"#.to_owned(), Kind::Response, "\"q\""),
            (r#"{"id":4,"method":5}"#.to_owned(), Kind::Request, "4"),
            ("[1]".to_owned(), Kind::Request, ""),
            ("nonsense".to_owned(), Kind::Request, ""),
        ];
        for (line, kind, id) in rows {
            let expected = MessageSummary { kind, id: id.to_owned() };
            assert_eq!(MessageSummary::of(line.as_bytes()), expected, "{line}");
        }
    }
}
