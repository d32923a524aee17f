//! What programs planted and their sandboxes moved away, in the audit log.

use std::sync::Arc;

use arc_swap::ArcSwap;
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::redact::Redactor;
use drawgate_core::store::AuditLog;
use drawgate_host::Host;
use drawgate_host::process::{Processes, SetAside};

/// The machine's processes, with an audit event for every set of files that is moved away. Each program
/// has ended by then, so that nothing is left to stop.
pub(super) fn with_audit(
    host: &Host,
    audit: Arc<dyn AuditLog>,
    redactor: Arc<ArcSwap<Redactor>>,
) -> Processes {
    let clock = Arc::clone(&host.clock);
    host.processes.clone().telling(move |SetAside { program, workspace, folder, names, left }| {
        let redactor = redactor.load();
        let draft = EventDraft::new(EventKind::FilesSetAside, clock.now_ms())
            .text("program", redactor.redact_text(&program))
            .text("workspace", redactor.redact_text(&workspace.to_string_lossy()))
            .text("folder", redactor.redact_text(&folder.to_string_lossy()))
            .texts("files", names.iter().map(String::as_str))
            .texts("left", left.iter().map(String::as_str));
        let audit = Arc::clone(&audit);
        tokio::spawn(async move {
            if let Err(error) = audit.append(draft).await {
                tracing::error!(%error, "what a sandbox set aside can't be written down");
            }
        });
    })
}
