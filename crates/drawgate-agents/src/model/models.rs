//! The models that are configured, by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use drawgate_host::Host;
use drawgate_host::egress::Reach;
use drawgate_host::egress::address::to_uri;
use drawgate_sources::suggest::nearest;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::codec::codec;
use super::config::{ModelsConfig, ProvidersConfig};
use super::http::{Provider, SILENCE};
use super::search::{self, SearchReply};
use super::{Api, Model, ModelError, ModelErrorKind, ModelLimits, Reply, Turn, TurnSink};

/// All providers and names of models.
pub struct Models {
    providers: BTreeMap<String, Configured>,
    names: ModelsConfig,
}

struct Configured {
    provider: Arc<Provider>,
    models: BTreeMap<String, ModelLimits>,
}

/// No model has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownModel {
    /// None was named, and there is no default.
    #[error("no model was named; name one as `provider/model`, or set `default` in `[models]`")]
    NoDefault,
    /// The name is not that of a model.
    #[error("unknown model `{name}`; {advice}")]
    Name {
        /// What was asked for.
        name: String,
        /// What there is.
        advice: String,
    },
}

impl Models {
    /// The models of a configuration. Keys are looked up with each request. A provider whose address
    /// can't be read is left out; [`faults`](super::config::faults) names it.
    #[must_use]
    pub fn new(providers: &ProvidersConfig, names: &ModelsConfig, host: &Arc<Host>) -> Self {
        Self::with_silence(providers, names, host, SILENCE)
    }

    /// The same with another time for which nothing may come.
    pub(super) fn with_silence(
        providers: &ProvidersConfig,
        names: &ModelsConfig,
        host: &Arc<Host>,
        silence: Duration,
    ) -> Self {
        let configured = providers.iter().filter_map(|(name, config)| {
            let base = config.base().ok()?;
            let reach = Reach::own(&to_uri(&base).ok()?);
            let provider = Arc::new(Provider {
                name: name.clone(),
                api: config.kind,
                base,
                reach,
                key: config.key.clone(),
                slots: Arc::new(Semaphore::new(usize::try_from(config.concurrency).unwrap_or(1))),
                silence,
                host: Arc::clone(host),
            });
            let mut models = config.models.clone();
            for limits in models.values_mut() {
                let prices = limits.usd_per_million;
                limits.usd_per_million = prices.map(|prices| prices.of_api(config.kind));
            }
            Some((name.clone(), Configured { provider, models }))
        });
        Self { providers: configured.collect(), names: names.clone() }
    }

    /// The model of a name: an alias, or `provider/model`. Without a name, the default.
    pub fn resolve(&self, name: Option<&str>) -> Result<Arc<dyn Model>, UnknownModel> {
        let (provider, model, limits) = self.find(name)?;
        let name = format!("{}/{model}", provider.name);
        Ok(Arc::new(ProviderModel { provider, model, name, limits }))
    }

    /// The API that a provider speaks; nothing if none of this name is configured.
    #[must_use]
    pub fn api_of(&self, provider: &str) -> Option<Api> {
        self.providers.get(provider).map(|configured| configured.provider.api)
    }

    /// A provider, and what is known about its models.
    pub(super) fn listed(
        &self,
        provider: &str,
    ) -> Option<(Arc<Provider>, &BTreeMap<String, ModelLimits>)> {
        let Configured { provider, models } = self.providers.get(provider)?;
        Some((Arc::clone(provider), models))
    }

    /// Asks a provider for its list of models, which shows that its address and key are right. Returns a
    /// sentence for people.
    pub async fn check(&self, provider: &str) -> Result<String, ModelError> {
        let Some(Configured { provider, .. }) = self.providers.get(provider) else {
            let known = listed(self.providers.keys());
            let message = format!("there is no provider `{provider}`; there are: {known}");
            return Err(ModelError::new(ModelErrorKind::Rejected, message));
        };
        let answer = provider.whole(&codec(provider.api).models_url(&provider.base), None).await?;
        if !lists_models(&answer) {
            let message = format!(
                "provider `{}`: the answer is not a list of models; check its `kind` and `url`",
                provider.name
            );
            return Err(ModelError::new(ModelErrorKind::Malformed, message));
        }
        let key = match &provider.key {
            Some(_) => "accepts the key",
            None => "answers without a key",
        };
        Ok(format!("`{}` {key}", provider.base))
    }

    /// Searches the web by a model of a Gemini provider, or by the default model if that is one.
    pub async fn search(
        &self,
        query: &str,
        max_results: usize,
        model: Option<&str>,
    ) -> Result<SearchReply, ModelError> {
        let rejected = |message: String| ModelError::new(ModelErrorKind::Rejected, message);
        let (provider, model, _) = self.find(model).map_err(|error| rejected(error.to_string()))?;
        match provider.api {
            Api::Gemini => search::search(&provider, &model, query, max_results).await,
            Api::Anthropic | Api::Openai | Api::OpenaiChat => Err(rejected(format!(
                "provider `{}` can't search the web; name a model of a provider of kind `gemini`",
                provider.name
            ))),
        }
    }

    fn find(
        &self,
        name: Option<&str>,
    ) -> Result<(Arc<Provider>, String, ModelLimits), UnknownModel> {
        let asked = name.or(self.names.default.as_deref()).ok_or(UnknownModel::NoDefault)?;
        let target = self.names.aliases.get(asked).map_or(asked, String::as_str);
        let found = target.split_once('/').and_then(|(provider, model)| {
            let configured = self.providers.get(provider)?;
            (!model.is_empty()).then_some((configured, model))
        });
        let Some((Configured { provider, models }, model)) = found else {
            return Err(self.unknown(asked));
        };
        let limits = models.get(model).copied().unwrap_or_default();
        Ok((Arc::clone(provider), model.to_owned(), limits))
    }

    fn unknown(&self, name: &str) -> UnknownModel {
        let models = self.providers.iter().flat_map(|(provider, configured)| {
            configured.models.keys().map(move |model| format!("{provider}/{model}"))
        });
        let known: Vec<_> = self.names.aliases.keys().cloned().chain(models).collect();
        let advice = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "write `provider/model` with one of the providers {}, or one of the aliases {}",
                listed(self.providers.keys()),
                listed(self.names.aliases.keys()),
            ),
        };
        UnknownModel::Name { name: name.to_owned(), advice }
    }
}

/// Whether an answer is a list of models, which may be empty.
fn lists_models(answer: &Value) -> bool {
    let models = ["data", "models"].into_iter().find_map(|name| answer.get(name));
    models.is_some_and(|models| models.is_array() || models.is_null())
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "(none)".to_owned() } else { names.join(", ") }
}

/// One model of a provider.
struct ProviderModel {
    provider: Arc<Provider>,
    model: String,
    name: String,
    limits: ModelLimits,
}

#[async_trait]
impl Model for ProviderModel {
    async fn turn(&self, turn: &Turn, sink: &dyn TurnSink) -> Result<Reply, ModelError> {
        self.provider.turn(&self.model, turn, sink).await
    }

    fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
