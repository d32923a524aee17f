//! Hooks of the configuration: commands and addresses.

use std::sync::Arc;

use drawgate_agents::plugin::Plugin;
use drawgate_agents::plugin::bound::BoundCommand;
use drawgate_core::hooks::{BoundHook, CallHook};
use drawgate_core::model::{IdError, SourceId};
use drawgate_sources::oneshot::Exchange;

use super::hook_point;
use crate::config::{HookConfig, HookSettings};

/// What begins the names of configured hooks among plugins. No plugin may have such a name.
pub const CONFIGURED_PREFIX: &str = "hook-";

/// A configured hook that is at work.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfiguredHook(HookConfig);

impl ConfiguredHook {
    pub(crate) fn id(config: &HookConfig) -> Result<SourceId, IdError> {
        SourceId::new(&format!("{CONFIGURED_PREFIX}{}", config.name))
    }

    pub(crate) fn new(config: &HookConfig) -> Self {
        Self(config.clone())
    }

    /// Whether it is the same hook.
    pub(crate) fn is(&self, config: &HookConfig) -> bool {
        self.0 == *config
    }

    pub(crate) fn plugin(&self, exchange: Exchange) -> Result<Arc<dyn Plugin>, IdError> {
        let id = Self::id(&self.0)?;
        Ok(Arc::new(BoundCommand::new(id, self.0.on.hook(), exchange)))
    }

    /// The hook as the gate asks it; nothing if it is not around calls.
    pub(crate) fn bound(&self, hook: Arc<dyn CallHook>) -> Option<BoundHook> {
        let point = hook_point(self.0.on.hook())?;
        let settings: &HookSettings = &self.0.settings;
        Some(BoundHook {
            name: Self::id(&self.0).ok()?.as_str().into(),
            position: self.0.position,
            // The configuration has been checked.
            points: vec![(point, settings.terms().unwrap_or_default())],
            hook,
        })
    }
}
