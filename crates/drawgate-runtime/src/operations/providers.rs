//! Providers of models: which are configured, and whether they answer.

use drawgate_agents::model::config::ProviderConfig;
use serde::{Deserialize, Serialize};

use super::{AgentError, OperationError, Operations};

/// A provider as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderReport {
    /// Its name.
    pub name: String,
    /// The API that it speaks.
    pub kind: String,
    /// Its address.
    pub url: String,
    /// The variable with its key as `env:NAME`, or `****`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Most requests under way at a time.
    pub concurrency: u32,
    /// The models that are described.
    pub models: Vec<String>,
}

/// Whether a provider answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderState {
    /// Its name.
    pub name: String,
    /// Whether address and key are right.
    pub ok: bool,
    /// A sentence that says so, or what is wrong.
    pub message: String,
}

impl Operations {
    /// The providers, by name.
    #[must_use]
    pub fn providers(&self) -> Vec<ProviderReport> {
        let configured = self.providers.configured();
        let report = |(name, provider): (&String, &ProviderConfig)| ProviderReport {
            name: name.clone(),
            kind: provider.kind.as_str().to_owned(),
            url: provider.url.as_deref().unwrap_or(provider.kind.official_url()).to_owned(),
            key: provider.key.as_ref().map(|key| key.shown().to_owned()),
            concurrency: provider.concurrency,
            models: provider.models.keys().cloned().collect(),
        };
        configured.iter().map(report).collect()
    }

    /// Asks a provider for its list of models.
    pub async fn check_provider(&self, name: &str) -> Result<ProviderState, OperationError> {
        if !self.providers.configured().contains_key(name) {
            return Err(AgentError::UnknownProvider(name.to_owned()).into());
        }
        let checked = self.providers.models().check(name).await.map_err(|error| error.message);
        let (ok, message) = match checked {
            Ok(message) => (true, message),
            Err(message) => (false, message),
        };
        Ok(ProviderState { name: name.to_owned(), ok, message })
    }
}
