//! `[providers]` and `[models]`: who is asked, with which key, and what models are called.

use std::collections::{BTreeMap, BTreeSet};

use drawgate_host::egress::address;
use drawgate_sources::setting::Setting;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{Api, ModelLimits};

/// Providers by name.
pub type ProvidersConfig = BTreeMap<String, ProviderConfig>;

/// A provider of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// The API that it speaks. Ollama, vLLM and llama.cpp speak `openai_chat`.
    pub kind: Api,
    /// Its address, in the form that clients of the API take: `https://api.anthropic.com`,
    /// `https://api.openai.com/v1`, `http://127.0.0.1:11434/v1`. Absent: the address of the provider
    /// whose API it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The key. Write `env:NAME`. Absent: requests are made without one.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Setting>,
    /// Most requests under way at a time.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(default = "default_concurrency")]
    pub concurrency: u32,
    /// What is known about its models, by their names at the provider. Others can be used too, with the
    /// usual limits and without prices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelLimits>,
}

/// Names for models.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsConfig {
    /// The model where none is named: an alias, or `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The model of a Gemini provider by which `web_search` searches; without one, the tool is not
    /// offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Short names, each for a `provider/model`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, String>,
}

/// Requests under way at a time, unless configured.
const CONCURRENCY: u32 = 4;

const fn default_concurrency() -> u32 {
    CONCURRENCY
}

impl ProviderConfig {
    /// The address that requests go to.
    pub fn base(&self) -> Result<Url, address::AddressError> {
        address::parse(self.url.as_deref().unwrap_or(self.kind.official_url()))
    }
}

/// A mistake in `[providers]` or `[models]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}`: {message}", .path.join("."))]
pub struct ConfigFault {
    /// Where it is, key by key.
    pub path: Vec<String>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl ConfigFault {
    fn new(path: &[&str], message: impl Into<String>) -> Self {
        let path = path.iter().map(|&key| key.to_owned()).collect();
        Self { path, message: message.into() }
    }
}

/// All mistakes that the types don't exclude.
#[must_use]
pub fn faults(providers: &ProvidersConfig, models: &ModelsConfig) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    for (name, provider) in providers {
        check_provider(name, provider, &mut faults);
    }
    for (alias, target) in &models.aliases {
        let path = ["models", "aliases", alias];
        if alias.is_empty() || alias.contains('/') {
            faults.push(ConfigFault::new(&path, "an alias has no `/`, and is not empty"));
        }
        if let Err(message) = check_target(target, providers, &BTreeSet::new()) {
            faults.push(ConfigFault::new(&path, message));
        }
    }
    if let Some(default) = &models.default {
        let aliases = models.aliases.keys().map(String::as_str).collect();
        if let Err(message) = check_target(default, providers, &aliases) {
            faults.push(ConfigFault::new(&["models", "default"], message));
        }
    }
    faults
}

fn check_provider(name: &str, provider: &ProviderConfig, faults: &mut Vec<ConfigFault>) {
    let mut fault = |keys: &[&str], message: String| {
        faults.push(ConfigFault::new(&[&["providers", name], keys].concat(), message));
    };
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if name.is_empty() || !name.chars().all(legal) {
        fault(&[], "a provider's name has lower case letters, digits, `-` and `_`".to_owned());
    }
    if let Err(error) = provider.base() {
        fault(&["url"], error.to_string());
    }
    if provider.key.as_ref().is_some_and(Setting::is_broken_reference) {
        let message = "`env:` must be followed by a variable's name, such as `env:API_KEY`";
        fault(&["key"], message.to_owned());
    }
    if provider.concurrency == 0 {
        fault(&["concurrency"], "at least one request must be possible; use 1 or more".to_owned());
    }
    for (model, limits) in &provider.models {
        if limits.max_output == 0 || limits.max_output >= limits.context_tokens {
            let message = "`max_output` must be at least 1 and less than `context_tokens`";
            fault(&["models", model], message.to_owned());
        }
        let prices = limits.usd_per_million.into_iter().flat_map(|prices| {
            let cached = [prices.cache_read, prices.cache_write].into_iter().flatten();
            [prices.input, prices.output].into_iter().chain(cached)
        });
        if prices.into_iter().any(|price| !price.is_finite() || price < 0.0) {
            let message = "prices are US dollars for a million tokens, 0 or more";
            fault(&["models", model, "usd_per_million"], message.to_owned());
        }
    }
}

fn check_target(
    target: &str,
    providers: &ProvidersConfig,
    aliases: &BTreeSet<&str>,
) -> Result<(), String> {
    if aliases.contains(target) {
        return Ok(());
    }
    match target.split_once('/') {
        Some((provider, model)) if providers.contains_key(provider) && !model.is_empty() => Ok(()),
        Some((provider, _)) => Err(format!(
            "there is no provider `{provider}` with that model; add `[providers.{provider}]`, or name another"
        )),
        None => Err(format!("`{target}` names no model; write `provider/model`")),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
