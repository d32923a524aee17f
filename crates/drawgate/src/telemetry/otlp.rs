//! OpenTelemetry traces: spans of calls and runs, sent in batches as OTLP over HTTP in its JSON form.
//!
//! Spans that can't be sent in time are dropped and counted; tracing never holds a call up. Attributes
//! are names, numbers and codes, never payloads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use drawgate_core::clock::{Clock, Ids};
use drawgate_core::model::{Caller, Ending, ToolResult, TraceParent};
use drawgate_host::Host;
use drawgate_host::egress::{Body, Egress, Reach};
use http::{HeaderMap, Request};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Spans that wait to be sent; more are dropped.
const QUEUE: usize = 2048;
/// Spans in one request.
const BATCH: usize = 256;
/// How long a span waits for company.
const LINGER: Duration = Duration::from_secs(1);
/// How long the collector may take.
const SEND_TIME: Duration = Duration::from_secs(5);

/// Where spans come from; does nothing when traces are off.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<Source>>);

struct Source {
    queue: mpsc::Sender<Value>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// A call under way.
pub struct Span {
    source: Arc<Source>,
    context: TraceParent,
    parent: Option<String>,
    began_ms: u64,
    began: Instant,
}

impl Spans {
    /// Begins a span, below the caller's if it sent one.
    #[must_use]
    pub fn start(&self, parent: Option<&TraceParent>) -> Option<Span> {
        let source = self.0.as_ref()?;
        let random = source.ids.secret();
        let trace = parent.map_or_else(
            || random.chars().take(32).collect(),
            |parent| parent.trace_id().to_owned(),
        );
        let own: String = random.chars().skip(32).take(16).collect();
        let context = TraceParent::parse(&format!("00-{trace}-{own}-01"))?;
        Some(Span {
            source: Arc::clone(source),
            context,
            parent: parent.map(|parent| parent.span_id().to_owned()),
            began_ms: source.clock.now_ms(),
            began: Instant::now(),
        })
    }

    /// Whether spans are sent anywhere.
    #[must_use]
    pub const fn are_exported(&self) -> bool {
        self.0.is_some()
    }

    /// Exports a span that was measured elsewhere.
    pub(super) fn export(&self, span: &FinishedSpan<'_>) {
        if let Some(source) = &self.0 {
            source.send(span);
        }
    }
}

/// A span as it is exported.
pub(super) struct FinishedSpan<'a> {
    pub(super) context: &'a TraceParent,
    /// The id of the span above it.
    pub(super) parent: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) kind: SpanKind,
    /// Since the epoch.
    pub(super) start_nanos: u128,
    pub(super) end_nanos: u128,
    pub(super) attributes: Vec<Value>,
    pub(super) status: SpanStatus,
}

/// What a span stands for, with OTLP's numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum SpanKind {
    /// Work inside the gateway.
    Internal = 1,
    /// A request that the gateway answers.
    Server = 2,
    /// A request that the gateway makes.
    Client = 3,
}

/// How a span ended, with OTLP's numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum SpanStatus {
    /// Neither a success nor an error.
    Unset = 0,
    Ok = 1,
    Error = 2,
}

/// An attribute that is a text.
pub(super) fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// An attribute that is a number. OTLP's JSON form writes 64-bit numbers as texts.
pub(super) fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

/// Nanoseconds since the epoch, from milliseconds.
pub(super) fn nanos(ms: u64) -> u128 {
    u128::from(ms) * 1_000_000
}

impl Source {
    fn send(&self, span: &FinishedSpan<'_>) {
        let mut value = json!({
            "traceId": span.context.trace_id(),
            "spanId": span.context.span_id(),
            "name": span.name,
            "kind": span.kind as u8,
            "startTimeUnixNano": span.start_nanos.to_string(),
            "endTimeUnixNano": span.end_nanos.to_string(),
            "attributes": span.attributes,
            "status": { "code": span.status as u8 },
        });
        if let Some(parent) = span.parent {
            value["parentSpanId"] = parent.into();
        }
        if self.queue.try_send(value).is_err() {
            metrics::counter!("drawgate_spans_dropped_total").increment(1);
        }
    }
}

impl Span {
    /// What the next hop is told.
    #[must_use]
    pub fn context(&self) -> TraceParent {
        self.context.clone()
    }

    /// Ends the span.
    pub fn end(self, caller: &Caller, result: &ToolResult) {
        let start_nanos = nanos(self.began_ms);
        let ending = result.ending();
        self.source.send(&FinishedSpan {
            context: &self.context,
            parent: self.parent.as_deref(),
            name: "tools/call",
            kind: SpanKind::Server,
            start_nanos,
            end_nanos: start_nanos + self.began.elapsed().as_nanos(),
            attributes: vec![
                text("gen_ai.tool.name", &result.meta.tool_name),
                text("drawgate.principal", caller.principal.as_str()),
                text("drawgate.surface", caller.surface.name()),
                text("drawgate.code", ending.as_str()),
            ],
            // A question is neither a success nor an error.
            status: match ending {
                Ending::Done => SpanStatus::Ok,
                Ending::Asked => SpanStatus::Unset,
                Ending::Failed(_) => SpanStatus::Error,
            },
        });
    }
}

/// Sends spans to a collector.
pub struct Exporter {
    /// The collector's base address; `/v1/traces` is added.
    pub endpoint: String,
    /// Headers for the collector, resolved.
    pub headers: HeaderMap,
    /// What this program calls itself.
    pub service: String,
}

impl Exporter {
    /// Starts sending in the background.
    #[must_use]
    pub fn start(self, host: &Arc<Host>) -> Spans {
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(self.run(Arc::clone(host), waiting));
        Spans(Some(Arc::new(Source {
            queue,
            clock: Arc::clone(&host.clock),
            ids: Arc::clone(&host.ids),
        })))
    }

    async fn run(self, host: Arc<Host>, mut waiting: mpsc::Receiver<Value>) {
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(first) = waiting.recv().await {
            batch.push(first);
            let until = tokio::time::Instant::now() + LINGER;
            while batch.len() < BATCH {
                match tokio::time::timeout_at(until, waiting.recv()).await {
                    Ok(Some(span)) => batch.push(span),
                    Ok(None) | Err(_) => break,
                }
            }
            let count = batch.len();
            if let Err(problem) = self.send(&host.egress, std::mem::take(&mut batch)).await {
                tracing::warn!(count, problem, "spans could not be sent");
                metrics::counter!("drawgate_spans_dropped_total").increment(count as u64);
            }
        }
    }

    async fn send(&self, egress: &Egress, spans: Vec<Value>) -> Result<(), String> {
        let service = json!({ "key": "service.name", "value": { "stringValue": self.service } });
        let body = json!({ "resourceSpans": [{
            "resource": { "attributes": [service] },
            "scopeSpans": [{ "scope": { "name": "drawgate", "version": env!("CARGO_PKG_VERSION") }, "spans": spans }],
        }] });
        let mut request =
            Request::post(format!("{}/v1/traces", self.endpoint.trim_end_matches('/')))
                .header("content-type", "application/json")
                .body(Body::from(Bytes::from(body.to_string())))
                .map_err(|error| error.to_string())?;
        request.headers_mut().extend(self.headers.clone());
        // The operator wrote the address.
        let reach = Reach::own(request.uri());
        let answer = egress
            .request(request, &reach, Instant::now() + SEND_TIME)
            .await
            .map_err(|error| error.to_string())?;
        if answer.status().is_success() {
            Ok(())
        } else {
            Err(format!("the collector answered {}", answer.status()))
        }
    }
}
