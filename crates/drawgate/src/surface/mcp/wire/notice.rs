//! What the gateway sends to clients by itself: notices, and the questions of sources.

use serde_json::{Value, json};

use super::method::CANCELLED;

/// A question that opens a form or a page.
pub(crate) const ELICIT: &str = "elicitation/create";
/// A question to the client's model.
pub(crate) const SAMPLE: &str = "sampling/createMessage";
/// A question about the client's folders.
pub(crate) const LIST_ROOTS: &str = "roots/list";

/// A message to a client that has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    Progress,
    Log,
    Cancelled,
    ElicitationComplete,
    ToolsChanged,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    Acknowledged,
    TaskChanged,
}

impl Notice {
    const fn method(self) -> &'static str {
        match self {
            Self::Progress => "notifications/progress",
            Self::Log => "notifications/message",
            Self::Cancelled => CANCELLED,
            Self::ElicitationComplete => "notifications/elicitation/complete",
            Self::ToolsChanged => "notifications/tools/list_changed",
            Self::PromptsChanged => "notifications/prompts/list_changed",
            Self::ResourcesChanged => "notifications/resources/list_changed",
            Self::ResourceUpdated => "notifications/resources/updated",
            Self::Acknowledged => "notifications/subscriptions/acknowledged",
            Self::TaskChanged => "notifications/tasks",
        }
    }

    /// The message alone.
    pub(crate) fn plain(self) -> Value {
        json!({ "jsonrpc": "2.0", "method": self.method() })
    }

    /// The message with parameters.
    pub(crate) fn with(self, params: impl Into<Value>) -> Value {
        let params: Value = params.into();
        json!({ "jsonrpc": "2.0", "method": self.method(), "params": params })
    }
}
