//! A request under way, whatever carries it: the server answers it, or asks something first.

use std::time::Instant;

use drawgate_core::source::{CallContext, SourceError};
use serde_json::Value;

use super::requests::ServerRequest;
use super::waiting_calls::WhileWaiting;
use super::{Reply, http, stdio};

/// A request that a server has got. Dropping it cancels it at the server.
pub(super) enum Exchange {
    Duplex(stdio::Exchange),
    Http(Box<http::Exchange>),
}

/// What a server does about a request.
pub(super) enum Turn {
    /// It answers.
    Reply(Reply),
    /// It asks.
    Question(ServerRequest),
}

impl Exchange {
    /// Waits for the server. May be dropped and called again; the caller bounds its time.
    pub(super) async fn turn(&mut self) -> Result<Turn, SourceError> {
        match self {
            Self::Duplex(exchange) => exchange.turn().await,
            Self::Http(exchange) => exchange.turn().await,
        }
    }

    /// Sends the answer to a question.
    pub(super) async fn answer(
        &mut self,
        message: &Value,
        deadline: Instant,
    ) -> Result<(), SourceError> {
        match self {
            Self::Duplex(exchange) => exchange.answer(message).await,
            Self::Http(exchange) => exchange.answer(message, deadline).await,
        }
    }

    /// The call goes on for a caller that has come back.
    pub(super) fn resume(&self, cx: &CallContext) {
        match self {
            Self::Duplex(exchange) => exchange.resume(cx),
            Self::Http(exchange) => exchange.resume(cx),
        }
    }
}

/// A call that waits for a caller's answers.
pub(super) struct Interrupted {
    exchange: Exchange,
    question: ServerRequest,
    /// Counts the questions of this call, for their keys.
    round: u32,
    /// What the server did meanwhile.
    early: Option<Result<Turn, SourceError>>,
}

impl Interrupted {
    pub(super) const fn new(exchange: Exchange, question: ServerRequest, round: u32) -> Self {
        Self { exchange, question, round, early: None }
    }

    /// What the question is called towards the caller.
    pub(super) fn key(&self) -> String {
        format!("q{}", self.round)
    }

    pub(super) fn question(&self) -> Value {
        self.question.question()
    }

    /// Answers, and waits for what the server does next. The caller bounds its time.
    pub(super) async fn go_on(
        mut self,
        given: Option<&Value>,
        cx: &CallContext,
    ) -> Result<(Exchange, Turn, u32), SourceError> {
        self.exchange.resume(cx);
        let turn = match self.early {
            // It did not wait for the answer.
            Some(Ok(turn @ Turn::Reply(_))) => turn,
            Some(Err(error)) => return Err(error),
            // It asked something else meanwhile, and still waits for this one.
            Some(Ok(turn @ Turn::Question(_))) => {
                self.exchange.answer(&self.question.answer(given), cx.deadline.at()).await?;
                turn
            }
            None => {
                self.exchange.answer(&self.question.answer(given), cx.deadline.at()).await?;
                self.exchange.turn().await?
            }
        };
        Ok((self.exchange, turn, self.round + 1))
    }
}

impl WhileWaiting for Interrupted {
    async fn while_waiting(&mut self) {
        if self.early.is_none() {
            self.early = Some(self.exchange.turn().await);
        }
        std::future::pending::<()>().await;
    }
}
