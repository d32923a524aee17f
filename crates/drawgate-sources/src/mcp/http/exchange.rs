//! One request over HTTP, from its first byte to its answer. Waiting may be interrupted at any point
//! and taken up again: what has been reached is kept here.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use bytes::Bytes;
use drawgate_core::source::{CallContext, SourceError};
use drawgate_host::egress::events::Event;
use drawgate_host::egress::{AnswerBody as ResponseBody, EgressError, read_body};
use serde_json::Value;
use tokio::time::sleep;

use super::answer::{Failure, Media, Stream, media_type, refusal};
use super::{Peer, Session, headers};
use crate::failed_request::source_error;
use crate::line_rpc::{Envelope, Messages};
use crate::mcp::Reply;
use crate::mcp::callers::{ActiveCall, On};
use crate::mcp::exchange::Turn;
use crate::mcp::wire::{self, Era, Incoming, MAX_MESSAGE, Whose};

/// How often a stream that breaks off is taken up again.
const MAX_RESUMPTIONS: usize = 8;
/// The pause before that, if the server names none.
const RESUME_PAUSE: Duration = Duration::from_millis(200);

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A caller's request. Dropping it cancels it at a server with sessions; in the
/// other era the closed connection says it.
pub(in crate::mcp) struct Exchange {
    pub(super) answering: Answering,
    pub(super) active_call: ActiveCall,
    pub(super) cancel: bool,
}

impl Exchange {
    pub(in crate::mcp) async fn turn(&mut self) -> Result<Turn, SourceError> {
        let outcome = tokio::select! {
            biased;
            outcome = self.answering.reply() => outcome.map_err(Failure::into_source),
            question = self.active_call.question() => return Ok(Turn::Question(question)),
        };
        self.cancel &= matches!(outcome, Err(SourceError::Timeout(_)));
        if outcome.is_ok() {
            self.active_call.answered();
        }
        outcome.map(Turn::Reply)
    }

    pub(in crate::mcp) async fn answer(
        &mut self,
        message: &Value,
        deadline: Instant,
    ) -> Result<(), SourceError> {
        let Answering { peer, session, .. } = &self.answering;
        let (headers, body) = (session.headers.clone(), message.to_string());
        let response = peer.send(Method::POST, headers, body.into(), deadline).await?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(super::refused(status)) }
    }

    pub(in crate::mcp) fn resume(&self, cx: &CallContext) {
        self.active_call.resume(cx);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Answering { peer, session, id, .. } = &self.answering;
        if self.cancel && session.era == Era::Sessions {
            peer.send_aside(session, &wire::cancelled(*id));
        }
    }
}

/// Waits for the answer to one request.
pub(super) struct Answering {
    peer: Arc<Peer>,
    session: Arc<Session>,
    id: u64,
    state: State,
    /// The request, to send it once more to a server that has forgotten the session.
    again: Option<Bytes>,
    /// When even a call that waits for a person is over.
    end: Instant,
    last_id: Option<String>,
    resumptions: usize,
}

enum State {
    Sending(Later<Result<Response<ResponseBody>, SourceError>>),
    /// The server has forgotten the session, and therefore has not seen the request.
    Forgotten,
    Reading(Later<Result<Bytes, EgressError>>),
    Streaming(Box<Stream>),
    /// The stream broke off; it may be taken up again after a pause.
    Broken(SourceError, Duration),
    Over,
}

impl Answering {
    /// Sends a request.
    pub(super) fn send(
        peer: &Arc<Peer>,
        session: &Arc<Session>,
        id: u64,
        (headers, body): (HeaderMap, Bytes),
        end: Instant,
    ) -> Self {
        let sending = sending(peer, headers, body.clone(), end);
        Self { again: Some(body), ..Self::new(peer, session, id, sending, end) }
    }

    /// Takes the answer to a request that was sent.
    pub(super) async fn of(
        peer: &Arc<Peer>,
        session: &Arc<Session>,
        id: u64,
        response: Response<ResponseBody>,
        end: Instant,
    ) -> Result<Reply, Failure> {
        let mut answering = Self::new(peer, session, id, State::Over, end);
        answering.arrived(response).await?;
        answering.reply().await
    }

    fn new(peer: &Arc<Peer>, session: &Arc<Session>, id: u64, state: State, end: Instant) -> Self {
        Self {
            peer: Arc::clone(peer),
            session: Arc::clone(session),
            id,
            state,
            again: None,
            end,
            last_id: None,
            resumptions: 0,
        }
    }

    /// Waits for the answer. May be dropped and called again.
    pub(super) async fn reply(&mut self) -> Result<Reply, Failure> {
        loop {
            match &mut self.state {
                State::Sending(sending) => {
                    let response = sending.as_mut().await;
                    self.state = State::Over;
                    self.arrived(response?).await?;
                }
                State::Forgotten => {
                    // The handshake waits in this way, too.
                    let session = Box::pin(self.peer.renew(&self.session, self.end)).await?;
                    let body = self.again.take().ok_or(Failure::SessionGone)?;
                    let headers = session.headers.clone();
                    self.session = session;
                    self.state = sending(&self.peer, headers, body, self.end);
                }
                State::Reading(reading) => {
                    let body = reading.as_mut().await;
                    self.state = State::Over;
                    return Ok(self.whole(&body.map_err(|error| source_error(&error))?)?);
                }
                State::Streaming(stream) => {
                    let event = stream.next().await;
                    if let ControlFlow::Break(outcome) = self.heard(event) {
                        return Ok(outcome?);
                    }
                }
                State::Broken(_, pause) => {
                    let pause = *pause;
                    // Boxed like all that is rare: calls would hold its room.
                    Box::pin(async {
                        sleep(pause).await;
                        self.take_up().await
                    })
                    .await?;
                }
                State::Over => return Err(SourceError::lost("the server's answer was lost").into()),
            }
        }
    }

    async fn arrived(&mut self, response: Response<ResponseBody>) -> Result<(), Failure> {
        let status = response.status();
        if !status.is_success() {
            let forgotten = status == StatusCode::NOT_FOUND && self.session.id.is_some();
            if forgotten && self.again.is_some() {
                self.state = State::Forgotten;
                return Ok(());
            }
            return Err(if forgotten {
                Failure::SessionGone
            } else {
                Box::pin(refusal(status, response, self.end)).await
            });
        }
        self.state = match media_type(response.headers()) {
            Media::Json => {
                State::Reading(Box::pin(read_body(response.into_body(), MAX_MESSAGE, self.end)))
            }
            Media::Events => State::Streaming(Box::new(Stream::new(response.into_body()))),
            Media::Other => {
                return Err(SourceError::Protocol(format!(
                    "the server answered with neither JSON nor an event stream (HTTP {})",
                    status.as_u16()
                ))
                .into());
            }
        };
        Ok(())
    }

    fn whole(&mut self, body: &Bytes) -> Result<Reply, SourceError> {
        let messages = wire::read(body).map_err(|unreadable| unreadable.to_error())?;
        match self.take_all(messages, body.len()) {
            ControlFlow::Break(outcome) => outcome,
            ControlFlow::Continue(()) => Err(SourceError::Protocol(
                "the server's answer does not answer the request".to_owned(),
            )),
        }
    }

    /// Takes what a stream brought; breaks with the answer.
    fn heard(
        &mut self,
        event: Result<Option<Event>, SourceError>,
    ) -> ControlFlow<Result<Reply, SourceError>> {
        let error = match event {
            Ok(Some(event)) => {
                self.last_id = event.id.or(self.last_id.take());
                // Servers may close a stream as often as they like, as long as something comes.
                self.resumptions = 0;
                let answer = self.event(&event.data);
                if answer.is_break()
                    && let State::Streaming(stream) =
                        std::mem::replace(&mut self.state, State::Over)
                {
                    stream.drain();
                }
                return answer;
            }
            Ok(None) => SourceError::lost("the server's answer ended early"),
            Err(error) => error,
        };
        let pause = match &self.state {
            State::Streaming(stream) => stream.retry().unwrap_or(RESUME_PAUSE),
            _ => RESUME_PAUSE,
        };
        self.state = State::Over;
        if self.session.era == Era::Stateless || self.last_id.is_none() {
            return ControlFlow::Break(Err(error));
        }
        self.resumptions += 1;
        if self.resumptions > MAX_RESUMPTIONS {
            let message = "the server's answer broke off again and again";
            return ControlFlow::Break(Err(SourceError::lost(message)));
        }
        self.state = State::Broken(error, pause);
        ControlFlow::Continue(())
    }

    fn event(&mut self, data: &[u8]) -> ControlFlow<Result<Reply, SourceError>> {
        if data.is_empty() {
            return ControlFlow::Continue(());
        }
        match wire::read(data) {
            Ok(messages) => return self.take_all(messages, data.len()),
            Err(unreadable) => match unreadable.whose {
                Whose::Request(id) if id != self.id => {}
                Whose::Request(_) | Whose::Unclear => {
                    return ControlFlow::Break(Err(unreadable.to_error()));
                }
                Whose::Nobodys => {}
            },
        }
        self.peer.journal.ignored();
        ControlFlow::Continue(())
    }

    fn take_all(
        &mut self,
        messages: Messages,
        size: usize,
    ) -> ControlFlow<Result<Reply, SourceError>> {
        let mut outcome = ControlFlow::Continue(());
        for message in messages {
            let taken = self.take(message, size);
            outcome = if outcome.is_break() { outcome } else { taken };
        }
        outcome
    }

    fn take(&mut self, message: Envelope, size: usize) -> ControlFlow<Result<Reply, SourceError>> {
        match wire::sort(message) {
            Incoming::Answer { id, outcome } if id == self.id => {
                return ControlFlow::Break(outcome.map(|result| Reply { result, size }));
            }
            other => self.peer.aside(&self.session, On::Call(self.id), other),
        }
        ControlFlow::Continue(())
    }

    /// Takes a stream up again after its last event.
    async fn take_up(&mut self) -> Result<(), Failure> {
        let mut headers = self.session.headers.clone();
        let id = self.last_id.as_deref().and_then(|id| HeaderValue::from_str(id).ok());
        if let Some(id) = id {
            headers.insert(headers::LAST_EVENT_ID, id);
            let response = match self.peer.send(Method::GET, headers, Bytes::new(), self.end).await
            {
                Ok(response) => response,
                // What broke the stream may last a moment longer.
                Err(_) if self.resumptions < MAX_RESUMPTIONS => {
                    self.resumptions += 1;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            if response.status().is_success() && media_type(response.headers()) == Media::Events {
                self.state = State::Streaming(Box::new(Stream::new(response.into_body())));
                return Ok(());
            }
        }
        // The server won't.
        match std::mem::replace(&mut self.state, State::Over) {
            State::Broken(error, _) => Err(error.into()),
            _ => Err(SourceError::lost("the server's answer was lost").into()),
        }
    }
}

fn sending(peer: &Arc<Peer>, headers: HeaderMap, body: Bytes, end: Instant) -> State {
    let peer = Arc::clone(peer);
    State::Sending(Box::pin(async move { peer.send(Method::POST, headers, body, end).await }))
}
