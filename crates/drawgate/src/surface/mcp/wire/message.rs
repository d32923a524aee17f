//! JSON-RPC messages: parsed strictly, answered exactly.

use drawgate_core::json::{self, JsonError, Outermost};
use drawgate_core::model::shown_name;
use http::StatusCode;
use serde_json::{Map, Value};

use super::method::MethodName;

/// Longest id that a client may choose.
const MAX_ID: usize = 256;
/// Longest method name worth looking at.
const MAX_METHOD: usize = 128;

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
/// Revision 2026-07-28: a header does not match the body.
pub(crate) const HEADER_MISMATCH: i64 = -32020;
/// Revision 2026-07-28: the protocol version is not supported.
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
/// Revisions with sessions: no such session.
pub(crate) const SESSION_NOT_FOUND: i64 = -32001;
/// Revisions with sessions: no such resource.
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;

/// A request's name, as the client chose it: a string or an integer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RequestId {
    Text(String),
    Number(serde_json::Number),
}

impl RequestId {
    fn parse(value: Value) -> Option<Self> {
        match value {
            Value::String(text) if text.len() <= MAX_ID => Some(Self::Text(text)),
            Value::Number(number) if number.is_i64() || number.is_u64() => {
                Some(Self::Number(number))
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::String(text.clone()),
            Self::Number(number) => Value::Number(number.clone()),
        }
    }

    /// Writes it as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            // Writing to a vector can't fail.
            Self::Text(text) => drop(serde_json::to_writer(out, text)),
            Self::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        }
    }

    /// As a text for the audit log.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// What a client sent.
pub(crate) enum Message {
    Request {
        id: RequestId,
        method: MethodName,
        params: Params,
    },
    Notification {
        method: MethodName,
        params: Params,
    },
    /// An answer to a question of ours; `None` if it is an error.
    Response {
        id: RequestId,
        result: Option<Value>,
    },
}

/// The parameters of a message.
pub(crate) enum Params {
    Given(Map<String, Value>),
    /// Present, and not an object.
    Malformed,
}

/// An error in the protocol's own form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) id: Option<RequestId>,
    pub(crate) status: StatusCode,
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Box<Value>>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        let status =
            if code == METHOD_NOT_FOUND { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
        Self { id: None, status, code, message: message.into(), data: None }
    }

    pub(crate) fn of(mut self, id: &RequestId) -> Self {
        self.id = Some(id.clone());
        self
    }

    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(Box::new(data));
        self
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn unknown_method(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("unknown method `{}`", shown_name(method)))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let id = self.id.as_ref().map_or(Value::Null, RequestId::to_value);
        let mut error = serde_json::json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = (**data).clone();
        }
        let body = serde_json::json!({ "jsonrpc": "2.0", "id": id, "error": error });
        body.to_string().into_bytes()
    }
}

/// Parses a body. Duplicate keys, absurd nesting, batches and anything that is not JSON-RPC 2.0 are
/// refused.
pub(crate) fn parse(body: &[u8]) -> Result<Message, RpcError> {
    let members = ["jsonrpc", "id", "method", "params", "result", "error"];
    let message = json::parse_members(body, members).map_err(|error| {
        let code = match error {
            JsonError::Duplicate(_) => INVALID_REQUEST,
            JsonError::Syntax(_) | JsonError::Depth | JsonError::Values => PARSE_ERROR,
        };
        RpcError::new(code, error.to_string())
    })?;
    let Outermost::Object([version, id, method, params, result, error]) = message else {
        return Err(RpcError::new(
            INVALID_REQUEST,
            "a message must be one JSON object; batches are not supported",
        ));
    };
    if version.as_ref().and_then(Value::as_str) != Some("2.0") {
        return Err(RpcError::new(INVALID_REQUEST, "`jsonrpc` must be \"2.0\""));
    }
    let id = id.map(|id| RequestId::parse(id).ok_or_else(invalid_id)).transpose()?;
    let method = match method {
        None => return response(id, result, error.as_ref()),
        Some(Value::String(method)) if method.len() <= MAX_METHOD => MethodName::new(method),
        Some(_) => return Err(RpcError::new(INVALID_REQUEST, "`method` must be a short string")),
    };
    if result.is_some() || error.is_some() {
        return Err(RpcError::new(INVALID_REQUEST, "a request has no `result` and no `error`"));
    }
    let params = match params {
        None => Params::Given(Map::new()),
        Some(Value::Object(params)) => Params::Given(params),
        Some(_) => Params::Malformed,
    };
    Ok(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { method, params },
    })
}

fn invalid_id() -> RpcError {
    let message = format!("`id` must be an integer or a string of at most {MAX_ID} bytes");
    RpcError::new(INVALID_REQUEST, message)
}

fn response(
    id: Option<RequestId>,
    result: Option<Value>,
    error: Option<&Value>,
) -> Result<Message, RpcError> {
    match (result, error, id) {
        (result @ Some(_), None, Some(id)) | (result @ None, Some(_), Some(id)) => {
            Ok(Message::Response { id, result })
        }
        _ => Err(RpcError::new(
            INVALID_REQUEST,
            "a message needs a `method`, or an `id` with `result` or `error`",
        )),
    }
}
