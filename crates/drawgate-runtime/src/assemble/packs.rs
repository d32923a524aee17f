//! Packs that dial in.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::pipeline::Gateway;
use drawgate_core::registry::SourceSupervisor;
use drawgate_host::Host;

use crate::config::{Config, base_terms};
use crate::packs::{PackSettings, Packs};
use crate::peers::PeerAuthenticator;

/// Opens the registry of connected packs.
pub(super) fn open(
    config: &Config,
    gateway: &Gateway,
    supervisor: &Arc<SourceSupervisor>,
    host: &Host,
    authenticator: &Arc<PeerAuthenticator>,
) -> Arc<Packs> {
    let grpc = &config.grpc;
    let settings = PackSettings {
        grace: Duration::from_secs(grpc.grace_seconds),
        heartbeat: Duration::from_secs(grpc.heartbeat_seconds),
        max_calls: grpc.max_calls_per_pack,
    };
    let ids = Arc::clone(&host.ids);
    let (gateway, supervisor) = (gateway.clone(), Arc::clone(supervisor));
    Packs::new(gateway, supervisor, ids, base_terms(config), settings, Arc::clone(authenticator))
}
