//! What plugins store: a few small values each, sealed.

use std::collections::BTreeSet;

use drawgate_core::model::SourceId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plugin::PluginError;
use crate::runs::Runs;
use crate::runs::store::Change;

/// The kind of the documents.
const KIND: &str = "plugin_value";
/// Values of one plugin, bytes of a value, and bytes of a key.
const MAX_KEYS: usize = 256;
const MAX_VALUE: usize = 64 * 1024;
const MAX_KEY: usize = 128;

/// A value with its key.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    key: String,
    value: Value,
}

pub(super) async fn load(
    runs: &Runs,
    plugin: &SourceId,
    key: &str,
) -> Result<Option<Value>, PluginError> {
    let found = all(runs, plugin, key).await?;
    Ok(found.into_iter().find(|stored| stored.key == key).map(|stored| stored.value))
}

/// The keys under which a plugin has stored something. They are read once, since all values come with them.
pub(super) type StoredKeys = BTreeSet<String>;

/// Stores or removes a value. `keys` is known from the first time on.
pub(super) async fn save(
    runs: &Runs,
    plugin: &SourceId,
    (key, value): (&str, Option<Value>),
    keys: &mut Option<StoredKeys>,
) -> Result<(), PluginError> {
    check(key)?;
    let failed = |error: drawgate_core::store::StoreError| PluginError(error.to_string());
    let id = id(plugin, key);
    let Some(value) = value else {
        runs.0.store.remove_sealed(KIND, id).await.map_err(failed)?;
        if let Some(keys) = keys {
            keys.remove(key);
        }
        return Ok(());
    };
    let size = value.to_string().len();
    if size > MAX_VALUE {
        return Err(PluginError(format!("a value may have {MAX_VALUE} bytes; `{key}` has {size}")));
    }
    let keys = if let Some(keys) = keys {
        keys
    } else {
        let stored = all(runs, plugin, "").await?;
        keys.insert(stored.into_iter().map(|stored| stored.key).collect())
    };
    if keys.len() >= MAX_KEYS && !keys.contains(key) {
        let reason = format!("a plugin may store {MAX_KEYS} values; remove one first");
        return Err(PluginError(reason));
    }
    let stored = Stored { key: key.to_owned(), value };
    let write = runs.0.store.put(KIND, id, &stored).map_err(failed)?;
    // Counted before: what can't be told from a failure may be stored.
    keys.insert(stored.key);
    runs.0.store.commit(&[Change::Beside(&write)]).await.map_err(failed)
}

async fn all(runs: &Runs, plugin: &SourceId, prefix: &str) -> Result<Vec<Stored>, PluginError> {
    let found = runs.0.store.sealed(KIND, &id(plugin, prefix)).await;
    found.map_err(|error| PluginError(error.to_string()))
}

fn id(plugin: &SourceId, key: &str) -> String {
    format!("{plugin}/{key}")
}

fn check(key: &str) -> Result<(), PluginError> {
    let fits = !key.is_empty() && key.len() <= MAX_KEY && !key.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(PluginError(format!("a key must have 1 to {MAX_KEY} bytes and no control characters")))
}
