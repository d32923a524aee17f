//! Applies an edited configuration, whole or not at all.
//!
//! What can fail comes first and changes nothing: reading the files that an edit names, writing that it
//! is about to be taken over, asking the store. What changes the gateway comes after that and can't
//! fail. A server that can't be set up is a state of that server, not a failure of the edit.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::Principal;
use drawgate_core::policy::Rules;
use drawgate_host::egress::Authorities;
use drawgate_sources::mcp::oauth::StoredLogins;
use sha2::{Digest, Sha256};

use super::{Runtime, Start, allowed_hosts, local_grants, restart, settings};
use crate::config::{Loaded, base_terms};
use crate::edits::{Applied, InForce};

/// What a configuration says in other files, read once for all that need it.
pub(crate) struct Files {
    pub(super) rules: Rules,
    pub(super) authorities: Authorities,
    fingerprint: String,
}

impl Files {
    pub(crate) fn read(loaded: &Loaded) -> anyhow::Result<Self> {
        let mut all = Sha256::new();
        all.update(&loaded.text_hash);
        let (rules, policy) = super::rules(loaded)?;
        let (authorities, certificates) = super::authorities_and_text(loaded)?;
        for text in [policy, certificates] {
            all.update(Sha256::digest(text));
        }
        all.update(&loaded.packages.hash);
        Ok(Self { rules, authorities, fingerprint: hex::encode(all.finalize()) })
    }

    /// What tells this configuration, with its files, from others.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The configuration with these files, as it is shown while it is in force.
    pub(super) fn in_force(&self, loaded: &Loaded) -> InForce {
        let absolute = |path: &Path| std::path::absolute(path).ok();
        InForce {
            file: loaded.path.as_deref().and_then(absolute),
            watched: loaded.watched().and_then(absolute),
            config_hash: loaded.text_hash.clone(),
            packages_hash: loaded.packages.hash.clone(),
            fingerprint: self.fingerprint.clone(),
        }
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
        let done = match Files::read(loaded) {
            Ok(files) => self.try_apply(loaded, files).await,
            Err(error) => Err(error),
        };
        self.note_applied(loaded, done).await
    }

    /// The same, with the files that the configuration names as they were read.
    pub(crate) async fn apply_read(
        &self,
        loaded: &Loaded,
        files: Files,
    ) -> anyhow::Result<Applied> {
        let done = self.try_apply(loaded, files).await;
        self.note_applied(loaded, done).await
    }

    async fn note_applied(
        &self,
        loaded: &Loaded,
        done: anyhow::Result<Applied>,
    ) -> anyhow::Result<Applied> {
        match &done {
            Ok(_) => self.edits.settle(),
            Err(error) => self.reject(&loaded.text_hash, &format!("{error:#}")).await,
        }
        done
    }

    async fn try_apply(&self, loaded: &Loaded, files: Files) -> anyhow::Result<Applied> {
        if !self.edits.is_begun(&files.fingerprint) {
            if self.edits.is_in_force(&files.fingerprint) {
                return Ok(Applied::Before);
            }
            self.note(EventKind::ConfigApplying, loaded).await?;
            self.edits.begin(&files.fingerprint);
        }
        let logins = self.prepare(loaded).await?;
        let in_force = files.in_force(loaded);
        self.put_in_force(loaded, files, logins).await;
        self.edits.set_in_force(in_force, restart::changed(&self.at_start, &loaded.config));
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
        parts.grants.set_standing(&Principal::local(), local_grants(&loaded.config)).await;
        parts.exposures.set(&Principal::local(), loaded.config.local.expose.into());
        self.in_force.lock().clone_from(loaded);
        self.host.egress.allow(allowed_hosts(&loaded.config));
        self.host.egress.trust(files.authorities);
        self.host.processes.limit_memory(loaded.config.limits.sandbox_memory_mb);
        self.apply_logins(loaded, logins);
        self.operations.providers.apply(loaded);
        self.operations.packs.set_terms(base_terms(&loaded.config));
        if self.start == Start::Sources {
            self.trust(loaded).await;
            self.reserve_servers(loaded).await;
            self.operations.plugins.release_names().await;
            self.operations.profiles.reconfigure(loaded).await;
            let terms = base_terms(&loaded.config);
            self.operations.agents.configure(loaded, terms).await;
            // What can't be set up has been reported, and the rest is in force.
            let _ = self.apply_builtin(loaded).await;
            self.apply_hooks(loaded).await;
            self.operations.toolpacks.release_ids(loaded).await;
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
        if let Err(error) = self.audit().append(draft).await {
            tracing::error!(%error, "a configuration that is not in force can't be written down");
        }
    }

    async fn note(&self, kind: EventKind, loaded: &Loaded) -> anyhow::Result<()> {
        let now = self.host.clock.now_ms();
        let draft = EventDraft::new(kind, now).text("configHash", &loaded.text_hash);
        let packages = Some(loaded.packages.hash.as_str()).filter(|hash| !hash.is_empty());
        let draft = draft.maybe_text("packagesHash", packages);
        let written = self.audit().append(draft).await;
        written.map(drop).context("the audit log can't be written")
    }
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
