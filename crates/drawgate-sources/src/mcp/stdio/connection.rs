//! Messages to and from a server: requests with their callers, and what the server says and asks by itself.

use std::sync::{Arc, OnceLock};

use drawgate_core::source::{CallContext, PermittedCall, SourceError};
use serde::Serialize;
use serde_json::Value;

use super::exchange::Exchange;
use crate::line_rpc::{
    Delivery, Ending, Envelope, Link, MessageReader, MessageWriter, Receiver, Reply,
};
use crate::mcp::callers::{ActiveCall, Callers, On};
use crate::mcp::context::SourceContext;
use crate::mcp::diagnostics::Journal;
use crate::mcp::requests::Allowed;
use crate::mcp::wire::{self, CallParams, Era, Form, Incoming, MAX_MESSAGE, Meta, Request};

/// One server's messages, whatever carries them.
pub(in crate::mcp) struct Connection {
    link: Arc<Link>,
    callers: Arc<Callers>,
    era: OnceLock<Era>,
    journal: Arc<Journal>,
    context: SourceContext,
}

impl Connection {
    /// Takes a transport's two ends.
    pub(in crate::mcp) fn open(
        writer: impl MessageWriter,
        reader: impl MessageReader,
        journal: Arc<Journal>,
        context: SourceContext,
    ) -> Arc<Self> {
        let connection = Arc::new(Self {
            link: Link::open(writer, MAX_MESSAGE),
            callers: Callers::new(context.allowed),
            era: OnceLock::new(),
            journal,
            context,
        });
        connection.link.listen(reader, Arc::clone(&connection));
        connection
    }

    /// What carries the messages.
    pub(in crate::mcp) fn link(&self) -> &Link {
        &self.link
    }

    /// Asks for what a caller wants. The caller bounds its time.
    pub(in crate::mcp) async fn begin(
        self: &Arc<Self>,
        call: &PermittedCall,
        form: Form<'_>,
        cx: &CallContext,
    ) -> Result<Exchange, SourceError> {
        let id = self.link.id();
        let meta = Meta::of_call(self.era(), self.allowed(), cx, id)
            .following_tasks(self.context().follows_task(call.tool(), &cx.client));
        let params = CallParams::new(call, form, meta);
        let bytes = Request::new(id, form.method(call), &params).to_bytes()?;
        self.exchange(id, bytes, Some(self.callers.enter(id, cx)), Ending::Cancel).await
    }

    /// A request of the gateway's own. The caller bounds its time.
    pub(in crate::mcp) async fn ask<P: Serialize>(
        self: &Arc<Self>,
        method: &str,
        params: &P,
    ) -> Result<Reply, SourceError> {
        let id = self.link.id();
        let bytes = Request::new(id, method, params).to_bytes()?;
        self.exchange(id, bytes, None, Ending::Cancel).await?.reply().await
    }

    /// A request before the handshake, which the server may not understand.
    pub(in crate::mcp) async fn probe<P: Serialize>(
        self: &Arc<Self>,
        method: &str,
        params: &P,
    ) -> Result<Reply, SourceError> {
        let id = self.link.id();
        let bytes = Request::new(id, method, params).to_bytes()?;
        self.exchange(id, bytes, None, Ending::Silence).await?.reply().await
    }

    /// The rules that the server follows.
    pub(in crate::mcp) fn era(&self) -> Era {
        self.era.get().copied().unwrap_or_default()
    }

    /// Notes the server's rules, once.
    pub(in crate::mcp) fn set_era(&self, era: Era) {
        self.era.get_or_init(|| era);
    }

    /// What the server may ask of callers.
    pub(in crate::mcp) fn allowed(&self) -> Allowed {
        self.context.allowed
    }

    pub(in crate::mcp) fn context(&self) -> &SourceContext {
        &self.context
    }

    /// Whether calls are under way, those included that wait for their callers' answers.
    pub(in crate::mcp) fn is_busy(&self) -> bool {
        !self.callers.is_empty()
    }

    /// A notification. The caller bounds its time.
    pub(in crate::mcp) async fn notify(&self, message: &Value) -> Result<(), SourceError> {
        self.link.notify(message).await
    }

    async fn exchange(
        self: &Arc<Self>,
        id: u64,
        bytes: Vec<u8>,
        active_call: Option<ActiveCall>,
        ending: Ending,
    ) -> Result<Exchange, SourceError> {
        let waiting = self.link.request(id, bytes, ending).await?;
        Ok(Exchange { connection: Arc::clone(self), waiting, active_call })
    }
}

impl Receiver for Connection {
    fn message(&self, message: Envelope, size: usize) {
        let delivery = match wire::sort(message) {
            Incoming::Answer { id, outcome } => {
                self.link.answer(id, outcome.map(|result| Reply { result, size }))
            }
            Incoming::Progress { token, report } => self.callers.report(token, report),
            Incoming::Log(message) => {
                self.callers.log(On::Any, message);
                Delivery::Delivered
            }
            // Servers of the other era don't ask in this way.
            Incoming::Request(_) if self.era() == Era::Stateless => Delivery::Unknown,
            Incoming::Request(request) => {
                if let Some(reply) = self.callers.ask(On::Any, request) {
                    self.link.try_notify(&reply);
                }
                Delivery::Delivered
            }
            Incoming::News(news) => {
                self.context.hear(news);
                Delivery::Delivered
            }
            Incoming::Ignored => Delivery::Delivered,
            Incoming::Nonsense => Delivery::Unknown,
        };
        if delivery == Delivery::Unknown {
            self.ignored();
        }
    }

    fn ignored(&self) {
        self.journal.ignored();
    }
}
