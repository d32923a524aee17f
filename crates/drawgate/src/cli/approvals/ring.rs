//! The bell of the terminal, and a notification of the desktop where there is one.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use drawgate_host::process::{Processes, Spawn};
use drawgate_runtime::operations::ListedApproval;

use crate::cli::machine;

/// How long the desktop may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Rings once. What can't ring is left alone: the call is on the screen.
pub(super) async fn ring(listed: &ListedApproval) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        let _gone = terminal.write_all(b"\x07");
    }
    notify(listed).await;
}

/// Arguments of calls are left out: other users of the machine can read a command line.
async fn notify(listed: &ListedApproval) {
    let secrets = machine::secrets();
    let approval = &listed.approval;
    let page = listed.page.as_deref().unwrap_or_default();
    let text = format!("{} by {}\n{page}", approval.tool_id, approval.principal);
    let spawn = Spawn {
        program: "notify-send".to_owned(),
        args: [
            "--app-name=Drawgate",
            "--urgency=critical",
            "--",
            "A call waits for your approval",
            &escaped(&text),
        ]
        .map(str::to_owned)
        .to_vec(),
        env: machine::desktop(&secrets),
        ..Spawn::default()
    };
    // A machine without a desktop has no such program.
    if let Ok(mut running) = Processes::new(&secrets, None).spawn(&spawn)
        && tokio::time::timeout(LIMIT, running.wait()).await.is_err()
    {
        running.kill_tree();
    }
}

/// Desktops read marks in the text.
fn escaped(text: &str) -> String {
    let shown = drawgate_core::registry::visible_text(text);
    shown.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
