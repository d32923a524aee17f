//! OpenTelemetry traces: one span per call, sent in batches as OTLP over HTTP in its JSON form.
//!
//! Spans that can't be sent in time are dropped and counted; tracing never holds a call up.

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
}

impl Span {
    /// What the next hop is told.
    #[must_use]
    pub fn context(&self) -> TraceParent {
        self.context.clone()
    }

    /// Ends the span. Its attributes are names and codes, never payloads.
    pub fn end(self, caller: &Caller, result: &ToolResult) {
        let nanos = |ms: u64| u128::from(ms) * 1_000_000;
        let start = nanos(self.began_ms);
        let end = start + self.began.elapsed().as_nanos();
        let text =
            |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
        let ending = result.ending();
        // A question is neither a success nor an error.
        let status = match ending {
            Ending::Done => 1,
            Ending::Asked => 0,
            Ending::Failed(_) => 2,
        };
        let mut span = json!({
            "traceId": self.context.trace_id(),
            "spanId": self.context.span_id(),
            "name": "tools/call",
            "kind": 2,
            "startTimeUnixNano": start.to_string(),
            "endTimeUnixNano": end.to_string(),
            "attributes": [
                text("gen_ai.tool.name", &result.meta.tool_name),
                text("drawgate.principal", caller.principal.as_str()),
                text("drawgate.surface", caller.surface.name()),
                text("drawgate.code", ending.as_str()),
            ],
            "status": { "code": status },
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = parent.as_str().into();
        }
        if self.source.queue.try_send(span).is_err() {
            metrics::counter!("drawgate_spans_dropped_total").increment(1);
        }
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
