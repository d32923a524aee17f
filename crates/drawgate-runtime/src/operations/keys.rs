//! Keys of packs and agents: authorised and withdrawn by the operator.

use std::sync::Arc;

use drawgate_core::acts::Turn;
use drawgate_core::audit::EventKind;
use drawgate_core::model::Principal;
use drawgate_sdk::statement::Purpose;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::{OperationError, Operations};
use crate::peers::{Entry, KeyExists, KeyTerms, NewKey, PeerAuthenticator, Selection};

/// A key to be authorised.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddKey {
    /// Whose it is.
    #[serde(flatten)]
    pub whose: KeyOwner,
    /// The tools that a pack may offer.
    pub tools: Vec<String>,
    /// What an agent may hold, or callers of a pack need.
    pub capabilities: Vec<String>,
    /// The public key's line.
    pub key: String,
}

/// Keys to be withdrawn.
#[derive(Debug, Serialize, Deserialize)]
pub struct RemoveKeys {
    /// Whose they are.
    #[serde(flatten)]
    pub whose: Option<KeyOwner>,
    /// Which one.
    pub fingerprint: Option<String>,
}

/// A pack or an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeyOwner {
    /// `pack` or `agent`.
    pub purpose: String,
    /// Its name.
    pub name: String,
}

impl KeyOwner {
    fn read(self) -> Result<(Purpose, String), OperationError> {
        let known = Purpose::ALL.into_iter().find(|known| known.as_str() == self.purpose);
        Ok((known.ok_or(OperationError::UnknownPurpose)?, self.name))
    }
}

/// A key and what it stands for.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeyView {
    /// `pack` or `agent`.
    pub purpose: String,
    /// Its name.
    pub name: String,
    /// The tools that a pack may offer.
    pub tools: String,
    /// What an agent may hold, or callers of a pack need.
    pub capabilities: Vec<String>,
    /// `SHA256:` and the fingerprint.
    pub fingerprint: String,
    /// The comment.
    pub comment: String,
    /// `ssh-ed25519` and so on.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The line of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl From<&KeyTerms> for KeyView {
    fn from(terms: &KeyTerms) -> Self {
        Self {
            purpose: terms.purpose.to_string(),
            name: terms.name.clone(),
            tools: terms.tools.to_string(),
            capabilities: terms.capabilities.iter().map(ToString::to_string).collect(),
            fingerprint: terms.fingerprint.clone(),
            comment: terms.comment.clone(),
            kind: None,
            line: None,
        }
    }
}

impl From<&Entry> for KeyView {
    fn from(entry: &Entry) -> Self {
        let kind = entry.key.algorithm().as_str().to_owned();
        Self { kind: Some(kind), line: Some(entry.line), ..Self::from(&*entry.terms) }
    }
}

/// The list as it counts now.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeyListView {
    /// The file.
    pub file: String,
    /// Why no key counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The keys that count.
    pub keys: Vec<KeyView>,
    /// The lines that don't.
    pub faults: Vec<KeyFaultView>,
}

/// A line that does not count.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeyFaultView {
    /// Its number.
    pub line: usize,
    /// Why.
    pub reason: String,
}

/// The gateway's own key, by which packs and agents know it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayKey {
    /// `SHA256:` and the fingerprint.
    pub fingerprint: String,
    /// The public key, as `ssh-keygen` writes it.
    pub public_key: String,
}

impl Operations {
    /// The list as it counts now.
    pub async fn keys(&self) -> KeyListView {
        self.authenticator.refresh().await;
        let list = self.authenticator.list();
        let faults = list.faults().iter();
        KeyListView {
            file: self.authenticator.file().display().to_string(),
            problem: list.problem().map(ToString::to_string),
            keys: list.entries().iter().map(KeyView::from).collect(),
            faults: faults
                .map(|(line, fault)| KeyFaultView { line: *line, reason: fault.to_string() })
                .collect(),
        }
    }

    /// The gateway's own key.
    pub fn gateway_key(&self) -> Result<GatewayKey, OperationError> {
        let identity = self.authenticator.identity()?;
        let public_key = identity.public_key()?;
        Ok(GatewayKey { fingerprint: identity.name().to_owned(), public_key })
    }

    /// Authorises a key. Takes effect immediately.
    pub async fn add_key(&self, actor: &Principal, new: AddKey) -> Result<KeyView, OperationError> {
        let AddKey { whose, tools, capabilities, key } = new;
        let (purpose, name) = whose.read()?;
        let turn = self.acts.turn().await;
        let line = NewKey { purpose, name, tools, capabilities, key }.line()?;
        let terms = self.authenticator.would_add(&line).map_err(not_added)?;
        let change = move |authenticator: &PeerAuthenticator| authenticator.add(&line);
        let keys = std::slice::from_ref(&terms);
        self.change_keys(actor, turn, EventKind::KeyAdded, keys, change).await?;
        Ok(KeyView::from(&terms))
    }

    /// Withdraws keys, and closes the connections that use them. Returns what they stood for.
    pub async fn remove_keys(
        &self,
        actor: &Principal,
        which: RemoveKeys,
    ) -> Result<Vec<KeyView>, OperationError> {
        let name = which.whose.map(KeyOwner::read).transpose()?;
        let selection = Selection { fingerprint: which.fingerprint, name };
        if selection.is_empty() {
            return Err(OperationError::NoKeySelected);
        }
        let turn = self.acts.turn().await;
        let gone = self.authenticator.would_remove(&selection)?;
        if gone.is_empty() {
            return Err(OperationError::UnknownKey);
        }
        let change = move |authenticator: &PeerAuthenticator| authenticator.remove(&selection);
        self.change_keys(actor, turn, EventKind::KeyRemoved, &gone, change).await?;
        Ok(gone.iter().map(KeyView::from).collect())
    }

    async fn change_keys(
        &self,
        actor: &Principal,
        turn: Turn,
        kind: EventKind,
        keys: &[KeyTerms],
        change: impl FnOnce(&PeerAuthenticator) -> anyhow::Result<()> + Send + 'static,
    ) -> Result<(), OperationError> {
        let outcomes = keys.iter().map(|terms| terms.describe(self.draft(actor, kind))).collect();
        let authenticator = Arc::clone(&self.authenticator);
        let work = async move {
            // Others may be at the file, and are waited for.
            let done = spawn_blocking(move || change(&authenticator)).await;
            done.map_err(anyhow::Error::from).flatten().map_err(|error| format!("{error:#}"))
        };
        Ok(turn.act_on_files(outcomes, self.files(), work).await?)
    }
}

fn not_added(error: anyhow::Error) -> OperationError {
    match error.downcast::<KeyExists>() {
        Ok(exists) => exists.into(),
        Err(other) => other.into(),
    }
}
