//! A command or an address that an operator has bound to one hook: it gets a JSON object for each event, and
//! answers with one, or with nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use drawgate_core::hooks::{CallHook, HookCall, HookError, Opinion, PatchOperation, Review};
use drawgate_core::json as strict;
use drawgate_core::model::SourceId;
use drawgate_sources::oneshot::{Exchange, Silence};
use serde_json::{Map, Value};

use super::{Hook, HookAnswer, HookEvent, Plugin, PluginError, PluginTool, wire};

/// The longest that an address is waited for; whoever asks has a shorter time of their own.
const LONGEST: Duration = Duration::from_mins(2);

/// What is bound to one hook.
#[derive(Clone)]
pub struct BoundCommand {
    name: SourceId,
    hook: Hook,
    exchange: Arc<Exchange>,
}

impl BoundCommand {
    /// Binds what is reached by an exchange to a hook.
    #[must_use]
    pub fn new(name: SourceId, hook: Hook, exchange: Exchange) -> Self {
        Self { name, hook, exchange: Arc::new(exchange) }
    }

    /// Its answer; an empty one if it says nothing.
    async fn ask(&self, message: &Value) -> Result<Map<String, Value>, PluginError> {
        let body = message.to_string().into_bytes();
        let deadline = Instant::now() + LONGEST;
        let answer = self.exchange.send(body, deadline, Silence::Passes).await;
        let reply = answer.map_err(|error| PluginError(error.to_string()))?;
        if let Some(refusal) = reply.refusal() {
            return Err(PluginError(refusal));
        }
        let answer = reply.body;
        if answer.trim_ascii().is_empty() {
            return Ok(Map::new());
        }
        match strict::parse(&answer) {
            Ok(Value::Object(answer)) => Ok(answer),
            Ok(_) => Err(PluginError("its answer is not a JSON object".to_owned())),
            Err(error) => {
                Err(PluginError(format!("its answer can't be used: {}", error.about(&answer))))
            }
        }
    }

    async fn ask_about(
        &self,
        call: &HookCall<'_>,
        result: Option<&Value>,
    ) -> Result<Map<String, Value>, HookError> {
        let event = wire::call_event(self.hook, call, result);
        self.ask(&event).await.map_err(|error| HookError(error.0))
    }
}

#[async_trait]
impl Plugin for BoundCommand {
    fn name(&self) -> &SourceId {
        &self.name
    }

    fn version(&self) -> &'static str {
        ""
    }

    fn tools(&self) -> Vec<PluginTool> {
        Vec::new()
    }

    fn hooks(&self) -> BTreeSet<Hook> {
        BTreeSet::from([self.hook])
    }

    async fn hook(&self, event: &HookEvent) -> Result<HookAnswer, PluginError> {
        let message = serde_json::to_value(event)
            .map_err(|error| PluginError(format!("the event can't be written: {error}")))?;
        wire::answer(self.hook, &self.ask(&message).await?)
    }

    fn call_hook(&self) -> Option<Arc<dyn CallHook>> {
        Some(Arc::new(self.clone()))
    }
}

#[async_trait]
impl CallHook for BoundCommand {
    async fn rewrite(&self, call: &HookCall<'_>) -> Result<Vec<PatchOperation>, HookError> {
        wire::changes(self.ask_about(call, None).await?)
    }

    async fn check(&self, call: &HookCall<'_>) -> Result<Opinion, HookError> {
        wire::opinion(self.ask_about(call, None).await?)
    }

    async fn after(&self, call: &HookCall<'_>, result: &Value) -> Result<Review, HookError> {
        wire::review(self.ask_about(call, Some(result)).await?)
    }
}
