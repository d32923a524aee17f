//! A server that is a child process and speaks line by line.

mod connection;
mod exchange;

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;

pub(super) use connection::Connection;
use drawgate_core::registry::visible_line;
use drawgate_core::source::SourceError;
use drawgate_host::Host;
use drawgate_host::egress::RefusedHosts;
use drawgate_host::process::{Running, Spawn};
pub(super) use exchange::Exchange;
use tokio::io::BufReader;
use tokio::process::ChildStderr;
use tokio::time::timeout;

use super::context::SourceContext;
use super::describe;
use super::diagnostics::Journal;
use super::probe::shake_hands;
use super::refusals::Refusals;
use super::wire::{MAX_MESSAGE, ServerInfo};
use crate::excerpt::{MAX_READ, excerpt};
use crate::line_rpc::{Line, Lines, read_line};
use crate::pace::Pace;

/// How long a server may take to end by itself once its input is closed, and again after it was
/// asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How long answers that a server wrote before it exited may take to be read.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// The same for standard error of a server that did not start, which is all that says why.
const LAST_COMPLAINTS: Duration = Duration::from_secs(1);

/// How to start the server.
pub(super) struct Dialer {
    pub(super) host: Arc<Host>,
    pub(super) spawn: Spawn,
    pub(super) start_timeout: Duration,
}

/// A running server. Dropping it kills the process and all its descendants.
pub(super) struct Server {
    pub(super) connection: Arc<Connection>,
    pub(super) info: ServerInfo,
    child: Running,
}

impl Dialer {
    /// Starts the server and shakes hands with it. One that did not survive the question for its
    /// era is started once more and spoken to as servers of the older era expect.
    pub(super) async fn connect(
        &self,
        journal: &Arc<Journal>,
        context: &SourceContext,
    ) -> Result<Server, SourceError> {
        let probed = context.memory.may_discover();
        let before = journal.complaints();
        let outcome = match self.start(journal, context).await {
            Err(Failed::Exited(_)) if probed && !context.memory.may_discover() => {
                self.start(journal, context).await
            }
            outcome => outcome,
        };
        outcome.map_err(|failed| failed.into_error(&self.known(journal, context, before)))
    }

    /// What is known of why a program failed, to be put behind the failure: what it said last, and what its
    /// sandbox refused it.
    fn known(&self, journal: &Journal, context: &SourceContext, before: u64) -> String {
        let (lines, secrets) = (journal.complaints_since(before), self.host.secrets.known_values());
        let said = telling(&lines).map(|line| excerpt(line, &secrets));
        let said = said
            .map(|line| format!("; its last line of stderr: {}", visible_line(&line)))
            .unwrap_or_default();
        let refusals = context.refusals.as_ref();
        let told = refusals.and_then(|known| known.told(&known.list().into_iter().collect()));
        let told = told.map(|told| format!("; {}", told.replace('\n', "; ")));
        said + &told.unwrap_or_default()
    }

    async fn start(
        &self,
        journal: &Arc<Journal>,
        context: &SourceContext,
    ) -> Result<Server, Failed> {
        let refusals = context.refusals.clone();
        let told = refusals.clone().map(|refusals| refusals as Arc<dyn RefusedHosts>);
        let spawn = Spawn { refused_hosts: told, ..self.spawn.clone() };
        let started = self.host.start(&spawn).await;
        let mut child = started.map_err(|error| Failed::Spawn(describe(&error)))?;
        journal.pid(child.pid());
        let pipes = (child.take_stdin(), child.take_stdout(), child.take_stderr());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(SourceError::unreachable("the server's pipes are missing").into());
        };
        let complaints = tokio::spawn(keep_complaints(stderr, Arc::clone(journal), refusals));
        let lines = Lines::new(stdout, MAX_MESSAGE);
        let connection = Connection::open(stdin, lines, Arc::clone(journal), context.clone());
        let mut server = Server { connection, info: ServerInfo::default(), child };
        let started = self.within_start_timeout(&mut server, journal).await;
        match started {
            Ok(info) => {
                server.info = info;
                Ok(server)
            }
            Err(failed) => {
                drop(server);
                let _late = timeout(LAST_COMPLAINTS, complaints).await;
                Err(failed)
            }
        }
    }

    async fn within_start_timeout(
        &self,
        server: &mut Server,
        journal: &Journal,
    ) -> Result<ServerInfo, Failed> {
        let connection = Arc::clone(&server.connection);
        let shake_hands = timeout(self.start_timeout, shake_hands(&connection));
        tokio::select! {
            // The end of the server says more than the questions that it left unanswered.
            biased;
            reason = server.served(journal) => Err(Failed::Exited(reason)),
            outcome = shake_hands => Ok(outcome.unwrap_or_else(|_| Err(SourceError::unreachable(format!(
                "the server did not finish its start within {} ms; raise `start_timeout_seconds` if it needs longer",
                self.start_timeout.as_millis()
            ))))?),
        }
    }
}

/// Why a server did not start.
enum Failed {
    /// It could not even be tried.
    Spawn(String),
    Exited(String),
    Otherwise(SourceError),
}

impl Failed {
    fn into_error(self, known: &str) -> SourceError {
        match self {
            Self::Spawn(reason) => SourceError::unreachable(reason),
            Self::Exited(reason) => SourceError::unreachable(reason + known),
            Self::Otherwise(SourceError::Unavailable { message, sent }) => {
                SourceError::Unavailable { message: message + known, sent }
            }
            Self::Otherwise(error) => error,
        }
    }
}

impl From<SourceError> for Failed {
    fn from(error: SourceError) -> Self {
        Self::Otherwise(error)
    }
}

impl Server {
    /// Waits until the server is gone, and says why. Calls under way have failed when it returns.
    pub(super) async fn served(&mut self, journal: &Journal) -> String {
        let reason = tokio::select! {
            reason = exited(&mut self.child) => reason,
            () = self.connection.link().closed() => match timeout(LAST_WORDS, exited(&mut self.child)).await {
                Ok(reason) => reason,
                Err(_) => "the server closed its output".to_owned(),
            },
        };
        // What the server wrote before it ended may still wait in the pipe.
        let _late = timeout(LAST_WORDS, self.connection.link().closed()).await;
        self.connection.link().fail_all(&reason);
        journal.gone();
        reason
    }

    /// Ends the server in the order that the protocol asks for: close its input, ask, kill.
    pub(super) async fn end(mut self) {
        self.connection.link().close_input();
        if timeout(GRACE, self.child.wait()).await.is_err()
            && let Err(error) = self.child.stop(GRACE).await
        {
            tracing::warn!(pid = self.child.pid(), %error, "a server could not be waited for");
        }
        self.connection.link().fail_all("the server was stopped");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.connection.link().fail_all("the server was stopped");
        self.connection.link().close_input();
    }
}

async fn exited(child: &mut Running) -> String {
    let ended = child.wait().await;
    // What the sandbox says counts more than how the program ended, which may be the sandbox's doing.
    if let Some(error) = child.box_failure().await {
        return format!("the server was stopped by its sandbox: {error}");
    }
    match ended {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("the server exited with code {code}"),
            (None, Some(signal)) => format!("the server was ended by signal {signal}"),
            (None, None) => "the server exited".to_owned(),
        },
        Err(error) => format!("the server can't be waited for: {error}"),
    }
}

/// The line that says most: the last one that names an error, else the last one. Node ends with its version.
fn telling(lines: &[String]) -> Option<&str> {
    let mut lines = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).rev();
    let last = lines.clone().next();
    lines.find(|line| line.contains("Error")).or(last)
}

/// Reads a server's standard error for ever: a full pipe would stop the server.
async fn keep_complaints(
    stderr: ChildStderr,
    journal: Arc<Journal>,
    refusals: Option<Arc<Refusals>>,
) {
    let mut reader = BufReader::new(stderr);
    let (mut line, mut pace) = (Vec::new(), Pace::default());
    while let Ok(Line::Whole | Line::TooLong) = read_line(&mut reader, &mut line, MAX_READ).await {
        journal.complaint(&line);
        if let Some(refusals) = &refusals {
            refusals.hear(&String::from_utf8_lossy(&line));
        }
        pace.lines(1, line.len()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_names_the_error_is_told() {
        for (text, expected) in [
            ("", None),
            ("starting\nno database\n\n", Some("no database")),
            ("Traceback:\n  File x\nAttributeError: no `x`", Some("AttributeError: no `x`")),
            ("x.js:1\nTypeError: no\n    at x:1\n\nNode.js v20.1.0", Some("TypeError: no")),
        ] {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(telling(&lines), expected, "{text}");
        }
    }
}
