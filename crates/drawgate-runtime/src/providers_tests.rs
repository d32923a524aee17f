use std::collections::BTreeMap;
use std::path::Path;

use drawgate_host::secrets::Secrets;

use super::*;
use crate::config::Config;

fn loaded(text: &str) -> Loaded {
    let loaded = Config::parse(text, Path::new("drawgate.toml"));
    loaded.unwrap_or_else(|errors| panic!("{errors}"))
}

const LOCAL: &str = "[providers.local]\nkind = \"openai_chat\"\nurl = \"http://127.0.0.1:9/v1\"\n";

fn providers(loaded: &Loaded) -> Providers {
    let host = Host::new(Secrets::new(BTreeMap::new()), None).unwrap();
    Providers::new(loaded, &Arc::new(host))
}

#[test]
fn edits_replace_the_models_only_if_they_change_them() {
    let providers = providers(&loaded(""));
    assert!(providers.models().resolve(Some("local/m")).is_err());
    providers.apply(&loaded(LOCAL));
    let models = providers.models();
    assert!(models.resolve(Some("local/m")).is_ok());
    providers.apply(&loaded(&format!("{LOCAL}[limits]\ntimeout_seconds = 5\n")));
    assert!(Arc::ptr_eq(&models, &providers.models()), "slots in use stay in use");
}
