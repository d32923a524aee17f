use std::collections::BTreeMap;
use std::path::Path;

use drawgate_host::secrets::Secrets;

use super::*;
use crate::config::{Config, ConfigOrigin};

fn loaded(text: &str, chosen: ConfigOrigin) -> Loaded {
    let loaded = Config::parse(text, Path::new("drawgate.toml"));
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
    Loaded { chosen, ..loaded }
}

const LOCAL: &str = "[providers.local]\nkind = \"openai_chat\"\nurl = \"http://127.0.0.1:9/v1\"\n";

fn providers(loaded: &Loaded) -> Providers {
    let host = Host::new(Secrets::new(BTreeMap::new()), None).unwrap();
    Providers::new(loaded, &Arc::new(host))
}

#[test]
fn a_configuration_that_was_found_asks_nobody() {
    let found = providers(&loaded(LOCAL, ConfigOrigin::Found));
    assert!(found.models().resolve(Some("local/m")).is_err());
    assert!(found.withheld().unwrap().contains("found, not named"));
    assert!(found.configured().contains_key("local"), "it is listed all the same");
    let named = providers(&loaded(LOCAL, ConfigOrigin::Named));
    assert!(named.models().resolve(Some("local/m")).is_ok());
    assert_eq!(named.withheld(), None);
}

#[test]
fn edits_replace_the_models_only_if_they_change_them() {
    let providers = providers(&loaded("", ConfigOrigin::Named));
    assert!(providers.models().resolve(Some("local/m")).is_err());
    providers.apply(&loaded(LOCAL, ConfigOrigin::Named));
    let models = providers.models();
    assert!(models.resolve(Some("local/m")).is_ok());
    providers
        .apply(&loaded(&format!("{LOCAL}[limits]\ntimeout_seconds = 5\n"), ConfigOrigin::Named));
    assert!(Arc::ptr_eq(&models, &providers.models()), "slots in use stay in use");
}
