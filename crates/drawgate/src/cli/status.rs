//! `drawgate status`: the state of the gateway.

use std::process::ExitCode;

use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::Status;
use serde::Serialize;
use serde_json::Value;

use super::Context;
use super::backend::Backend;

/// What is printed as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Whether a gateway runs on the data folder. If not, this is what one would be.
    running: bool,
    #[serde(flatten)]
    status: Status,
    /// Every tool, every live grant, and the sequence of the newest audit event.
    snapshot: Value,
}

pub(super) async fn run(context: Context) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Sources).await?;
    let done = show(&context, &backend).await;
    backend.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn show(context: &Context, backend: &Backend) -> anyhow::Result<()> {
    let status: Status = backend.get("/status").await?;
    let snapshot = backend.get("/snapshot").await?;
    let report = Report { running: backend.is_running(), status, snapshot };
    context.out.either(&report, || describe(&report))
}

fn describe(report: &Report) -> String {
    let Report { running, status, snapshot } = report;
    let process = if *running {
        format!("running, process {}, version {}", status.pid, status.version)
    } else {
        "not running; `drawgate serve` starts it".to_owned()
    };
    let grants = snapshot["grants"].as_array().map_or(0, Vec::len);
    format!(
        "gateway    {process}\naddress    {}\ntools      {}\ncalls      {} under way\ngrants     {grants}\naudit log  up to event {}",
        status.endpoint.as_deref().unwrap_or("-"),
        status.tools,
        status.calls_under_way,
        status.audit_head,
    )
}
