use std::path::Path;
use std::time::Duration;

use insta::assert_json_snapshot;
use serde_json::Value;

use super::*;

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn parse(text: &str) -> Config {
    let loaded = Config::parse(text, Path::new("drawgate.toml"));
    loaded.unwrap_or_else(|errors| panic!("{errors}")).config
}

/// Whether a text loads without errors and without warnings.
#[track_caller]
fn check_clean(text: &str, path: &Path) -> Config {
    let loaded = Config::parse(text, path).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(loaded.warnings, [], "{}", path.display());
    loaded.config
}

#[test]
fn nothing_means_the_defaults() {
    assert_eq!(parse(""), Config::default());
    assert_json_snapshot!("defaults", Config::default().redacted());
}

#[test]
fn a_document_means_what_a_file_of_its_shape_means() {
    let text = "limits.timeout_seconds = 7\n[servers.one]\ncommand = \"true\"";
    let document = Config::document(text).unwrap();
    let loaded = Config::from_document(document.clone()).unwrap();
    assert_eq!(loaded.config, parse(text));
    assert_eq!(loaded.path, None, "nothing is looked for beside it");
    assert_eq!(loaded.text_hash, Config::from_document(document).unwrap().text_hash);

    let wrong = serde_json::json!({ "limits": { "timeout_seconds": "7" }, "serverz": {} });
    let problems = Config::from_document(wrong).unwrap_err().problems;
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["limits.timeout_seconds", "serverz"]);
    assert!(problems.iter().all(|it| it.file.is_none() && it.location.is_none()), "{problems:?}");
    assert!(Config::document("a = ").is_err());
}

#[test]
fn the_starter_loads_and_changes_nothing() {
    assert_eq!(check_clean(STARTER, Path::new("drawgate.toml")), Config::default());
}

#[test]
fn the_starter_loads_with_its_examples_switched_on() {
    let is_code = |line: &str| line.contains(" = ") || line.starts_with('[');
    let switched: Vec<&str> = STARTER
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| is_code(rest)).unwrap_or(line))
        .collect();
    let config = check_clean(&switched.join("\n"), Path::new("drawgate.toml"));
    assert_eq!(config.servers.len(), 2);
}

#[test]
fn the_example_loads() {
    let path = format!("{PROJECT}/examples/drawgate.toml");
    let loaded =
        Config::load(ConfigSource::File(path.into())).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(loaded.warnings, []);
    assert_json_snapshot!("example", loaded.config.redacted());
}

#[test]
fn every_example_in_the_reference_loads() {
    let reference = std::fs::read_to_string(format!("{PROJECT}/docs/configuration.md")).unwrap();
    let blocks: Vec<&str> = reference.split("```toml\n").skip(1).collect();
    assert!(blocks.len() > 10);
    for block in blocks {
        check_clean(block.split("```").next().unwrap(), Path::new("drawgate.toml"));
    }
}

#[test]
fn the_reference_names_every_key() {
    let reference = std::fs::read_to_string(format!("{PROJECT}/docs/configuration.md")).unwrap();
    let schema = Config::json_schema();
    let definitions = schema["definitions"].as_object().unwrap().values();
    let tables = definitions.chain([&schema]).filter_map(|it| it["properties"].as_object());
    let keys: Vec<&String> = tables.flat_map(serde_json::Map::keys).collect();
    assert!(keys.len() > 60);
    for key in keys {
        let named =
            reference.contains(&format!("`{key}`")) || reference.contains(&format!("[{key}"));
        assert!(named, "docs/configuration.md does not mention `{key}`");
    }
}

#[test]
fn the_published_schema_is_current() {
    let path = format!("{PROJECT}/docs/drawgate.schema.json");
    let published = std::fs::read_to_string(path).unwrap();
    let published: Value = serde_json::from_str(&published).unwrap();
    assert!(
        published == Config::json_schema(),
        "the types have changed; run `drawgate config schema > docs/drawgate.schema.json`"
    );
}

#[test]
fn every_key_has_a_description() {
    let schema = Config::json_schema();
    let definitions = schema["definitions"].as_object().unwrap().values();
    for table in definitions.chain([&schema]).filter_map(|it| it["properties"].as_object()) {
        for (key, property) in table {
            assert!(property["description"].is_string(), "{key}");
        }
    }
}

#[test]
fn a_missing_file_is_an_error_only_if_it_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let error = Config::load(ConfigSource::File(file.clone())).unwrap_err().to_string();
    assert_eq!(error, format!("{}: error: there is no such file", file.display()));
    let defaults = Config::load(ConfigSource::Optional("nowhere/drawgate.toml".into())).unwrap();
    assert_eq!((defaults.path, defaults.config), (None, Config::default()));
}

#[test]
fn a_file_that_is_not_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drawgate.toml");
    std::fs::write(&file, [0xff, 0xfe, 0x00]).unwrap();
    let error = Config::load(ConfigSource::File(file.clone())).unwrap_err().to_string();
    assert!(error.ends_with("error: the file is not UTF-8 text; save it as UTF-8"), "{error}");
}

#[test]
fn the_hash_follows_the_text_and_paths_follow_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drawgate.toml");
    std::fs::write(folder.path().join("rules.json"), r#"{"version": "1.0"}"#).unwrap();
    std::fs::write(&file, "policy.file = \"rules.json\"").unwrap();
    let first = Config::load(ConfigSource::File(file.clone())).unwrap();
    let rules = first.config.policy.file.as_deref().unwrap();
    assert_eq!(first.resolve(rules), folder.path().join("rules.json"));
    assert_eq!(first.resolve(Path::new("/etc/rules.json")), Path::new("/etc/rules.json"));
    std::fs::write(&file, "policy.file = \"rules.json\"\n").unwrap();
    let second = Config::load(ConfigSource::File(file.clone())).unwrap();
    assert_eq!(first.config, second.config);
    assert_ne!(first.text_hash, second.text_hash);
}

#[test]
fn transports_have_several_spellings_and_can_be_left_out() {
    let cases = [
        ("transport = \"stdio\"\ncommand = \"x\"", Transport::Stdio),
        ("command = \"x\"", Transport::Stdio),
        ("transport = \"streamable_http\"\nurl = \"http://a/mcp\"", Transport::StreamableHttp),
        ("transport = \"streamableHttp\"\nurl = \"http://a/mcp\"", Transport::StreamableHttp),
        ("transport = \"http\"\nurl = \"http://a/mcp\"", Transport::StreamableHttp),
        ("url = \"http://a/mcp\"", Transport::StreamableHttp),
        ("transport = \"sse\"\nurl = \"http://a/sse\"", Transport::Sse),
        ("transport = \"websocket\"\nurl = \"wss://a/mcp\"", Transport::Websocket),
    ];
    for (text, expected) in cases {
        let config = parse(&format!("[servers.a]\n{text}"));
        assert_eq!(config.servers["a"].connection.transport(), expected, "{text}");
    }
}

#[test]
fn the_nearest_limit_holds() {
    let config = parse(
        "[limits]\ntimeout_seconds = 10\nmax_output_lines = 7\n[servers.a]\ncommand = \"x\"\n\
         timeout_seconds = 20\nmax_output_bytes = 300\n[servers.a.tools.t]\ntimeout_seconds = 40\n",
    );
    let terms = declared_terms(&config, &config.servers["a"]);
    let limits = &terms.limits;
    assert_eq!(limits.timeout, Duration::from_secs(20));
    assert_eq!((limits.max_output_bytes, limits.max_output_lines), (300, 7));
    assert_eq!(terms.tools["t"].timeout, Some(Duration::from_secs(40)));
    assert_eq!(terms.tools["t"].max_output_bytes, None);
}

#[test]
fn inline_rules_have_the_shape_of_a_policy_file() {
    assert_eq!(parse("").policy.inline(), None);
    let config = parse(
        "[policy]\ndefaults = { fallback = \"deny\" }\n[[policy.rules]]\nid = \"reads\"\n\
         action = \"file.read\"\nwhen = { path = \"docs/**\" }\ndecision = \"allow\"\n",
    );
    let expected = serde_json::json!({
        "version": "1.0",
        "rules": [{
            "id": "reads", "action": "file.read", "when": { "path": "docs/**" }, "decision": "allow",
        }],
        "defaults": { "fallback": "deny" },
    });
    assert_eq!(config.policy.inline(), Some(expected));
}

#[test]
fn a_manifest_is_an_array_or_a_table_with_tools() {
    let tool = "{ name = \"t\", description = \"d\", inputSchema = { type = \"object\" } }";
    for manifest in [format!("[{tool}]"), format!("{{ tools = [{tool}] }}")] {
        let text =
            format!("[servers.a]\ncommand = \"x\"\nprotocol = \"call\"\nmanifest = {manifest}");
        let config = parse(&text);
        let (tools, _) = config.servers["a"].declared_tools(config.kinds).unwrap();
        assert_eq!(tools.len(), 1);
        assert_eq!(tools[0].input_schema, serde_json::json!({ "type": "object" }));
    }
}

#[test]
fn no_secret_is_ever_shown() {
    let text = "[servers.a]\ncommand = \"x\"\nargs = [\"--key=sk-0123456789abcdef\", \"-v\"]\n\
                env = { A = \"env:REAL_KEY\", B = \"hunter22\", C = \"env:not a name\" }\n\
                [servers.b]\nurl = \"https://u:hunter22@a.example\"\nheaders.X = \"hunter22\"\n\
                [telemetry.headers]\nX = \"hunter22\"\n";
    let errors = Config::parse(text, Path::new("drawgate.toml")).unwrap_err().to_string();
    assert!(!errors.contains("hunter22") && !errors.contains("sk-0"), "{errors}");
    let config = parse(&text.replace("u:hunter22@", "").replace("env:not a name", "plain"));
    let shown = config.redacted().to_string();
    for secret in ["hunter22", "sk-0", "plain"] {
        assert!(!shown.contains(secret), "{shown}");
        assert!(secret == "sk-0" || !format!("{config:?}").contains(secret), "{config:?}");
    }
    assert!(shown.contains("env:REAL_KEY") && shown.contains("****") && shown.contains("-v"));
    assert_eq!(config.servers["b"].connection.headers["X"].expose(), "hunter22");
    assert_eq!(config.servers["a"].connection.env["A"].variable(), Some("REAL_KEY"));
}

/// Whatever the schema lets through must also be readable, or a mistake would be reported without
/// its place.
#[test]
fn schema_and_types_agree_on_every_default() {
    let shown = Config::default().redacted();
    let text = toml::to_string(&shown).unwrap();
    assert_eq!(parse(&text), Config::default());
}
