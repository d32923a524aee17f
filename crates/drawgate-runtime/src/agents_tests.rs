use std::path::Path;
use std::time::Duration;

use arc_swap::ArcSwap;
use drawgate_agents::plugins::PluginTerms;
use drawgate_core::model::{Caller, Principal, Surface};
use drawgate_core::redact::Redactor;
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;

use super::*;
use crate::assemble::{Runtime, RuntimeOptions, Start, StateLocation};
use crate::config::Config;

async fn open(place: &Path) -> Arc<Runtime> {
    let loaded = Config::parse("", &place.join("drawgate.toml")).unwrap();
    let options = RuntimeOptions {
        host: Host::new(Secrets::new(BTreeMap::<String, String>::new()), None).unwrap(),
        loaded: &loaded,
        state: StateLocation::Folder(place.join("data")),
        start: Start::Sources,
        redactor: Arc::new(ArcSwap::from_pointee(Redactor::new([]))),
        embedder: None,
    };
    let runtime = Arc::new(Runtime::open(options).await.unwrap());
    runtime.start_upkeep();
    runtime
}

/// Waits until the local user sees the tool, or does not see it any more.
async fn until(runtime: &Runtime, is_wanted: bool) {
    let caller = Caller {
        principal: Principal::local(),
        session: None,
        surface: Surface::EMBEDDED,
        carried: Arc::default(),
        lineage: None,
    };
    let is_there = || {
        let tools = runtime.gateway().tools(&caller);
        tools.iter().any(|entry| entry.wire.as_str() == "delegation__delegate")
    };
    let so = async {
        while is_there() != is_wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let so = tokio::time::timeout(Duration::from_secs(30), so).await;
    so.unwrap_or_else(|_| panic!("the tool is there: {}", is_there()));
}

#[tokio::test]
async fn tools_of_plugins_are_there_while_they_are_at_work() {
    let place = tempfile::tempdir().unwrap();
    let runtime = open(place.path()).await;
    let plugins = &runtime.operations.agents.plugins;
    let put = async || {
        let name = SourceId::new("delegation").unwrap();
        let context = plugins.context(&name, PluginTerms::default()).unwrap();
        let plugin = Plugins::native("delegation", context).unwrap().unwrap();
        plugins.start(&plugin).await.unwrap();
        plugins.seat(plugin, 0).await;
    };
    until(&runtime, false).await;
    put().await;
    until(&runtime, true).await;
    assert!(plugins.take_out("delegation").await);
    until(&runtime, false).await;
    put().await;
    put().await;
    until(&runtime, true).await;
    runtime.close().await;
    assert_eq!(plugins.status(), [], "they end with the gateway");
}
