//! Keys of packs and agents: authorised and withdrawn by the operator.

use std::sync::Arc;

use drawgate_core::acts::Turn;
use drawgate_core::audit::EventKind;
use drawgate_core::model::Principal;
use drawgate_sdk::statement::Purpose;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::{OperationError, Operations};
use crate::peers::{Authorized, Door, Entry, KeyExists, NewKey, Selection};

/// A key to be authorised.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddKey {
    /// Whose it is.
    #[serde(flatten)]
    pub whose: Whose,
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
    pub whose: Option<Whose>,
    /// Which one.
    pub fingerprint: Option<String>,
}

/// A pack or an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Whose {
    /// `pack` or `agent`.
    pub purpose: String,
    /// Its name.
    pub name: String,
}

impl Whose {
    fn read(self) -> Result<(Purpose, String), OperationError> {
        let known = Purpose::ALL.into_iter().find(|known| known.as_str() == self.purpose);
        Ok((known.ok_or(OperationError::UnknownPurpose)?, self.name))
    }
}

/// A key and what it stands for.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownKey {
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

impl From<&Authorized> for ShownKey {
    fn from(terms: &Authorized) -> Self {
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

impl From<&Entry> for ShownKey {
    fn from(entry: &Entry) -> Self {
        let kind = entry.key.algorithm().as_str().to_owned();
        Self { kind: Some(kind), line: Some(entry.line), ..Self::from(&*entry.terms) }
    }
}

/// The list as it counts now.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownKeys {
    /// The file.
    pub file: String,
    /// Why no key counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The keys that count.
    pub keys: Vec<ShownKey>,
    /// The lines that don't.
    pub faults: Vec<ShownFault>,
}

/// A line that does not count.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownFault {
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
    pub async fn keys(&self) -> ShownKeys {
        self.door.refresh().await;
        let list = self.door.list();
        let faults = list.faults().iter();
        ShownKeys {
            file: self.door.file().display().to_string(),
            problem: list.problem().map(ToString::to_string),
            keys: list.entries().iter().map(ShownKey::from).collect(),
            faults: faults
                .map(|(line, fault)| ShownFault { line: *line, reason: fault.to_string() })
                .collect(),
        }
    }

    /// The gateway's own key.
    pub fn gateway_key(&self) -> Result<GatewayKey, OperationError> {
        let identity = self.door.identity()?;
        let public_key = identity.public_key()?;
        Ok(GatewayKey { fingerprint: identity.name().to_owned(), public_key })
    }

    /// Authorises a key. It counts at once.
    pub async fn add_key(
        &self,
        actor: &Principal,
        new: AddKey,
    ) -> Result<ShownKey, OperationError> {
        let AddKey { whose, tools, capabilities, key } = new;
        let (purpose, name) = whose.read()?;
        let turn = self.acts.turn().await;
        let line = NewKey { purpose, name, tools, capabilities, key }.line()?;
        let terms = self.door.would_add(&line).map_err(not_added)?;
        let change = move |door: &Door| door.add(&line);
        let keys = std::slice::from_ref(&terms);
        self.change_keys(actor, turn, EventKind::KeyAdded, keys, change).await?;
        Ok(ShownKey::from(&terms))
    }

    /// Withdraws keys, and closes the connections that use them. Returns what they stood for.
    pub async fn remove_keys(
        &self,
        actor: &Principal,
        which: RemoveKeys,
    ) -> Result<Vec<ShownKey>, OperationError> {
        let name = which.whose.map(Whose::read).transpose()?;
        let selection = Selection { fingerprint: which.fingerprint, name };
        if selection.is_empty() {
            return Err(OperationError::NoKeySelected);
        }
        let turn = self.acts.turn().await;
        let gone = self.door.would_remove(&selection)?;
        if gone.is_empty() {
            return Err(OperationError::UnknownKey);
        }
        let change = move |door: &Door| door.remove(&selection);
        self.change_keys(actor, turn, EventKind::KeyRemoved, &gone, change).await?;
        Ok(gone.iter().map(ShownKey::from).collect())
    }

    async fn change_keys(
        &self,
        actor: &Principal,
        turn: Turn,
        kind: EventKind,
        keys: &[Authorized],
        change: impl FnOnce(&Door) -> anyhow::Result<()> + Send + 'static,
    ) -> Result<(), OperationError> {
        let outcomes = keys.iter().map(|terms| terms.describe(self.draft(actor, kind))).collect();
        let door = Arc::clone(&self.door);
        let work = async move {
            // Others may be at the file, and are waited for.
            let done = spawn_blocking(move || change(&door)).await;
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
