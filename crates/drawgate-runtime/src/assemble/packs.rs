//! Packs that dial in.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::pipeline::Gateway;
use drawgate_core::registry::Keeper;
use drawgate_host::Host;

use super::sources::base_terms;
use crate::config::Config;
use crate::packs::{PackSettings, Packs};
use crate::peers::Door;

/// Makes room for packs.
pub(super) fn open(
    config: &Config,
    gateway: &Gateway,
    keeper: &Arc<Keeper>,
    host: &Host,
    door: &Arc<Door>,
) -> Arc<Packs> {
    let grpc = &config.grpc;
    let settings = PackSettings {
        grace: Duration::from_secs(grpc.grace_seconds),
        heartbeat: Duration::from_secs(grpc.heartbeat_seconds),
        max_calls: grpc.max_calls_per_pack,
    };
    let ids = Arc::clone(&host.ids);
    let (gateway, keeper) = (gateway.clone(), Arc::clone(keeper));
    Packs::new(gateway, keeper, ids, base_terms(config), settings, Arc::clone(door))
}
