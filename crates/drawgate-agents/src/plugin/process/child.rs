//! The process of a plugin: its start, its end, and why it ended.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::source::SourceError;
use drawgate_host::process::Running;
use drawgate_sources::line_rpc::{Line, Link, read_line_or_stop};
use serde_json::{Map, Value, json};
use tokio::io::BufReader;
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::inbox::{Inbox, PluginLines};
use super::pace::Pace;
use super::session::{MAX_MESSAGE, Session};
use super::{ProcessLimits, Shared};
use crate::plugin::declared::Statement;

/// The revision of MCP whose words `initialize` uses.
const PROTOCOL: &str = "2025-11-25";
/// The extension under which everything of plugins stands.
const EXTENSION: &str = "dev.drawgate/plugin";
/// How long what a process wrote before it ended may take to be read.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// The longest line of standard error that is read as one.
const STDERR_LINE: usize = 4096;
/// How many of them are read in a second.
const STDERR_LINES: usize = 1000;

/// A running process. Dropping it kills it and all its descendants.
pub(super) struct Child {
    pub(super) session: Arc<Session>,
    running: Running,
    stderr: JoinHandle<()>,
}

impl Child {
    /// Starts the process, and asks what it offers.
    pub(super) async fn start(shared: &Arc<Shared>) -> Result<(Self, Statement), String> {
        let mut child = Self::spawn(shared).await?;
        let session = Arc::clone(&child.session);
        let introduce = timeout(shared.limits.start, introduce(shared, &session));
        let outcome = tokio::select! {
            // The end of a process says more than the request that it left unanswered.
            biased;
            reason = child.lost(&shared.limits) => Err(reason),
            outcome = introduce => match outcome {
                // It says itself why not.
                Ok(Err(SourceError::Failed { message, .. })) => {
                    child.running.kill_tree();
                    return Err(message);
                }
                Ok(outcome) => outcome.map_err(|error| error.to_string()),
                Err(_) => Err(silent(shared)),
            },
        };
        match outcome {
            Ok(statement) => Ok((child, statement)),
            Err(reason) => Err(child.with_last_words(shared, reason).await),
        }
    }

    async fn spawn(shared: &Arc<Shared>) -> Result<Self, String> {
        shared.journal.forget_printed();
        let mut running =
            shared.host.start(&shared.spawn).await.map_err(|error| error.to_string())?;
        let pid = running.pid();
        shared.journal.change(|report| report.pid = Some(pid));
        let pipes = (running.take_stdin(), running.take_stdout(), running.take_stderr());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("its pipes are missing".to_owned());
        };
        let stderr = tokio::spawn(keep_complaints(stderr, Arc::clone(shared)));
        let link = Link::open(stdin, MAX_MESSAGE);
        let session = Session::new(shared.id.as_str().into(), Arc::clone(&link));
        link.listen(
            PluginLines::new(stdout, Arc::clone(shared)),
            Inbox::new(Arc::clone(shared), Arc::clone(&session)),
        );
        Ok(Self { session, running, stderr })
    }

    /// Waits until the process is of no more use, and says why.
    pub(super) async fn lost(&mut self, limits: &ProcessLimits) -> String {
        let session = Arc::clone(&self.session);
        tokio::select! {
            biased;
            why = session.failed() => why,
            reason = exited(&mut self.running) => session.link.end_reason().map_or(reason, str::to_owned),
            () = session.link.closed() => match session.link.end_reason() {
                Some(reason) => reason.to_owned(),
                None => match timeout(LAST_WORDS, exited(&mut self.running)).await {
                    Ok(reason) => reason,
                    Err(_) => "it closed its output".to_owned(),
                },
            },
            () = session.hung(limits.ping) => {
                format!("it did not answer a ping for {} s", limits.ping.as_secs_f32())
            }
        }
    }

    /// Asks the process to stop, and kills it when its time is over.
    pub(super) async fn end(mut self, limits: &ProcessLimits) {
        let session = Arc::clone(&self.session);
        let gently = async {
            // What it says to it does not matter.
            let _answer = session.ask("drawgate/stop", &json!({})).await;
            session.link.close_input();
            let _status = self.running.wait().await;
        };
        if timeout(limits.stop, gently).await.is_err() {
            self.running.kill_tree();
            let _status = timeout(LAST_WORDS, self.running.wait()).await;
        }
        session.close("the plugin was stopped");
    }

    /// What the process wrote last often says why it ended, unless it was the gateway that hung up.
    async fn with_last_words(mut self, shared: &Shared, reason: String) -> String {
        self.running.kill_tree();
        let _late = timeout(LAST_WORDS, &mut self.stderr).await;
        let line = shared.journal.last_complaint().filter(|line| !line.contains(&reason));
        match line {
            Some(line) if self.session.link.end_reason().is_none() => {
                format!("{reason}; its last line of stderr: {line}")
            }
            Some(_) | None => reason,
        }
    }
}

/// Why a process was given up that did not say what it offers: it may speak, and not the protocol.
fn silent(shared: &Shared) -> String {
    let seconds = shared.limits.start.as_secs_f32();
    let printed = shared.journal.first_printed();
    let printed = printed
        .map(|line| format!("; it printed `{line}`, which is not a message of the protocol"))
        .unwrap_or_default();
    format!("it did not say what it offers within {seconds} s{printed}")
}

impl Drop for Child {
    fn drop(&mut self) {
        self.session.close("the plugin was stopped");
    }
}

/// Asks a process what it offers.
async fn introduce(shared: &Shared, session: &Session) -> Result<Statement, SourceError> {
    let params = json!({
        "protocolVersion": PROTOCOL,
        "capabilities": { "extensions": { EXTENSION: {
            "settings": shared.context.settings(),
            "permissions": shared.manifest.permissions,
        } } },
        "clientInfo": { "name": "drawgate", "version": env!("CARGO_PKG_VERSION") },
    });
    let mut answer = session.ask("initialize", &params).await?;
    session.link.try_notify(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let mut listed = session.ask("tools/list", &json!({})).await?;
    let mut taken = |pointer: &[&str]| taken(&mut answer, pointer);
    Ok(Statement {
        name: taken(&["serverInfo", "name"]),
        version: taken(&["serverInfo", "version"]),
        // Whoever has no hooks need not say so.
        hooks: match taken(&["capabilities", "extensions", EXTENSION, "hooks"]) {
            Value::Null => json!([]),
            hooks => hooks,
        },
        tools: listed.shift_remove("tools").unwrap_or_default(),
    })
}

fn taken(map: &mut Map<String, Value>, path: &[&str]) -> Value {
    let Some((first, rest)) = path.split_first() else { return Value::Null };
    let mut value = map.get_mut(*first);
    for key in rest {
        value = value.and_then(|value| value.get_mut(*key));
    }
    value.map(Value::take).unwrap_or_default()
}

async fn exited(child: &mut Running) -> String {
    let ended = child.wait().await;
    // What the sandbox says counts more than how the program ended, which may be the sandbox's doing.
    if let Some(error) = child.box_failure().await {
        return format!("it was stopped by its sandbox: {error}");
    }
    match ended {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("it exited with code {code}"),
            (None, Some(signal)) => format!("it was ended by signal {signal}"),
            (None, None) => "it exited".to_owned(),
        },
        Err(error) => format!("it can't be waited for: {error}"),
    }
}

/// Reads standard error for ever, since a full pipe would stop the process; but not faster than it can be
/// of use.
async fn keep_complaints(stderr: ChildStderr, shared: Arc<Shared>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    let mut pace = Pace::new(STDERR_LINES, STDERR_LINES * STDERR_LINE);
    while let Ok(Line::Whole | Line::TooLong) =
        read_line_or_stop(&mut reader, &mut line, STDERR_LINE).await
    {
        shared.journal.complaint(&line);
        pace.count(line.len());
        pace.keep().await;
    }
}
