//! Requests of a program to its model: within the run's budget, with the provider's key, counted while
//! the answer passes.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::program::{Program, RunProgram};
use crate::model::{
    Api, ModelError, Prices, ProgramRequest, RelayFailure, RelayRefusal, Relayed, RelayedAnswer,
    Reply, TurnSink,
};
use crate::runs::ended::Finish;
use crate::runs::feed::Happened;
use crate::runs::pool::{Amount, TurnEstimate};
use crate::runs::record::{Ending, ModelOutcome, Purpose, StepBody};

/// Pieces of an answer that wait for the program.
const PIECES: usize = 16;

/// An answer for a program.
pub struct RelayReply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: RelayBody,
}

/// The body of an answer.
pub enum RelayBody {
    /// All of it.
    Whole(Bytes),
    /// Piece by piece; an error breaks it off.
    Stream(mpsc::Receiver<Result<Bytes, ModelError>>),
}

impl RelayReply {
    fn error(api: Option<Api>, status: StatusCode, message: &str) -> Self {
        let body = error_body(api, status, message).to_string();
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        Self { status, headers, body: RelayBody::Whole(Bytes::from(body)) }
    }
}

/// An error in the words of the API, so that the program can show it.
fn error_body(api: Option<Api>, status: StatusCode, message: &str) -> Value {
    match api {
        Some(Api::Gemini) => {
            let words = status.canonical_reason().unwrap_or("error");
            let words = words.to_ascii_uppercase().replace(' ', "_");
            json!({ "error": { "code": status.as_u16(), "message": message, "status": words } })
        }
        Some(Api::Anthropic | Api::Openai | Api::OpenaiChat) | None => {
            let kind = match status {
                StatusCode::PAYMENT_REQUIRED => "billing_error",
                StatusCode::NOT_FOUND => "not_found_error",
                StatusCode::FORBIDDEN => "permission_error",
                status if status.is_client_error() => "invalid_request_error",
                _ => "api_error",
            };
            let error = json!({ "type": kind, "code": kind, "message": message });
            json!({ "type": "error", "error": error })
        }
    }
}

/// What a request came to before it was sent.
enum Unsent {
    Refused(RelayRefusal),
    Exhausted(String),
    Failed(&'static str),
}

impl RunProgram {
    /// A place for a request, until it is dropped; none where enough are under way.
    #[must_use]
    pub fn relay_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.requests).try_acquire_owned().ok()
    }

    /// Answers a request of the program to a provider. What is `held` for it is given back when its model has
    /// answered or has been given up, which may be long after the program has.
    pub async fn relay(
        &self,
        provider: &str,
        request: &ProgramRequest<'_>,
        held: impl Send + 'static,
    ) -> RelayReply {
        let program = &self.0;
        program.note_request();
        let models = program.runs().0.models.models();
        let api = models.api_of(provider);
        let own = program.session.model_name();
        let is_own = own.split_once('/').is_some_and(|(own, _)| own == provider);
        let read = if is_own {
            models.relayed(provider, &own, request)
        } else {
            Err(RelayRefusal::Provider(provider.escape_debug().to_string()))
        };
        let prepared = match read {
            Ok(relayed) => program.prepare(relayed).await,
            Err(refusal) => Err(Unsent::Refused(refusal)),
        };
        match prepared {
            Ok(order) => Program::passed(program, api, order, held).await,
            Err(Unsent::Refused(refusal)) => {
                let status = match &refusal {
                    RelayRefusal::Path { .. } => StatusCode::NOT_FOUND,
                    RelayRefusal::Body(_) | RelayRefusal::Part(_) => StatusCode::BAD_REQUEST,
                    RelayRefusal::Provider(_) | RelayRefusal::Model(_) => StatusCode::FORBIDDEN,
                };
                RelayReply::error(api, status, &refusal.to_string())
            }
            Err(Unsent::Exhausted(reason)) => {
                RelayReply::error(api, StatusCode::PAYMENT_REQUIRED, &reason)
            }
            Err(Unsent::Failed(reason)) => {
                RelayReply::error(api, StatusCode::SERVICE_UNAVAILABLE, reason)
            }
        }
    }
}

/// A request that is reserved, stored and about to be sent; without a step, one that costs nothing.
struct Order {
    relayed: Relayed,
    step: Option<(u32, Amount)>,
}

impl Program {
    /// Reserves a request and stores it.
    async fn prepare(&self, mut relayed: Relayed) -> Result<Order, Unsent> {
        if self.killed.is_cancelled() {
            return Err(Unsent::Failed("the run has ended"));
        }
        if !relayed.is_charged() {
            return Ok(Order { relayed, step: None });
        }
        if let Some(most) = self.too_many_requests() {
            let reason = format!("the model was asked {most} times (`max_turns`)");
            self.finish(Ok(Finish::because(Ending::Stuck, reason.clone())));
            return Err(Unsent::Exhausted(reason));
        }
        let prices = relayed.limits().usd_per_million;
        let (pools, path) = (&self.runs().0.pools, &self.run().path);
        if prices.is_none() && pools.has_price_limit(path) {
            return Err(Unsent::Refused(RelayRefusal::Model(relayed.model())));
        }
        let wanted = TurnEstimate {
            input: relayed.input_tokens(),
            max_output: relayed.max_output(),
            prices: prices.as_ref(),
        };
        let reservation = pools.reserve_turn(path, &wanted).await.map_err(|error| {
            self.finish(Ok(Finish::because(Ending::Budget, error.to_string())));
            Unsent::Exhausted(error.to_string())
        })?;
        let reserved = reservation.amount;
        relayed.limit_output(reservation.output);
        let body = StepBody::Model {
            purpose: Purpose::Relayed,
            model: relayed.model(),
            reserved,
            outcome: None,
        };
        match self.begin(body).await {
            Ok(seq) => {
                reservation.keep();
                Ok(Order { relayed, step: Some((seq, reserved)) })
            }
            Err(error) => {
                self.finish(Err(error));
                Err(Unsent::Failed("the request can't be stored, and is not made"))
            }
        }
    }

    /// The most requests that the run may make, if it has made them.
    fn too_many_requests(&self) -> Option<u32> {
        let most = self.run().record.lock().profile.max_turns?;
        let steps = self.run().steps.lock();
        let asked = steps.iter().filter(|step| matches!(step.body, StepBody::Model { .. })).count();
        (asked >= usize::try_from(most).unwrap_or(usize::MAX)).then_some(most)
    }

    /// Sends a request, and passes its answer on as it comes. It is counted to its end, whether or not
    /// the program reads it.
    async fn passed(
        this: &Arc<Self>,
        api: Option<Api>,
        order: Order,
        slot: impl Send + 'static,
    ) -> RelayReply {
        let (head_sender, head) = oneshot::channel();
        let (pieces_sender, pieces) = mpsc::channel(PIECES);
        let passing = Passing { head: Some(head_sender), pieces: pieces_sender };
        let program = Arc::clone(this);
        this.tasks.spawn(async move {
            program.pass(order, passing).await;
            drop(slot);
        });
        match head.await {
            Ok(Ok((status, kind))) => {
                let kind = kind.map(|kind| (header::CONTENT_TYPE, kind));
                let headers = kind.into_iter().collect();
                RelayReply { status, headers, body: RelayBody::Stream(pieces) }
            }
            Ok(Err(RelayFailure { status, retry_after, error })) => {
                let mut reply = RelayReply::error(api, status, &error.message);
                reply.headers.extend(retry_after.map(|time| (header::RETRY_AFTER, time)));
                reply
            }
            Err(_) => {
                let reason = "the run has ended";
                RelayReply::error(api, StatusCode::SERVICE_UNAVAILABLE, reason)
            }
        }
    }

    async fn pass(&self, order: Order, mut passing: Passing) {
        let Order { relayed, step } = order;
        let prices = relayed.limits().usd_per_million;
        if self.killed.is_cancelled() {
            let unsent = ModelError { began: false, ..broken() };
            return self.settle(step, prices, Err(unsent)).await;
        }
        let answer = tokio::select! {
            answer = relayed.send() => answer,
            () = self.killed.cancelled() => return self.settle(step, prices, Err(broken())).await,
        };
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                let error = failure.error.clone();
                passing.head(Err(failure));
                return self.settle(step, prices, Err(error)).await;
            }
        };
        passing.head(Ok((answer.status, answer.kind.clone())));
        let ended = self.pass_pieces(&mut answer, &passing).await;
        let usage = answer.usage();
        let outcome = match ended {
            Ok(()) => answer.end(),
            Err(error) => Err(ModelError { usage, ..error }),
        };
        // The end of the answer is the end of the channel: what it cost is known by then.
        self.settle(step, prices, outcome).await;
        drop(passing);
    }

    async fn pass_pieces(
        &self,
        answer: &mut RelayedAnswer,
        passing: &Passing,
    ) -> Result<(), ModelError> {
        let sink = Shown(self);
        loop {
            let piece = tokio::select! {
                piece = answer.next(&sink) => piece,
                () = self.killed.cancelled() => return Err(broken()),
                () = passing.pieces.closed() => return Err(broken()),
            };
            match piece {
                Ok(None) => return Ok(()),
                Ok(Some(piece)) => {
                    if passing.pieces.send(Ok(piece)).await.is_err() {
                        return Err(broken());
                    }
                }
                Err(error) => {
                    // A program that is gone hears of nothing.
                    let _ = passing.pieces.send(Err(error.clone())).await;
                    return Err(error);
                }
            }
        }
    }

    /// Replaces what was reserved by what was used.
    async fn settle(
        &self,
        step: Option<(u32, Amount)>,
        prices: Option<Prices>,
        outcome: Result<Reply, ModelError>,
    ) {
        let Some((seq, reserved)) = step else { return };
        let (outcome, spent) = match outcome {
            Ok(reply) => {
                let spent = Amount::of(&reply.usage, prices.as_ref());
                // The program keeps its conversation itself.
                let reply = Reply { raw: Value::Null, ..reply };
                (ModelOutcome::Reply { reply, spent }, spent)
            }
            Err(error) => {
                let spent = match (&error.usage, error.began) {
                    (_, false) => Amount::default(),
                    (Some(usage), true) => Amount::of(usage, prices.as_ref()),
                    (None, true) => reserved,
                };
                let (kind, message) = (Some(error.kind), error.message);
                (ModelOutcome::Failed { kind, message, spent }, spent)
            }
        };
        let pools = &self.runs().0.pools;
        let path = &self.run().path;
        self.close(seq, |body| {
            if let StepBody::Model { outcome: kept, .. } = body {
                pools.settle(path, reserved, spent);
                *kept = Some(outcome);
            }
        })
        .await;
    }
}

/// The way of an answer to the program.
struct Passing {
    head: Option<oneshot::Sender<Result<Head, RelayFailure>>>,
    pieces: mpsc::Sender<Result<Bytes, ModelError>>,
}

/// The status of an answer, and what its body is.
type Head = (StatusCode, Option<HeaderValue>);

impl Passing {
    fn head(&mut self, head: Result<Head, RelayFailure>) {
        if let Some(sender) = self.head.take() {
            // A program that is gone hears of nothing.
            let _ = sender.send(head);
        }
    }
}

/// Shows what the model writes to those who watch the run.
struct Shown<'a>(&'a Program);

impl TurnSink for Shown<'_> {
    fn text(&self, delta: &str) {
        let text = delta.to_owned();
        self.0.run().tell(self.0.session.now(), Happened::Text { text });
    }
}

fn broken() -> ModelError {
    use crate::model::ModelErrorKind;
    ModelError::new(ModelErrorKind::Broken, "the program did not read the answer to its end")
        .begun()
}
