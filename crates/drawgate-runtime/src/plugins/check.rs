//! Whether a plugin in a folder can be loaded. Needs no gateway.

use std::path::Path;
use std::sync::Arc;

use drawgate_agents::plugin::process::{Checked, ProcessLimits, ProcessPlugin, ProcessSettings};
use drawgate_host::Host;

use super::{PluginFault, Runtimes};
use crate::config::Loaded;

/// Loads the plugin in a folder, in the sandbox, and ends it again.
pub async fn check_folder(
    folder: &Path,
    loaded: &Loaded,
    host: Host,
) -> Result<Checked, PluginFault> {
    let unusable = |error: &dyn std::fmt::Display| PluginFault::Unusable(error.to_string());
    let workspace = tempfile::tempdir().map_err(|error| {
        PluginFault::Unusable(format!("a temporary folder can't be made: {error}"))
    })?;
    let Runtimes { node, python, resources } = Runtimes::of(loaded);
    let settings = ProcessSettings {
        folder: std::path::absolute(folder).map_err(|error| unusable(&error))?,
        workspace: workspace.path().to_owned(),
        node,
        python,
        resources,
        limits: ProcessLimits::default(),
    };
    ProcessPlugin::check(settings, Arc::new(host)).await.map_err(|error| unusable(&error))
}
