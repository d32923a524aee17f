//! Hooks of the configuration, and what runs plugins.

use drawgate_core::model::SourceId;
use drawgate_sources::oneshot::Exchange;

use super::Runtime;
use crate::config::{HookConfig, Loaded};
use crate::plugins::{CONFIGURED_PREFIX, Runtimes};

impl Runtime {
    /// Brings the hooks in line with the configuration.
    pub(super) async fn apply_hooks(&self, loaded: &Loaded) {
        let hooks = loaded.config.hooks.iter();
        let hooks = hooks.map(|hook| {
            let exchange = self.exchange(loaded, hook).map_err(|error| format!("{error:#}"));
            (hook.clone(), exchange)
        });
        self.operations.plugins.configure(Runtimes::of(loaded), hooks.collect()).await;
    }

    fn exchange(&self, loaded: &Loaded, hook: &HookConfig) -> anyhow::Result<Exchange> {
        let server = hook.server();
        let id = SourceId::new(&format!("{CONFIGURED_PREFIX}{}", hook.name))?;
        Ok(Exchange::new(self.server(loaded, &id, &server)?, &self.host)?)
    }
}
