//! The operator's door to the keys of packs and agents.

use anyhow::Context;
use axum::Json;
use axum::extract::State;
use drawgate_sdk::statement::Purpose;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Answer, Control, answer};
use drawgate_runtime::peers::{Authorized, Entry, NewKey, Selection};

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
    fn read(self) -> anyhow::Result<(Purpose, String)> {
        let known = Purpose::ALL.into_iter().find(|known| known.as_str() == self.purpose);
        let purpose = known.context("a key is for a `pack` or an `agent`")?;
        Ok((purpose, self.name))
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

pub(super) async fn list(State(control): State<Control>) -> Answer {
    let door = &control.operations.door;
    door.refresh().await;
    let list = door.list();
    let faults = list.faults().iter();
    answer(ShownKeys {
        file: door.file().display().to_string(),
        problem: list.problem().map(ToString::to_string),
        keys: list.entries().iter().map(ShownKey::from).collect(),
        faults: faults
            .map(|(line, fault)| ShownFault { line: *line, reason: fault.to_string() })
            .collect(),
    })
}

pub(super) async fn add(State(control): State<Control>, Json(new): Json<AddKey>) -> Answer {
    let (purpose, name) = new.whose.read()?;
    let AddKey { tools, capabilities, key, .. } = new;
    let new = NewKey { purpose, name, tools, capabilities, key };
    answer(ShownKey::from(&control.operations.add_key(&new).await?))
}

pub(super) async fn remove(
    State(control): State<Control>,
    Json(which): Json<RemoveKeys>,
) -> Answer {
    let name = which.whose.map(Whose::read).transpose()?;
    let selection = Selection { fingerprint: which.fingerprint, name };
    if selection.is_empty() {
        return Err(anyhow::anyhow!("say which key: its fingerprint, or whose it is").into());
    }
    let gone = control.operations.remove_keys(&selection).await?;
    answer(gone.iter().map(ShownKey::from).collect::<Vec<_>>())
}

pub(super) async fn server(State(control): State<Control>) -> Answer {
    let identity = control.operations.door.identity()?;
    answer(json!({ "fingerprint": identity.name(), "publicKey": identity.public_key()? }))
}
