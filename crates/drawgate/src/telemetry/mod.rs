//! What the gateway tells about itself: logs to standard error, metrics and traces.
//!
//! None of it ever carries arguments or results.

mod logs;
mod otlp;
mod runs;

pub use logs::init as init_logs;
pub use otlp::{Exporter, Span, Spans};
pub use runs::RunTelemetry;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Upper bounds of the latency histogram, in seconds.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0];

/// Begins to collect metrics. `None` if something else in this process does already.
#[must_use]
pub fn init_metrics() -> Option<PrometheusHandle> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .ok()?;
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).ok()?;
    metrics::describe_counter!("drawgate_calls_total", "Tool calls by tool, source and code");
    metrics::describe_histogram!("drawgate_call_seconds", "Time of tool calls by source");
    describe_runs();
    Some(handle)
}

fn describe_runs() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!("drawgate_runs_total", "Runs of agents by how they ended");
    describe_gauge!("drawgate_runs_at_work", "Runs of agents that have not ended");
    describe_counter!("drawgate_model_requests_total", "Requests to models by provider and result");
    describe_histogram!("drawgate_model_request_seconds", "Time of requests to models by provider");
    describe_counter!("drawgate_model_tokens_total", "Tokens by provider and direction");
    describe_counter!(
        "drawgate_model_cost_micro_usd_total",
        "Cost of requests to models in millionths of a US dollar, by provider"
    );
}
