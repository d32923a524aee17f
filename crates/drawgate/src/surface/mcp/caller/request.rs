//! Requests for a call that never reach the gate, because they can't be read as one: the gate is told
//! of them, so that they have their outcome in the audit log like every other call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drawgate_core::model::{Caller, ErrorCode, ToolError};
use drawgate_core::pipeline::{Gateway, UNREAD};
use serde_json::Value;

use super::transport::Transport;
use crate::surface::mcp::wire::message::{
    INTERNAL_ERROR, Params, RESOURCE_NOT_FOUND, RequestId, RpcError, SESSION_NOT_FOUND,
};
use crate::surface::mcp::wire::method::{Method, MethodName, Need};
use drawgate_runtime::callers::Identity;

/// A request for a call, until the gate has answered it.
pub(crate) struct CallRequest {
    caller: Caller,
    tool: String,
    request_id: String,
    is_answered: AtomicBool,
}

impl CallRequest {
    /// The call that a request asks for; `None` if it asks for something else.
    pub(crate) fn of(
        identity: &Identity,
        transport: Transport,
        id: &RequestId,
        method: &MethodName,
        params: &Params,
    ) -> Option<Arc<Self>> {
        if !method.needs().contains(&Need::Outcome) {
            return None;
        }
        let tool = if method.is(Method::CallTool) {
            let name = match params {
                Params::Given(params) => params.get("name").and_then(Value::as_str),
                Params::Malformed => None,
            };
            name.unwrap_or(UNREAD).to_owned()
        } else {
            format!("@{}", method.as_str())
        };
        Some(Arc::new(Self {
            caller: caller(identity, transport),
            tool,
            request_id: id.label(),
            is_answered: AtomicBool::new(false),
        }))
    }

    /// From here on the gate writes the outcome.
    pub(crate) fn reaches_gate(&self) {
        self.is_answered.store(true, Ordering::Release);
    }

    /// Has the gate write a refusal, if it has not answered the call itself.
    async fn refused(&self, gateway: &Gateway, error: &RpcError) {
        // The bridge sends it again in a new session, and that is the call.
        let over_bridge = self.caller.surface == Transport::Stdio.surface();
        if over_bridge && error.code == SESSION_NOT_FOUND {
            return;
        }
        if !self.is_answered.swap(true, Ordering::AcqRel) {
            let error = ToolError::new(code_of(error), error.message.clone());
            // The client hears it in the protocol's own form.
            gateway.refuse(&self.caller, &self.tool, &self.request_id, error).await;
        }
    }
}

/// Passes an answer on; if it is an error that the gate does not know of, the gate is told first.
pub(crate) async fn noted<T>(
    gateway: &Gateway,
    call_request: Option<Arc<CallRequest>>,
    done: Result<T, RpcError>,
) -> Result<T, RpcError> {
    match done {
        Ok(answer) => Ok(answer),
        Err(error) => {
            if let Some(call_request) = call_request {
                Box::pin(call_request.refused(gateway, &error)).await;
            }
            Err(error)
        }
    }
}

/// Has the gate write down a message that can't be read at all.
pub(crate) async fn refused(
    gateway: &Gateway,
    identity: &Identity,
    transport: Transport,
    why: &str,
) {
    let error = ToolError::new(ErrorCode::InvalidArguments, why);
    gateway.refuse(&caller(identity, transport), UNREAD, "", error).await;
}

fn caller(identity: &Identity, transport: Transport) -> Caller {
    let surface = transport.surface();
    let Identity { principal, carried, lineage } = identity;
    Caller {
        principal: principal.clone(),
        session: None,
        surface,
        carried: Arc::clone(carried),
        lineage: lineage.clone(),
    }
}

const fn code_of(error: &RpcError) -> ErrorCode {
    match error.code {
        RESOURCE_NOT_FOUND => ErrorCode::ResourceNotFound,
        INTERNAL_ERROR => ErrorCode::Unavailable,
        _ => ErrorCode::InvalidArguments,
    }
}
