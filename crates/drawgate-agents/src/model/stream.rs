//! The bytes of an answer, from the first to the reply. No input or output: the HTTP client feeds it.

use std::time::Duration;

use drawgate_core::json;
use drawgate_host::egress::EgressError;
use drawgate_host::egress::events::{Event, Parser};
use serde_json::json;

use super::codec::{Decoder, Fault, Progress, Seed, codec};
use super::{Api, ModelError, ModelErrorKind, Reply, Turn, TurnSink, Usage, failure};

/// The most bytes of one answer.
pub(super) const MAX_REPLY: usize = 16 * 1024 * 1024;
/// What ends streams of `OpenAI`'s APIs. It is the only event that is not JSON.
const END_MARK: &[u8] = b"[DONE]";

/// An answer while it comes.
pub(super) struct ReplyStream {
    api: Api,
    parser: Parser,
    decoder: Box<dyn Decoder>,
    received: usize,
}

impl ReplyStream {
    /// The answer to a turn whose request was accepted.
    pub(super) fn new(api: Api, turn: &Turn) -> Self {
        Self::of(api, Seed::of(turn))
    }

    /// The same for a request that was written elsewhere.
    pub(super) fn of(api: Api, seed: Seed) -> Self {
        let decoder = codec(api).decoder(seed);
        Self { api, parser: Parser::new(MAX_REPLY), decoder, received: 0 }
    }

    /// Takes the next bytes. After an error or [`Progress::Done`], nothing more is to be fed.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        sink: &dyn TurnSink,
    ) -> Result<Progress, ModelError> {
        self.received = self.received.saturating_add(bytes.len());
        if self.received > MAX_REPLY {
            return Err(self.malformed(&format!("it is larger than {MAX_REPLY} bytes")));
        }
        let mut events = Vec::new();
        let fed = self.parser.feed(bytes, |event| events.push(event));
        fed.map_err(|_| self.malformed(&format!("an event is larger than {MAX_REPLY} bytes")))?;
        for event in events {
            if self.event(&event, sink)? == Progress::Done {
                return Ok(Progress::Done);
            }
        }
        Ok(Progress::More)
    }

    /// Takes an answer that came whole, for the tokens that it counts.
    pub(super) fn whole(&mut self, bytes: &[u8]) {
        let Ok(answer) = json::parse_lossy(bytes) else { return };
        let event = match self.api {
            Api::Anthropic => json!({"type": "message_start", "message": answer}),
            Api::Openai => json!({"type": "response.completed", "response": answer}),
            Api::OpenaiChat => json!({"choices": [], "usage": answer.get("usage")}),
            Api::Gemini => answer,
        };
        if let Err(fault) = self.decoder.event(&event, &()) {
            tracing::debug!(?fault, "a relayed answer is not understood");
        }
    }

    /// The tokens that the provider has counted so far.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.decoder.usage()
    }

    /// Takes the end of the answer.
    pub(super) fn end(self) -> Result<Reply, ModelError> {
        let broken = self.broken("it ended before the model had finished");
        let Self { api, decoder, .. } = self;
        decoder.end().map_err(|fault| match fault {
            Fault::Unfinished => broken,
            Fault::Malformed(_) | Fault::Reported(_) => {
                ModelError { usage: broken.usage, ..explain(api, &fault) }
            }
        })
    }

    /// Takes the loss of the connection, which matters only if the answer was not whole.
    pub(super) fn lost(self, error: &EgressError) -> Result<Reply, ModelError> {
        let broken = self.broken(&error.to_string());
        self.decoder.end().map_err(|_| broken)
    }

    /// What is known when no byte came for this time.
    pub(super) fn silent(&self, silence: Duration) -> ModelError {
        ModelError { usage: self.decoder.usage(), ..silent(silence) }
    }

    fn event(&mut self, event: &Event, sink: &dyn TurnSink) -> Result<Progress, ModelError> {
        if event.data.trim_ascii() == END_MARK {
            return Ok(Progress::Done);
        }
        if event.data.is_empty() {
            return Ok(Progress::More);
        }
        let data = json::parse_lossy(&event.data)
            .map_err(|error| self.malformed(&format!("an event is not JSON: {error}")))?;
        self.decoder.event(&data, sink).map_err(|fault| self.fault(&fault))
    }

    fn malformed(&self, what: &str) -> ModelError {
        self.fault(&Fault::Malformed(what.to_owned()))
    }

    fn fault(&self, fault: &Fault) -> ModelError {
        ModelError { usage: self.decoder.usage(), ..explain(self.api, fault) }
    }

    fn broken(&self, why: &str) -> ModelError {
        let kind = if self.decoder.has_output() {
            ModelErrorKind::Broken
        } else {
            ModelErrorKind::Unreachable
        };
        let error = ModelError::new(kind, format!("the answer broke off: {why}")).begun();
        ModelError { usage: self.decoder.usage(), ..error }
    }
}

/// The error when no byte came for this time.
pub(super) fn silent(silence: Duration) -> ModelError {
    let message = format!("nothing came for {} seconds", silence.as_secs());
    ModelError::new(ModelErrorKind::Silent, message).begun()
}

fn explain(api: Api, fault: &Fault) -> ModelError {
    match fault {
        Fault::Malformed(what) => {
            let message = format!("the answer is not one of the `{}` API: {what}", api.as_str());
            ModelError::new(ModelErrorKind::Malformed, message).begun()
        }
        Fault::Reported(error) => failure::reported(api, error).begun(),
        Fault::Unfinished => {
            ModelError::new(ModelErrorKind::Broken, "the answer broke off").begun()
        }
    }
}
