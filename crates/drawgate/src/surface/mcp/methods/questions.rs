//! Questions to the client of a session, during its call: the source asks through the gate, the
//! client answers by a message of its own, and the call is made again with the answers.

use std::time::Duration;

use drawgate_core::model::{
    ErrorCode, InputGiven, InputRequired, ResultMeta, ToolError, ToolInvocation, ToolResult,
};
use drawgate_core::pipeline::CallOptions;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::approval_page::ApprovalPage;
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::session::questions::Question;
use crate::surface::mcp::session::reply::ReplyChannel;
use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::client::answers;
use crate::surface::mcp::wire::message::{INTERNAL_ERROR, RpcError};
use crate::surface::mcp::wire::notice::Notice;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// How often one call may ask.
const MAX_ROUNDS: usize = 16;

/// Why there are no answers.
enum Unanswered {
    /// The client gave the call up, or is gone.
    Cancelled,
    /// No answer came in time.
    TooLate,
    /// A person has decided elsewhere.
    Settled,
}

impl Unanswered {
    const fn reason(&self) -> &'static str {
        match self {
            Self::Cancelled => "the call was cancelled",
            Self::TooLate => "nobody answered in time",
            Self::Settled => "it was decided",
        }
    }
}

/// Makes a call of a client that can be asked, and makes it again with each round of answers.
pub(crate) async fn converse(
    mcp: &Mcp,
    peer: &Peer,
    mut call: Box<ToolInvocation>,
    options: CallOptions,
) -> Result<ToolResult, RpcError> {
    let conversation = QuestionExchange { mcp, peer, options };
    let mut page = ApprovalPage::default();
    for _ in 0..MAX_ROUNDS {
        let result = Box::pin(page.watch((mcp, peer), conversation.call(&call))).await;
        let Some(required) = result.input_required.as_deref() else { return Ok(result) };
        // Whatever happens meanwhile: a call that waits in vain is not kept waiting.
        let parked = SuspendedCall { mcp, state: required.state.clone() };
        page = ApprovalPage::of(mcp, required);
        let own = page.is_open();
        let asked = conversation.ask(required, &mut page).await;
        let state = required.state.clone();
        match asked {
            Ok(responses) => {
                parked.goes_on();
                call.input = Some(InputGiven { responses, state });
            }
            Err(why) if own => return Ok(given_up(&call, &why)),
            Err(_) => {
                call.input = Some(InputGiven { responses: Map::new(), state });
                return Ok(conversation.end(&call).await);
            }
        }
    }
    conversation.end(&call).await;
    Err(asked_too_often(mcp, &call))
}

/// Makes a call of a client without a session. It gets those questions that it said it can answer;
/// where none is left, the call goes on without answers.
pub(crate) async fn pass_on(
    mcp: &Mcp,
    peer: &Peer,
    mut call: Box<ToolInvocation>,
    options: CallOptions,
) -> Result<ToolResult, RpcError> {
    let gateway = &mcp.inner.gateway;
    for _ in 0..MAX_ROUNDS {
        let mut result = gateway.call(&peer.caller, call.clone(), options.clone()).await;
        let Some(required) = result.input_required.as_deref_mut() else { return Ok(result) };
        let asked = required.requests.len();
        required.requests.retain(|_, request| answers(&peer.client, request));
        if asked == 0 || !required.requests.is_empty() {
            required.requests.values_mut().for_each(without_elicitation_id);
            return Ok(result);
        }
        call.input = Some(InputGiven { responses: Map::new(), state: required.state.take() });
    }
    Err(asked_too_often(mcp, &call))
}

/// Revisions without sessions have no such name.
fn without_elicitation_id(request: &mut Value) {
    if let Some(Value::Object(params)) = request.get_mut("params") {
        params.shift_remove("elicitationId");
    }
}

fn asked_too_often(mcp: &Mcp, call: &ToolInvocation) -> RpcError {
    if let Some(state) = call.input.as_ref().and_then(|input| input.state.as_deref()) {
        mcp.inner.gateway.abandon(state);
    }
    let message = format!("the tool has asked {MAX_ROUNDS} times and still has no result");
    RpcError::new(INTERNAL_ERROR, message)
}

struct QuestionExchange<'a> {
    mcp: &'a Mcp,
    peer: &'a Peer,
    options: CallOptions,
}

impl QuestionExchange<'_> {
    async fn call(&self, call: &ToolInvocation) -> ToolResult {
        let gateway = &self.mcp.inner.gateway;
        gateway.call(&self.peer.caller, call.clone(), self.options.clone()).await
    }

    /// Lets the audit log know that the call was given up; the source is not called again.
    async fn end(&self, call: &ToolInvocation) -> ToolResult {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let options = CallOptions { cancel, ..self.options.clone() };
        self.mcp.inner.gateway.call(&self.peer.caller, call.clone(), options).await
    }

    /// The answers, by the keys of the questions. What the client can't answer, or refuses to, has
    /// none.
    async fn ask(
        &self,
        required: &InputRequired,
        page: &mut ApprovalPage,
    ) -> Result<Map<String, Value>, Unanswered> {
        let (Some(session), Some(reply)) = (&self.peer.session, &self.peer.reply) else {
            return Ok(Map::new());
        };
        let mut open = self.open(session, required);
        let answers = async {
            for (_, question, message) in &open {
                reply.send(&message_of(&question.id, message));
            }
            let mut answers = Map::new();
            for (key, question, _) in &mut open {
                if let Ok(Some(answer @ Value::Object(_))) = (&mut question.received).await {
                    answers.insert(key.clone(), answer);
                }
            }
            answers
        };
        let stopping = self.mcp.inner.streams.closed();
        let why = tokio::select! {
            biased;
            () = self.options.cancel.cancelled() => Unanswered::Cancelled,
            () = stopping.cancelled() => Unanswered::Cancelled,
            answers = answers => return Ok(answers),
            () = tokio::time::sleep(PATIENCE) => Unanswered::TooLate,
            () = page.decision(self.mcp) => Unanswered::Settled,
        };
        page.tell(self.mcp, self.peer);
        for (_, question, _) in open {
            withdraw(reply, &question.id, &why);
        }
        match why {
            Unanswered::Settled => Ok(Map::new()),
            Unanswered::Cancelled | Unanswered::TooLate => Err(why),
        }
    }

    /// Only what the client said it can answer is asked.
    fn open(&self, session: &Session, required: &InputRequired) -> Vec<(String, Question, Value)> {
        let ids = self.mcp.inner.gateway.ids();
        let askable =
            required.requests.iter().filter(|(_, request)| answers(&self.peer.client, request));
        let opened = askable.filter_map(|(key, request)| {
            let question = session.questions.open(ids.secret())?;
            Some((key.clone(), question, request.clone()))
        });
        opened.collect()
    }
}

/// One question as a request of ours.
fn message_of(id: &str, request: &Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "id": id, "method": request["method"] });
    if let Some(Value::Object(params)) = request.get("params") {
        let mut params = params.clone();
        if params.get("mode").and_then(Value::as_str) == Some("url") {
            // Servers without sessions have no such name, and clients with sessions need one.
            params.entry("elicitationId").or_insert_with(|| id.into());
        }
        message["params"] = Value::Object(params);
    }
    message
}

fn withdraw(reply: &ReplyChannel, id: &str, why: &Unanswered) {
    let params = json!({ "requestId": id, "reason": why.reason() });
    reply.send_optional(&Notice::Cancelled.with(params));
}

/// A call that a source keeps waiting, and forgets when this is dropped.
struct SuspendedCall<'a> {
    mcp: &'a Mcp,
    state: Option<String>,
}

impl SuspendedCall<'_> {
    fn goes_on(mut self) {
        self.state = None;
    }
}

impl Drop for SuspendedCall<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            self.mcp.inner.gateway.abandon(&state);
        }
    }
}

/// Nothing was begun and nothing is recorded beyond the question: the approval may still be used.
fn given_up(call: &ToolInvocation, why: &Unanswered) -> ToolResult {
    ToolResult {
        success: false,
        content: Vec::new(),
        structured_content: None,
        error: Some(ToolError::new(ErrorCode::Cancelled, why.reason())),
        meta: ResultMeta { tool_name: call.tool_id.clone(), ..ResultMeta::default() },
        artifacts: Vec::new(),
        rest: Map::new(),
        input_required: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_to_a_page_has_a_name() {
        let url = json!({ "method": "elicitation/create", "params": { "mode": "url", "url": "https://a" } });
        assert_eq!(message_of("q", &url)["params"]["elicitationId"], "q");
        let roots = json!({ "method": "roots/list" });
        assert_eq!(
            message_of("q", &roots),
            json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list" })
        );
    }
}
