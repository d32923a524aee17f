//! Sources of tools: their state, definitions that wait to be accepted, and logins at protected servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::audit::EventKind;
use drawgate_core::model::{Capability, Principal, SourceId, shown_name};
use drawgate_core::redact::Redactor;
use drawgate_core::registry::{
    Acceptance, Held, ReviewError, ServerDemands, SourceState, SourceStatus,
};
pub use drawgate_sources::mcp::Refusal;
use drawgate_sources::mcp::oauth::{LoginState, LoginSummary, ServerLogin};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{OperationError, Operations};

/// How long one source may take to say whether it works: longer than a server may take to start by
/// default.
const CHECK_TIME: Duration = Duration::from_secs(35);

/// How servers are asked for.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct ServersQuery {
    /// Whether each is tried before it is shown.
    #[serde(default)]
    pub check: bool,
}

/// A source, with what it says about itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SourceReport {
    /// Its state.
    #[serde(flatten)]
    pub status: SourceStatus,
    /// What it says about itself, in a form of its own; absent if there is no such source.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub diagnostics: Option<Value>,
}

/// A source, with all that an operator needs to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerReport {
    /// Its state.
    #[serde(flatten)]
    pub source: SourceReport,
    /// Why it does not work, if it was tried now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// What its tools require, each combination once.
    #[serde(default)]
    pub requires: BTreeSet<Vec<Capability>>,
    /// What the annotations that it sends demand, by the names of its tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub demands: BTreeMap<String, ServerDemands>,
    /// The login at it, if that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginState>,
}

/// What waits at a server.
#[derive(Debug, Serialize, Deserialize)]
pub struct Review {
    /// Its state.
    pub state: SourceState,
    /// Why, if it does not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The definitions.
    pub waiting: Vec<Held>,
}

/// What a person accepts.
#[derive(Debug, Serialize, Deserialize)]
pub struct Accept {
    /// Each by the hash of what was shown.
    pub accept: Vec<Acceptance>,
}

/// A login that waits for a person.
#[derive(Debug, Serialize, Deserialize)]
pub struct StartedLogin {
    /// By which its end can be waited for.
    pub attempt: String,
    /// What the person must open.
    pub url: String,
}

/// From which line on a server's log is asked for.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct LogQuery {
    /// How many of its lines are known already.
    #[serde(default)]
    pub after: u64,
}

/// What a server wrote to its standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerLog {
    /// How many lines it has written since it was set up.
    pub written: u64,
    /// The newest of those that were asked for, as far as they are kept.
    pub lines: Vec<String>,
    /// What it asked for in its sandbox and was not given.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
}

/// A server that is to be started again.
pub struct Restart {
    /// Which one.
    pub(crate) id: SourceId,
    /// Told whether there was such a server.
    pub(crate) done: oneshot::Sender<bool>,
}

impl Operations {
    /// All sources, by id.
    pub async fn servers(&self, query: ServersQuery) -> Vec<ServerReport> {
        let mut faults =
            if query.check { self.supervisor.check(CHECK_TIME).await } else { BTreeMap::new() };
        let redactor = self.gateway.redactor();
        let report = |status: SourceStatus| {
            let id = status.id.clone();
            let mut report = ServerReport {
                source: self.source_report(status),
                fault: faults.remove(&id),
                requires: self.required(&id),
                demands: self.demanded(&id),
                login: self.login_state(&id),
            };
            // A server's own words may hold anything.
            report.redact(&redactor);
            report
        };
        self.supervisor.status().into_iter().map(report).collect()
    }

    /// A source, with what it says about itself.
    pub(super) fn source_report(&self, status: SourceStatus) -> SourceReport {
        let diagnostics = self.supervisor.source(&status.id).map(|source| source.diagnostics());
        SourceReport { status, diagnostics }
    }

    fn required(&self, id: &SourceId) -> BTreeSet<Vec<Capability>> {
        let registry = self.gateway.registry();
        let own = registry.entries().filter(|entry| entry.id.source() == id);
        own.map(|entry| entry.requires.clone()).collect()
    }

    fn demanded(&self, id: &SourceId) -> BTreeMap<String, ServerDemands> {
        let registry = self.gateway.registry();
        let own = registry.entries().filter(|entry| entry.id.source() == id);
        own.filter_map(|entry| Some((shown_name(entry.own_name()), entry.demands.clone()?)))
            .collect()
    }

    fn login_state(&self, id: &SourceId) -> Option<LoginState> {
        Some(self.logins.get(id)?.state()).filter(|state| *state != LoginState::None)
    }

    /// Ends a server and starts it again; it may still be starting when this returns.
    pub async fn restart_server(
        &self,
        actor: &Principal,
        name: &str,
    ) -> Result<(), OperationError> {
        let id = SourceId::new(name)?;
        let restarts = self.restarts.get().ok_or(OperationError::NotServed)?;
        if !self.supervisor.status().iter().any(|status| status.id == id) {
            return Err(ReviewError::NoServer(shown_name(name)).into());
        }
        let draft = self.draft(actor, EventKind::ServerRestarting).text("server", id.as_str());
        self.audit.append(draft).await?;
        let (done, answer) = oneshot::channel();
        let sent = restarts.send(Restart { id, done }).await;
        sent.map_err(|_| OperationError::NotServed)?;
        match answer.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(OperationError::NotConfigured(shown_name(name))),
            Err(_) => Err(OperationError::NotServed),
        }
    }

    /// What a server wrote to its standard error after the lines that are known already.
    pub fn server_log(&self, name: &str, query: LogQuery) -> Result<ServerLog, OperationError> {
        let source = self.supervisor.source(&SourceId::new(name)?);
        let source = source.ok_or_else(|| ReviewError::NoServer(shown_name(name)))?;
        let diagnostics = source.diagnostics();
        let Some(written) = diagnostics["stderrLines"].as_u64() else {
            return Err(OperationError::NoLog(shown_name(name)));
        };
        let redactor = self.gateway.redactor();
        let kept = diagnostics["stderrTail"].as_array().map(Vec::as_slice).unwrap_or_default();
        // A source that was made anew counts from the beginning.
        let unseen = if query.after > written { written } else { written - query.after };
        let known = kept.len().saturating_sub(usize::try_from(unseen).unwrap_or(usize::MAX));
        let lines = kept.iter().skip(known).filter_map(Value::as_str);
        let lines = lines.map(|line| redactor.redact_text(line).into_owned()).collect();
        Ok(ServerLog { written, lines, refusals: refusals(&diagnostics) })
    }

    /// The definitions of a server that wait to be accepted.
    pub async fn review(&self, name: &str) -> Result<Review, OperationError> {
        let waiting = self.masked(self.supervisor.review(name).await?);
        let status = self.supervisor.status().into_iter().find(|status| status.id.as_str() == name);
        let status = status.ok_or_else(|| ReviewError::NoServer(shown_name(name)))?;
        Ok(Review { state: status.state, problem: status.problem, waiting })
    }

    /// Accepts definitions that a person has seen; they are offered at once.
    pub async fn accept(
        &self,
        actor: &Principal,
        name: &str,
        accept: Accept,
    ) -> Result<Vec<Held>, OperationError> {
        Ok(self.masked(self.supervisor.accept(actor, name, accept.accept).await?))
    }

    /// A server may have put into its definitions what the gateway told it in confidence.
    fn masked(&self, mut all: Vec<Held>) -> Vec<Held> {
        let redactor = self.gateway.redactor();
        for held in &mut all {
            redactor.mask_known_in(&mut held.definition);
            held.pinned.as_mut().map(|pinned| redactor.mask_known_in(pinned));
        }
        all
    }

    /// Begins a login.
    pub async fn begin_login(
        &self,
        actor: &Principal,
        name: &str,
    ) -> Result<StartedLogin, OperationError> {
        let begun = self.login(name)?.begin(actor).await?;
        Ok(StartedLogin { attempt: begun.attempt, url: begun.url })
    }

    /// Waits for the end of a login.
    pub async fn end_login(
        &self,
        name: &str,
        attempt: &str,
    ) -> Result<LoginSummary, OperationError> {
        self.login(name)?.outcome(attempt).await.map_err(OperationError::LoginFailed)
    }

    /// Ends a login: its tokens are given back and forgotten.
    pub async fn log_out(&self, actor: &Principal, name: &str) -> Result<(), OperationError> {
        if self.login(name)?.log_out(actor).await? {
            Ok(())
        } else {
            Err(OperationError::NotLoggedIn(name.to_owned()))
        }
    }

    fn login(&self, name: &str) -> Result<Arc<ServerLogin>, OperationError> {
        let found = self.logins.get(&SourceId::new(name)?);
        found.ok_or_else(|| OperationError::NoLogin(name.to_owned()))
    }
}

impl SourceReport {
    /// Rewrites every text that comes from the source.
    pub(super) fn rewrite(&mut self, text: impl Fn(&mut String), value: impl FnOnce(&mut Value)) {
        let SourceStatus { server, left_out, quarantined, problem, .. } = &mut self.status;
        server.iter_mut().chain(problem).for_each(&text);
        for tool in left_out {
            text(&mut tool.tool);
            text(&mut tool.reason);
        }
        for held in quarantined {
            text(&mut held.name);
        }
        self.diagnostics.as_mut().map(value);
    }
}

impl ServerReport {
    /// What its program asked for in its sandbox and was not given.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusal> {
        self.source.diagnostics.as_ref().map(refusals).unwrap_or_default()
    }

    fn redact(&mut self, redactor: &Redactor) {
        let text = |text: &mut String| *text = redactor.redact_text(text).into_owned();
        self.source.rewrite(text, |value| *value = redactor.redact(value, &[]).into_owned());
        self.fault.iter_mut().for_each(text);
        match &mut self.login {
            Some(LoginState::Active(login) | LoginState::Lacking(login)) => {
                let LoginSummary { issuer, client_id, scopes, .. } = login;
                [issuer, client_id].into_iter().chain(scopes).for_each(text);
            }
            Some(LoginState::Refused { reason }) => text(reason),
            Some(LoginState::None | LoginState::Needed | LoginState::Expired) | None => {}
        }
    }
}

/// What a source says about itself has it, if it is an MCP server in a sandbox.
fn refusals(diagnostics: &Value) -> Vec<Refusal> {
    Vec::deserialize(&diagnostics["refusals"]).unwrap_or_default()
}

/// Keeps `null` apart from nothing.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
