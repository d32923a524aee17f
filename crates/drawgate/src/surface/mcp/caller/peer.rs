//! Who sends a request, by which rules, and how it is reached before the answer.

use std::sync::Arc;

use drawgate_core::model::{Caller, Client};

use super::request::CallRequest;
use crate::surface::mcp::session::reply::ReplyChannel;
use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::wire::era::Era;

/// Who sends a request, by which rules.
pub(crate) struct Peer {
    pub(crate) caller: Caller,
    pub(crate) era: Era,
    pub(crate) session: Option<Arc<Session>>,
    /// What its program can do.
    pub(crate) client: Arc<Client>,
    /// The way to it before the answer, if it takes events.
    pub(crate) reply: Option<ReplyChannel>,
    /// The call that the request asks for.
    pub(crate) call_request: Option<Arc<CallRequest>>,
}

impl Peer {
    /// To be said before the gate is called: from then on it writes the outcome.
    pub(crate) fn reaches_gate(&self) {
        if let Some(call_request) = &self.call_request {
            call_request.reaches_gate();
        }
    }
}
