//! Health, readiness and metrics, for whoever operates the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::response::{IntoResponse, Response};
use drawgate_agents::runs::Runs;
use drawgate_core::pipeline::Gateway;
use drawgate_core::registry::SourceSupervisor;
use drawgate_core::store::{AuditHealth, AuditLog};
use http::StatusCode;
use metrics_exporter_prometheus::PrometheusHandle;

use super::mcp::Mcp;
use drawgate_runtime::edits::Edits;

/// What the operator's endpoints look at.
#[derive(Clone)]
pub struct Ops {
    /// The gate.
    pub gateway: Gateway,
    /// The runs of agents.
    pub runs: Runs,
    /// The sources.
    pub supervisor: Arc<SourceSupervisor>,
    /// The audit log.
    pub audit: Arc<dyn AuditLog>,
    /// The configuration in force, and the edit that is not.
    pub edits: Arc<Edits>,
    /// Set once every source has been tried, unset when the gateway takes no more calls.
    pub ready: Arc<AtomicBool>,
    /// The metrics, if they are collected.
    pub metrics: Option<PrometheusHandle>,
    /// The MCP surface, for its numbers.
    pub mcp: Mcp,
}

impl Ops {
    /// Whether the process is well. Says no more than that: it is open to everybody.
    #[must_use]
    pub fn healthz(&self) -> Response {
        match self.audit.health() {
            AuditHealth::Ok => (StatusCode::OK, "ok\n").into_response(),
            AuditHealth::Degraded { .. } => {
                (StatusCode::OK, "degraded: audit log kept in memory\n").into_response()
            }
            AuditHealth::Failed => {
                (StatusCode::SERVICE_UNAVAILABLE, "failed: audit log\n").into_response()
            }
        }
    }

    /// Whether calls should be sent here now.
    #[must_use]
    pub fn readyz(&self) -> Response {
        let starting = self.supervisor.starting().len();
        let (status, text) = if !self.ready.load(Ordering::Relaxed) {
            (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping".into())
        } else if self.audit.health() == AuditHealth::Failed {
            (StatusCode::SERVICE_UNAVAILABLE, "calls are refused: audit log".into())
        } else if self.edits.is_pending() {
            (StatusCode::OK, "ready, but an edit of the configuration is not in force".into())
        } else if starting > 0 {
            (StatusCode::OK, format!("ready, but servers are starting: {starting}"))
        } else {
            (StatusCode::OK, "ready".to_owned())
        };
        (status, text + "\n").into_response()
    }

    /// Prometheus' text form.
    #[must_use]
    pub fn metrics(&self) -> Response {
        let Some(handle) = &self.metrics else {
            return (StatusCode::NOT_FOUND, "metrics are off\n").into_response();
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "gauges are floats; these numbers are small"
        )]
        let gauge = |name: &'static str, value: usize| metrics::gauge!(name).set(value as f64);
        gauge("drawgate_calls_under_way", self.gateway.under_way());
        gauge("drawgate_audit_queue", self.audit.queued());
        gauge("drawgate_mcp_sessions", self.mcp.open_sessions());
        gauge("drawgate_runs_at_work", self.runs.active());
        gauge("drawgate_sources", self.supervisor.ids().len());
        gauge("drawgate_tools", self.gateway.registry().available().count());
        (StatusCode::OK, handle.render()).into_response()
    }
}
