//! Metrics and traces of agents that the gateway runs, with OpenTelemetry's names for generative AI: a
//! span for each run, below it one for each request to a model and for each call.

use std::time::Duration;

use drawgate_agents::model::{Api, Usage};
use drawgate_agents::runs::Ending;
use drawgate_agents::runs::observe::{
    CallReport, RunObserver, RunReport, RunSpan, TurnReport, TurnResult,
};
use drawgate_core::model::{Ending as CallEnding, Lineage, Surface, TraceParent, shown_name};
use metrics::Counter;
use serde_json::Value;

use super::otlp::{FinishedSpan, SpanKind, SpanStatus, Spans, nanos, number, text};

/// Counts runs and what they use, and exports their spans if traces are on.
pub struct RunTelemetry {
    spans: Spans,
    ended: [(Ending, Counter); Ending::ALL.len()],
}

impl RunTelemetry {
    /// Exports to these spans. Metrics must have been set up.
    #[must_use]
    pub fn new(spans: Spans) -> Self {
        let counter =
            |ending: Ending| metrics::counter!("drawgate_runs_total", "ending" => ending.as_str());
        Self { spans, ended: Ending::ALL.map(|ending| (ending, counter(ending))) }
    }

    fn export(
        &self,
        span: &RunSpan,
        (name, kind): (String, SpanKind),
        status: SpanStatus,
        attributes: Vec<Value>,
    ) {
        self.spans.export(&FinishedSpan {
            context: &span.context,
            parent: span.parent.as_ref().map(TraceParent::span_id),
            name: &name,
            kind,
            start_nanos: nanos(span.started_at),
            end_nanos: nanos(span.ended_at),
            attributes,
            status,
        });
    }
}

impl RunObserver for RunTelemetry {
    fn turn_ended(&self, turn: &TurnReport) {
        count_turn(turn);
        let mut attributes = common("chat", &turn.run);
        attributes.push(text("gen_ai.request.model", &turn.model));
        attributes.push(text("gen_ai.provider.name", provider_name(turn)));
        attributes.push(number("drawgate.cost_micro_usd", turn.spent.micro_usd));
        if let TurnResult::Replied(usage) = &turn.result {
            attributes.extend(tokens(usage));
        }
        let status = match failure(turn.result) {
            None => SpanStatus::Ok,
            Some(kind) => {
                attributes.push(text("error.type", kind));
                SpanStatus::Error
            }
        };
        let name = format!("chat {}", turn.model);
        self.export(&turn.span, (name, SpanKind::Client), status, attributes);
    }

    fn call_ended(&self, call: &CallReport) {
        let tool = shown_name(&call.tool);
        let ending = call.error.map_or(CallEnding::Done, CallEnding::Failed);
        let mut attributes = common("execute_tool", &call.run);
        attributes.extend([
            text("gen_ai.tool.name", &tool),
            text("drawgate.principal", call.principal.as_str()),
            text("drawgate.surface", Surface::RUN.name()),
            text("drawgate.code", ending.as_str()),
        ]);
        let status = match call.error {
            None => SpanStatus::Ok,
            Some(code) => {
                attributes.push(text("error.type", code.as_str()));
                SpanStatus::Error
            }
        };
        let name = format!("execute_tool {tool}");
        self.export(&call.span, (name, SpanKind::Internal), status, attributes);
    }

    fn run_ended(&self, run: &RunReport) {
        for (_, counter) in self.ended.iter().filter(|(ending, _)| *ending == run.ending) {
            counter.increment(1);
        }
        let mut attributes = common("invoke_agent", &run.run);
        attributes.extend(tokens(&run.usage));
        attributes.extend([
            text("drawgate.principal", run.principal.as_str()),
            text("drawgate.run.ending", run.ending.as_str()),
            number("drawgate.cost_micro_usd", run.spent.micro_usd),
        ]);
        // A run that a person stopped is neither a success nor an error.
        let status = match run.ending {
            Ending::Done => SpanStatus::Ok,
            Ending::Cancelled => SpanStatus::Unset,
            Ending::Failed
            | Ending::Budget
            | Ending::Deadline
            | Ending::Context
            | Ending::Stuck
            | Ending::Invalid => {
                attributes.push(text("error.type", run.ending.as_str()));
                SpanStatus::Error
            }
        };
        let name = format!("invoke_agent {}", run.run.profile);
        self.export(&run.span, (name, SpanKind::Internal), status, attributes);
    }

    fn exports_spans(&self) -> bool {
        self.spans.are_exported()
    }
}

/// Providers come and go with the configuration, so that their handles are looked up; a request takes
/// far longer.
fn count_turn(turn: &TurnReport) {
    let provider = || turn.provider.clone();
    let result = failure(turn.result).unwrap_or("ok");
    metrics::counter!("drawgate_model_requests_total", "provider" => provider(), "result" => result)
        .increment(1);
    let took = Duration::from_millis(turn.span.ended_at.saturating_sub(turn.span.started_at));
    metrics::histogram!("drawgate_model_request_seconds", "provider" => provider()).record(took);
    metrics::counter!("drawgate_model_cost_micro_usd_total", "provider" => provider())
        .increment(turn.spent.micro_usd);
    if let TurnResult::Replied(usage) = turn.result {
        for (direction, count) in [("input", usage.read()), ("output", usage.output)] {
            metrics::counter!("drawgate_model_tokens_total", "provider" => provider(), "direction" => direction)
                .increment(count);
        }
    }
}

const fn failure(result: TurnResult) -> Option<&'static str> {
    match result {
        TurnResult::Replied(_) => None,
        TurnResult::Failed(kind) => Some(kind.as_str()),
        TurnResult::Interrupted => Some("interrupted"),
    }
}

/// The provider as OpenTelemetry calls it; its own name if it is no longer configured.
fn provider_name(turn: &TurnReport) -> &str {
    match turn.api {
        Some(Api::Anthropic) => "anthropic",
        Some(Api::Openai | Api::OpenaiChat) => "openai",
        Some(Api::Gemini) => "gcp.gemini",
        None => &turn.provider,
    }
}

fn common(operation: &str, run: &Lineage) -> Vec<Value> {
    vec![
        text("gen_ai.operation.name", operation),
        text("gen_ai.agent.name", &run.profile),
        text("gen_ai.conversation.id", &run.thread),
        text("drawgate.run.id", &run.run),
    ]
}

fn tokens(usage: &Usage) -> [Value; 2] {
    [
        number("gen_ai.usage.input_tokens", usage.read()),
        number("gen_ai.usage.output_tokens", usage.output),
    ]
}
