//! Edits of the configuration: taken over whole or not at all, and remembered until they are.
//!
//! What can fail comes first and changes nothing: reading the files that an edit names, writing that it
//! is about to be taken over, asking the store. What changes the gateway comes after that and can't
//! fail. A server that can't be set up is a state of that server, not a failure of the edit.

use std::sync::Arc;

use anyhow::Context;
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::Principal;
use drawgate_core::policy::Rules;
use drawgate_host::egress::Authorities;
use drawgate_sources::mcp::oauth::StoredLogins;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Runtime, Start, allowed_hosts, local_grants, restart, settings, sources};
use crate::config::{Chosen, Loaded};

/// The configuration in force, and the edit that is not.
pub struct Edits {
    state: Mutex<State>,
}

struct State {
    in_force: InForce,
    pending: Option<Pending>,
    /// The fingerprint of an edit that the log says is being taken over, and not yet how that ended.
    begun: Option<String>,
}

/// The configuration that the gateway runs with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    /// Its file, as an absolute path; none where the defaults hold.
    pub file: Option<std::path::PathBuf>,
    /// Whether the operator named it.
    pub chosen: Chosen,
    /// Servers that it may not start, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_started: Vec<String>,
    /// SHA-256 over the file and those that it names.
    #[serde(skip)]
    fingerprint: String,
}

/// An edit that is wanted and not in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// Why it is not.
    pub problem: String,
    /// SHA-256 of the file.
    pub config_hash: String,
    /// Since when it is tried, in milliseconds since the epoch.
    pub since: u64,
}

/// Both, for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// What is in force.
    #[serde(flatten)]
    pub in_force: InForce,
    /// What is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
}

/// Whether an edit changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It is in force from now on.
    Now,
    /// It says what is in force already.
    Before,
}

impl Edits {
    pub(super) fn new(loaded: &Loaded, files: &Files) -> Arc<Self> {
        let state = State { in_force: in_force(loaded, files), pending: None, begun: None };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// What is in force, and what is not.
    #[must_use]
    pub fn status(&self) -> ConfigStatus {
        let state = self.state.lock();
        ConfigStatus { in_force: state.in_force.clone(), pending: state.pending.clone() }
    }

    /// Whether an edit is wanted that is not in force.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state.lock().pending.is_some()
    }

    /// Nothing else is wanted than what is in force.
    pub fn settle(&self) {
        let mut state = self.state.lock();
        state.pending = None;
        state.begun = None;
    }

    /// Whether the log says that this edit is being taken over.
    fn is_begun(&self, files: &Files) -> bool {
        self.state.lock().begun.as_ref() == Some(&files.fingerprint)
    }

    fn is_in_force(&self, files: &Files) -> bool {
        self.state.lock().in_force.fingerprint == files.fingerprint
    }

    /// Remembers an edit that is not in force; `false` if that is known already.
    fn remember(&self, config_hash: &str, problem: &str, now: u64) -> bool {
        let mut state = self.state.lock();
        let before = state.pending.take();
        let same = before.filter(|pending| pending.config_hash == config_hash);
        let is_new = same.as_ref().is_none_or(|pending| pending.problem != problem);
        let since = same.map_or(now, |pending| pending.since);
        let (problem, config_hash) = (problem.to_owned(), config_hash.to_owned());
        state.pending = Some(Pending { problem, config_hash, since });
        is_new
    }
}

/// What a configuration says in other files, read once for all that need it.
pub(super) struct Files {
    pub(super) rules: Rules,
    pub(super) authorities: Authorities,
    fingerprint: String,
}

impl Files {
    pub(super) fn read(loaded: &Loaded) -> anyhow::Result<Self> {
        let mut all = Sha256::new();
        all.update(&loaded.text_hash);
        let (rules, policy) = super::rules(loaded)?;
        let (authorities, certificates) = super::authorities_and_text(loaded)?;
        for text in [policy, certificates] {
            all.update(Sha256::digest(text));
        }
        Ok(Self { rules, authorities, fingerprint: hex::encode(all.finalize()) })
    }
}

fn in_force(loaded: &Loaded, files: &Files) -> InForce {
    let servers = loaded.config.servers.iter().filter(|(_, server)| server.enabled);
    let withheld = servers.filter(|(_, server)| loaded.withheld(server).is_some());
    InForce {
        file: loaded.path.as_deref().and_then(|path| std::path::absolute(path).ok()),
        chosen: loaded.chosen,
        not_started: withheld.map(|(id, _)| id.to_string()).collect(),
        fingerprint: files.fingerprint.clone(),
    }
}

impl Runtime {
    /// Takes over an edited configuration. Rules, limits, the local user's capabilities and sources
    /// change at once, sources by a restart of those that are made from something else; one that can't
    /// be set up is reported and left out. What is read only at the start stays, and a warning names it.
    ///
    /// On an error nothing has changed, and the edit is remembered as one that is not in force. The one
    /// exception is an audit log that fails at the very end: then only that is left to be written.
    pub async fn apply(&self, loaded: &Loaded) -> anyhow::Result<Applied> {
        let done = self.try_apply(loaded).await;
        match &done {
            Ok(_) => self.edits.settle(),
            Err(error) => self.reject(&loaded.text_hash, &format!("{error:#}")).await,
        }
        done
    }

    async fn try_apply(&self, loaded: &Loaded) -> anyhow::Result<Applied> {
        let files = Files::read(loaded)?;
        if !self.edits.is_begun(&files) {
            if self.edits.is_in_force(&files) {
                return Ok(Applied::Before);
            }
            self.note(EventKind::ConfigApplying, loaded).await?;
            self.edits.state.lock().begun = Some(files.fingerprint.clone());
        }
        let logins = self.prepare(loaded).await?;
        let in_force = in_force(loaded, &files);
        self.put_in_force(loaded, files, logins).await;
        self.edits.state.lock().in_force = in_force;
        let written = self.note(EventKind::ConfigLoaded, loaded).await;
        written.context("the edit is in force, but that is not written down")?;
        Ok(Applied::Now)
    }

    /// Asks the store for everything that the edit needs from it.
    async fn prepare(&self, loaded: &Loaded) -> anyhow::Result<StoredLogins> {
        let logins = self.operations.logins.stored().await?;
        if self.start == Start::Sources {
            self.prepare_terms(loaded).await?;
        }
        Ok(logins)
    }

    /// Swaps one configuration for another. Nothing in here can fail.
    async fn put_in_force(&self, loaded: &Loaded, files: Files, logins: StoredLogins) {
        let parts = self.operations.control.parts();
        parts.rules.store(Arc::new(files.rules));
        parts.settings.store(Arc::new(settings(&loaded.config, self.pages.get())));
        parts.grants.stand(&Principal::local(), local_grants(&loaded.config)).await;
        parts.exposures.set(&Principal::local(), loaded.config.local.expose.into());
        self.in_force.lock().clone_from(loaded);
        self.host.egress.allow(allowed_hosts(&loaded.config));
        self.host.egress.trust(files.authorities);
        self.host.processes.limit_memory(loaded.config.limits.sandbox_memory_mb);
        self.apply_logins(loaded, logins);
        self.operations.providers.apply(loaded);
        self.operations.packs.set_terms(sources::base_terms(&loaded.config));
        if self.start == Start::Sources {
            self.trust(loaded).await;
            // What can't be set up has been reported, and the rest is in force.
            let _ = self.apply_builtin(loaded).await;
            self.operations.toolpacks.make_way(loaded).await;
            self.apply_servers(loaded).await;
            self.operations.toolpacks.refresh().await;
        }
        restart::warn(&self.at_start, &loaded.config);
    }

    /// Remembers an edit that is not in force, and says so once for each reason.
    pub async fn reject(&self, config_hash: &str, problem: &str) {
        let now = self.host.clock.now_ms();
        if !self.edits.remember(config_hash, problem, now) {
            return;
        }
        tracing::error!(error = problem, "configuration not taken over; the old one stays");
        let redactor = self.gateway().redactor();
        let draft = EventDraft::new(EventKind::ConfigRejected, now)
            .text("configHash", config_hash)
            .text("reason", redactor.redact_text(problem));
        if let Err(error) = self.audit.append(draft).await {
            tracing::error!(%error, "a configuration that is not in force can't be written down");
        }
    }

    async fn note(&self, kind: EventKind, loaded: &Loaded) -> anyhow::Result<()> {
        let now = self.host.clock.now_ms();
        let draft = EventDraft::new(kind, now).text("configHash", &loaded.text_hash);
        let written = self.audit.append(draft).await;
        written.map(drop).context("the audit log can't be written")
    }
}

#[cfg(test)]
#[path = "edits_tests.rs"]
mod tests;
