use serde_json::{Value, json};

use super::*;

fn problems(providers: Value, models: Value) -> Vec<String> {
    let providers = serde_json::from_value(providers).unwrap();
    let models = serde_json::from_value(models).unwrap();
    faults(&providers, &models).iter().map(ToString::to_string).collect()
}

#[test]
fn the_usual_configuration() {
    let config: ProviderConfig = serde_json::from_value(json!({
        "kind": "anthropic",
        "key": "env:ANTHROPIC_API_KEY",
        "models": {"claude-sonnet-4-6": {
            "context_tokens": 200_000, "max_output": 16_000, "usd_per_million": {"input": 3, "output": 15},
        }},
    }))
    .unwrap();
    assert_eq!(config.concurrency, 4);
    assert_eq!(config.base().unwrap().as_str(), "https://api.anthropic.com/");
    let limits = config.models["claude-sonnet-4-6"];
    assert!((limits.usd_per_million.unwrap().output - 15.0).abs() < 1e-9);
    let names = json!({"default": "fast", "aliases": {"fast": "anthropic/claude-sonnet-4-6"}});
    let found = problems(json!({"anthropic": config}), names);
    assert_eq!(found, [] as [&str; 0]);
}

#[test]
fn keys_are_not_printed() {
    let config: ProviderConfig =
        serde_json::from_value(json!({"kind": "gemini", "key": "AIzaSecret"})).unwrap();
    let printed = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
    assert!(!printed.contains("AIzaSecret"));
}

#[test]
fn unknown_keys_and_kinds_are_refused() {
    for bad in [
        json!({}),
        json!({"kind": "openai", "header": {}}),
        json!({"kind": "smoke_signals"}),
        json!({"kind": "openai", "models": {"m": {"context": 1}}}),
    ] {
        assert!(serde_json::from_value::<ProviderConfig>(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn every_mistake_is_named() {
    let found = problems(
        json!({
            "Big/One": {"kind": "openai"},
            "local": {"kind": "openai_chat", "url": "localhost:11434", "key": "env:", "concurrency": 0},
            "paid": {"kind": "openai", "models": {
                "a": {"max_output": 200_000},
                "b": {"usd_per_million": {"input": -1, "output": 1}},
            }},
        }),
        json!({
            "default": "slow",
            "aliases": {"a/b": "paid/a", "fast": "nowhere/m", "chain": "fast", "bare": "paid/"},
        }),
    );
    insta::assert_snapshot!(found.join("\n"));
}
