//! What a caller asks for, from the first word to the result, with the questions in between.
//!
//! A server with sessions asks while the call is under way; the call then waits until its caller
//! comes back with answers. A server of the other era ends the call with its questions, and is called
//! again with the answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_core::model::{InputGiven, InputRequired, Operation, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout, timeout_at};

use super::context::SourceContext;
use super::exchange::{Exchange, Interrupted, Turn};
use super::requests::Allowed;
use super::subscriptions::{Changed, Subscriptions};
use super::wire::{self, Era, Form, Settled, method_of};
use super::{McpSource, Peer, Reply, tasks, too_late};

/// How often a server may ask to be called again without asking anything.
const MAX_ROUNDS: u32 = 8;
/// The pause before the first of these; each is twice as long as the one before.
const ROUND_PAUSE: Duration = Duration::from_millis(50);
/// How long a server may take to agree to tell about a resource.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);
/// The server wants other arguments repeated in headers than it did when it was listed.
const HEADER_MISMATCH: i64 = -32020;
/// The server needs what its caller has not declared.
const MISSING_CAPABILITY: i64 = -32021;

impl McpSource {
    /// Asks a server for what a caller wants.
    pub(super) async fn converse(
        &self,
        peer: &Peer,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        if cx.resume.is_some() && peer.era() == Era::Sessions {
            // Beginning anew what was begun before would do it twice.
            let message = "the server has no tasks now, so that the call can't be taken up again";
            return Err(SourceError::Failed { message: message.to_owned(), details: None });
        }
        let outcome = match (call.operation(), peer.era()) {
            // Seldom asked for, and boxed, so that other calls do not pay for their room.
            (Operation::Subscribe, era) => Box::pin(self.subscribe(peer, era, call, cx)).await,
            (Operation::Unsubscribe, era) => Box::pin(self.unsubscribe(peer, era, call, cx)).await,
            (_, Era::Sessions) => self.once(peer, call, cx).await,
            (_, Era::Stateless) => Box::pin(rounds(peer, call, cx)).await,
        };
        if outcome.as_ref().err().and_then(wire::error_code) == Some(HEADER_MISMATCH) {
            peer.context().changes.announce();
        }
        outcome
    }

    /// Goes on with a call that waits for the answers that came; `None` if none does.
    pub(super) async fn go_on(
        &self,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<Option<ToolOutput>, SourceError> {
        let Some(InputGiven { responses, state: Some(state) }) = &cx.input else {
            return Ok(None);
        };
        let Some(waiting) = self.waiting_calls.take(state, &cx.affinity).await else {
            return Ok(None);
        };
        let _permit = self.permit(cx).await?;
        let given = responses.get(&waiting.key());
        let next = cx.deadline.bound(waiting.go_on(given, cx)).await;
        let (exchange, turn, round) = next.map_err(|_| too_late())??;
        self.turned(call.operation(), exchange, turn, round, cx).map(Some)
    }

    async fn once(
        &self,
        peer: &Peer,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        if cx.input.as_ref().is_some_and(|input| input.state.is_some()) {
            return Err(stale());
        }
        if call.operation() == Operation::CallTool && peer.context().wants_task(call.tool()) {
            return Box::pin(self.as_task(peer, call, cx)).await;
        }
        let (exchange, turn) = first_turn(peer, call, Form::Plain(None), cx).await?;
        self.turned(call.operation(), exchange, turn, 1, cx)
    }

    /// Calls a tool that works as a task only. The request for its result is answered when there is
    /// one, and what the server wants to know meanwhile it asks on it.
    async fn as_task(
        &self,
        peer: &Peer,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        // Held to the end: reports of progress go by the first request.
        let (_first, turn) = first_turn(peer, call, Form::Task, cx).await?;
        let Turn::Reply(reply) = turn else {
            let message = "the server asks something before it has made a task".to_owned();
            return Err(SourceError::Protocol(message));
        };
        let task = reply.result.get("task").and_then(Value::as_object);
        let Some(task) = task else {
            // It has done it at once.
            return complete(call.operation(), reply);
        };
        let id = tasks::id_of(task)?;
        let guard = tasks::Unwanted::new(peer, &id, cx);
        let (exchange, turn) = first_turn(peer, call, Form::TaskResult(&id), cx).await?;
        guard.disarm();
        self.turned(call.operation(), exchange, turn, 1, cx)
    }

    fn turned(
        &self,
        operation: Operation,
        exchange: Exchange,
        turn: Turn,
        round: u32,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let question = match turn {
            Turn::Reply(reply) => return complete(operation, reply),
            Turn::Question(question) => question,
        };
        let waiting = Interrupted::new(exchange, question, round);
        let requests = Map::from_iter([(waiting.key(), waiting.question())]);
        let state = self.host.ids.secret();
        self.waiting_calls.insert(state.clone(), &cx.affinity, waiting)?;
        Ok(ToolOutput::question(InputRequired { requests, state: Some(state) }))
    }

    async fn subscribe(
        &self,
        peer: &Peer,
        era: Era,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let subscriptions = &peer.context().subscriptions;
        let uri = uri_of(call)?;
        if subscriptions.add(uri, &cx.affinity)? == Changed::No {
            return Ok(ToolOutput::default());
        }
        let mut undo = Undo { subscriptions, uri, client: &cx.affinity, armed: true };
        let output = match era {
            Era::Sessions => self.once(peer, call, cx).await?,
            Era::Stateless => {
                let agreed = subscriptions.agreed(subscriptions.version());
                // A server that does not say so may tell all the same.
                let _late = timeout(LISTEN_TIMEOUT, agreed).await;
                ToolOutput::default()
            }
        };
        undo.armed = false;
        Ok(output)
    }

    async fn unsubscribe(
        &self,
        peer: &Peer,
        era: Era,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let changed = peer.context().subscriptions.remove(uri_of(call)?, &cx.affinity);
        match (changed, era) {
            (Changed::Yes, Era::Sessions) => self.once(peer, call, cx).await,
            (Changed::Yes, Era::Stateless) | (Changed::No, _) => Ok(ToolOutput::default()),
        }
    }
}

/// Takes a subscription back that did not come about.
struct Undo<'a> {
    subscriptions: &'a Subscriptions,
    uri: &'a str,
    client: &'a Arc<str>,
    armed: bool,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.subscriptions.remove(self.uri, self.client);
        }
    }
}

impl Peer {
    /// Sends a caller's request.
    pub(super) async fn begin(
        &self,
        call: &PermittedCall,
        form: Form<'_>,
        cx: &CallContext,
    ) -> Result<Exchange, SourceError> {
        match self {
            Self::Duplex(connection) => {
                connection.begin(call, form, cx).await.map(Exchange::Duplex)
            }
            Self::Http(server) => {
                server.begin(call, form, cx).map(|exchange| Exchange::Http(Box::new(exchange)))
            }
        }
    }

    fn era(&self) -> Era {
        match self {
            Self::Duplex(connection) => connection.era(),
            Self::Http(server) => server.era(),
        }
    }

    fn context(&self) -> &SourceContext {
        match self {
            Self::Duplex(connection) => connection.context(),
            Self::Http(server) => server.context(),
        }
    }

    /// Whether calls are under way, or wait for answers.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Self::Duplex(connection) => connection.is_busy(),
            Self::Http(server) => server.is_busy(),
        }
    }

    /// A request of the gateway's own.
    pub(super) async fn ask(
        &self,
        method: &'static str,
        params: &Map<String, Value>,
        deadline: Instant,
    ) -> Result<Reply, SourceError> {
        match self {
            Self::Duplex(connection) => {
                let meta = wire::Meta::own(connection.era(), connection.allowed());
                let params = wire::PlainParams { members: params, meta };
                let asked = connection.ask(method, &params);
                timeout_at(deadline.into(), asked).await.map_err(|_| too_late())?
            }
            Self::Http(server) => server.ask(method, params, deadline).await,
        }
    }
}

pub(super) async fn first_turn(
    peer: &Peer,
    call: &PermittedCall,
    form: Form<'_>,
    cx: &CallContext,
) -> Result<(Exchange, Turn), SourceError> {
    let turn = async {
        let mut exchange = peer.begin(call, form, cx).await?;
        let turn = exchange.turn().await?;
        Ok((exchange, turn))
    };
    cx.deadline.bound(turn).await.map_err(|_| too_late())?
}

/// Calls a server of the era without sessions, again if it only wants to be called again.
async fn rounds(
    peer: &Peer,
    call: &PermittedCall,
    cx: &CallContext,
) -> Result<ToolOutput, SourceError> {
    if let Some(id) = &cx.resume {
        return follow(peer, id, cx).await;
    }
    if let (Some(input), Some(id)) = (&cx.input, tasks::answered(cx.input.as_ref())) {
        tasks::answer(peer, id, input, cx).await?;
        return follow(peer, id, cx).await;
    }
    let mut again = None;
    for round in 0..MAX_ROUNDS {
        let input = again.as_ref().or(cx.input.as_ref());
        let (_exchange, turn) = match first_turn(peer, call, Form::Plain(input), cx).await {
            Err(error) if demands_task(peer, call, cx, &error) => {
                peer.context().add_task(call.tool());
                continue;
            }
            turn => turn?,
        };
        let Turn::Reply(reply) = turn else {
            return Err(SourceError::Protocol("the server asked in a way of old".to_owned()));
        };
        let required = match wire::settle(reply.result)? {
            Settled::Complete(result) => return finish(call.operation(), result),
            Settled::Asks(required) => required,
            Settled::Task(task) if call.operation() == Operation::CallTool => {
                return follow(peer, &tasks::id_of(&task)?, cx).await;
            }
            Settled::Task(_) => {
                let message = "the server made a task of what is no tool".to_owned();
                return Err(SourceError::Protocol(message));
            }
        };
        may_ask(call.operation())?;
        if !required.requests.is_empty() {
            check(&required, peer.context().allowed, cx)?;
            return Ok(ToolOutput::question(required));
        }
        again = Some(InputGiven { responses: Map::new(), state: required.state });
        sleep(ROUND_PAUSE * 2_u32.pow(round)).await;
    }
    Err(SourceError::Protocol(format!(
        "the server asked {MAX_ROUNDS} times in a row to be called again"
    )))
}

/// Whether the server refused a call because it would make a task of it, which its caller's protocol does not
/// have. The gateway follows it then. A caller whose protocol has tasks hears of the refusal.
fn demands_task(peer: &Peer, call: &PermittedCall, cx: &CallContext, error: &SourceError) -> bool {
    let SourceError::Failed { details: Some(details), .. } = error else { return false };
    let needed = &details["data"]["requiredCapabilities"]["extensions"];
    wire::error_code(error) == Some(MISSING_CAPABILITY)
        && needed.get(tasks::EXTENSION).is_some()
        && call.operation() == Operation::CallTool
        && !cx.client.knows_tasks
        && !peer.context().wants_task(call.tool())
}

/// Follows a task, whose questions are under the same rule as any others.
async fn follow(peer: &Peer, id: &str, cx: &CallContext) -> Result<ToolOutput, SourceError> {
    let output = tasks::follow(peer, id, cx).await?;
    if let Some(required) = &output.input_required {
        check(required, peer.context().allowed, cx)?;
    }
    Ok(output)
}

fn may_ask(operation: Operation) -> Result<(), SourceError> {
    match operation {
        Operation::CallTool | Operation::GetPrompt | Operation::ReadResource => Ok(()),
        Operation::Subscribe
        | Operation::Unsubscribe
        | Operation::Complete
        | Operation::SetLogLevel => Err(SourceError::Protocol(format!(
            "the server asks for input in answer to `{}`",
            method_of(operation)
        ))),
    }
}

/// A server must not ask what it was not told that it may.
fn check(required: &InputRequired, allowed: Allowed, cx: &CallContext) -> Result<(), SourceError> {
    for request in required.requests.values() {
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        if let Some((_, why)) = allowed.refusal(&cx.client, method, request.get("params")) {
            let message = format!("the server asks for `{method}`, but {why}");
            return Err(SourceError::Failed { message, details: None });
        }
    }
    Ok(())
}

fn complete(operation: Operation, reply: Reply) -> Result<ToolOutput, SourceError> {
    match wire::settle(reply.result)? {
        Settled::Complete(result) => finish(operation, result),
        Settled::Asks(_) | Settled::Task(_) => {
            Err(SourceError::Protocol("the server answers in the way of another era".to_owned()))
        }
    }
}

fn finish(operation: Operation, result: Map<String, Value>) -> Result<ToolOutput, SourceError> {
    match operation {
        Operation::CallTool => wire::output(result),
        Operation::ReadResource
        | Operation::Subscribe
        | Operation::Unsubscribe
        | Operation::GetPrompt
        | Operation::Complete
        | Operation::SetLogLevel => Ok(wire::passed_on(result)),
    }
}

fn uri_of(call: &PermittedCall) -> Result<&str, SourceError> {
    call.arguments().get("uri").and_then(Value::as_str).ok_or_else(|| SourceError::Failed {
        message: "`uri` is missing".to_owned(),
        details: None,
    })
}

/// Surfaces know it by `requestState` in the details.
fn stale() -> SourceError {
    SourceError::Failed {
        message: "the call that these answers belong to does not wait any more; make it again \
                  without `requestState`"
            .to_owned(),
        details: Some(json!({ "requestState": "invalid" })),
    }
}
