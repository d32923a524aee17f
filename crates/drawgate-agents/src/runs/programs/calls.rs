//! Calls that a program makes: through the gate, as the run, within its budget, and among its steps.

use std::sync::Arc;

use drawgate_core::model::{ErrorCode, ToolError, ToolInvocation, ToolResult};
use drawgate_core::pipeline::CallOptions;
use serde_json::Value;

use super::program::{Program, RunProgram};
use crate::model::{Arguments, ToolCall};
use crate::runs::ended::Finish;
use crate::runs::live::Phase;
use crate::runs::pool::Amount;
use crate::runs::record::{Ending, StepBody};
use crate::runs::session::{STEP_KEY, outlined};

impl RunProgram {
    /// Makes a call as the run. A call that is given up is cancelled, and has its outcome all the same.
    pub async fn call(&self, call: ToolInvocation, options: CallOptions) -> ToolResult {
        let program = &self.0;
        let (tool, request) = (call.tool_id.clone(), call.request_id.clone());
        let given_up = program.run().cancel.child_token();
        let _when_dropped = given_up.clone().drop_guard();
        // Its client is asked nothing: whoever watches the run is.
        let own = CallOptions {
            progress: options.progress,
            trace: options.trace,
            cancel: given_up.clone(),
            ..CallOptions::default()
        };
        let mut task = program.tasks.spawn(Program::perform(Arc::clone(program), call, own));
        let done = tokio::select! {
            done = &mut task => done,
            () = options.cancel.cancelled() => {
                given_up.cancel();
                task.await
            }
        };
        match done {
            Ok(result) => result,
            Err(error) => {
                tracing::error!(%error, tool, "a call of a run ended without an outcome");
                let error = ToolError::new(ErrorCode::Unavailable, "the call was not finished");
                program.runs().0.gateway.refuse(&self.caller(), &tool, &request, error).await
            }
        }
    }
}

impl Program {
    async fn perform(
        self: Arc<Self>,
        mut call: ToolInvocation,
        options: CallOptions,
    ) -> ToolResult {
        let (session, run) = (&self.session, self.run());
        let seq = match self.begin_call(&call).await {
            Ok(seq) => seq,
            Err(error) => {
                let gateway = &self.runs().0.gateway;
                return gateway.refuse(&run.caller(), &call.tool_id, &call.request_id, error).await;
            }
        };
        let asked = self.wanted(&call);
        call.run_id = Some(run.id.to_string());
        // Whatever the program wrote there: it is the gateway that knows.
        call.meta.insert(STEP_KEY.to_owned(), seq.into());
        run.set_phase(Phase::Acting, session.now());
        if let Arguments::Object(arguments) = &asked.arguments {
            session.show_call(seq, &asked, arguments);
        }
        let keys = call.redact_keys.clone();
        let (result, _acting) = session.gated(seq, call, options).await;
        let mut outcome = outlined(&result);
        if !keys.is_empty() {
            let redactor = self.runs().0.gateway.redactor();
            outcome.text = redactor.redact_text_with(&outcome.text, &keys).into_owned();
        }
        session.show_result(seq, &asked, &outcome);
        self.close(seq, |body| {
            if let StepBody::Call { outcome: kept, .. } = body {
                *kept = Some(outcome);
            }
        })
        .await;
        run.set_phase(Phase::Thinking, session.now());
        result
    }

    /// Reserves a call and stores it; nothing has begun yet.
    async fn begin_call(&self, call: &ToolInvocation) -> Result<u32, ToolError> {
        if self.killed.is_cancelled() {
            return Err(ToolError::new(ErrorCode::Cancelled, "the run has ended"));
        }
        let (pools, path) = (&self.runs().0.pools, &self.run().path);
        let amount = Amount::calls(1);
        if let Err(error) = pools.reserve(path, amount) {
            self.finish(Ok(Finish::because(Ending::Budget, error.to_string())));
            return Err(ToolError::new(ErrorCode::RateLimited, error.to_string()));
        }
        let begun = self.begin(StepBody::Call { call: self.wanted(call), outcome: None }).await;
        let spent = if begun.is_ok() { amount } else { Amount::default() };
        pools.settle(path, amount, spent);
        begun.map_err(|error| {
            let message = "the call can't be stored, and is not made";
            self.finish(Err(error));
            ToolError::new(ErrorCode::Unavailable, message)
        })
    }

    /// The call as it is kept.
    fn wanted(&self, call: &ToolInvocation) -> ToolCall {
        let id = call.meta.get("claudecode/toolUseId").and_then(Value::as_str);
        let mut arguments = call.arguments.clone();
        if !call.redact_keys.is_empty() {
            let redactor = self.runs().0.gateway.redactor();
            arguments = redactor.redact_map(&call.arguments, &call.redact_keys).into_owned();
        }
        ToolCall {
            id: id.unwrap_or(&call.request_id).to_owned(),
            name: call.tool_id.clone(),
            arguments: Arguments::Object(arguments),
        }
    }
}
