//! What a caller gets to see of a run.

use std::os::unix::process::ExitStatusExt;

use drawgate_core::model::ToolOutput;
use serde_json::{Value, json};

use super::run::Finished;

/// Larger outputs come as text only: the structured result would say it all twice, and the gate keeps
/// plain text as a plain file.
const MAX_STRUCTURED: usize = 64 * 1024;

pub(super) fn output(finished: &Finished) -> ToolOutput {
    let is_small = finished.stdout.len() + finished.stderr.len() <= MAX_STRUCTURED;
    let structured = is_small.then(|| structured(finished));
    let text = text(finished);
    if finished.status.success() {
        ToolOutput { structured, ..ToolOutput::text(text) }
    } else {
        ToolOutput { structured, ..ToolOutput::failure(text) }
    }
}

fn structured(finished: &Finished) -> Value {
    let mut value = json!({
        "exitCode": finished.status.code(),
        "stdout": finished.stdout,
        "stderr": finished.stderr,
    });
    if let Some(signal) = finished.status.signal() {
        value["signal"] = signal.into();
    }
    value
}

/// After a failure, the complaint comes first: a long text is shown by its beginning.
fn text(finished: &Finished) -> String {
    let Finished { status, stdout, stderr } = finished;
    let mut parts = Vec::new();
    if status.success() {
        parts.push(stdout.clone());
        parts.push(titled("stderr", stderr));
        parts.retain(|part| !part.is_empty());
        return if parts.is_empty() { "[no output]".to_owned() } else { parts.join("\n") };
    }
    parts.push(match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended without an exit code".to_owned(),
    });
    parts.push(titled("stderr", stderr));
    parts.push(titled("stdout", stdout));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn titled(title: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("[{title}]\n{text}") }
}
