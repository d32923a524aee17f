use serde_json::json;

use super::*;

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "reads".to_owned(),
        input_schema_json: r#"{"type":"object"}"#.to_owned(),
        ..ToolDefinition::default()
    }
}

fn read(pack: PackManifest) -> ReadManifest {
    let terms = PackTerms {
        base: SourceTerms::default(),
        may_offer: &|name| !name.starts_with("admin_"),
        capabilities: &[Capability::new("packs").unwrap()],
        max_calls: 16,
    };
    read_manifest(&SourceId::new("files").unwrap(), pack, terms)
}

fn one(tool: ToolDefinition) -> ReadManifest {
    read(PackManifest { tools: vec![tool], ..PackManifest::default() })
}

#[test]
fn a_whole_manifest() {
    let pack = PackManifest {
        pack_id: "files".to_owned(),
        version: "1.2.0\n".to_owned(),
        tools: vec![
            ToolDefinition {
                required_capabilities: vec!["fs.read".to_owned(), "fs".to_owned()],
                timeout_seconds: 90,
                output_schema_json: r#"{"type":"object","properties":{}}"#.to_owned(),
                title: "Read".to_owned(),
                annotations_json:
                    r#"{"readOnlyHint":true,"requiresConfirmation":true,"requiredScopes":["more"]}"#
                        .to_owned(),
                ..tool("read_file")
            },
            ToolDefinition { description: " ".to_owned(), ..tool("list") },
        ],
        features: vec![1, 2, 99],
        max_concurrent_calls: 4,
    };
    let ReadManifest { manifest, terms, features, faults } = read(pack);
    assert_eq!(faults, []);
    assert_eq!((manifest.name.as_str(), manifest.version.as_str()), ("files", "1.2.0"));
    assert_eq!(features, Features { cancel: true, heartbeat: true, shutdown: false });
    assert_eq!(terms.concurrency, 4);
    assert_eq!(terms.naming, Naming::Flat);
    assert_eq!(terms.capabilities, [Capability::new("packs").unwrap()]);
    assert_eq!(terms.tools["read_file"].timeout, Some(Duration::from_secs(90)));
    assert_eq!(terms.tools["list"].timeout, None);
    let spec = serde_json::to_value(&manifest.tools[0]).unwrap();
    assert_eq!(spec["title"], "Read");
    assert_eq!(spec["outputSchema"]["type"], "object");
    assert_eq!(spec["annotations"]["requiredScopes"], json!(["fs.read", "fs", "more"]));
    assert_eq!(spec["annotations"]["requiresConfirmation"], true);
    assert_eq!(spec["annotations"]["readOnlyHint"], true);
    assert_eq!(manifest.tools[1].description, "Tool `list` of pack `files`.");
    assert_eq!(manifest.tools[1].annotations, None);
}

#[test]
fn calls_at_once_are_bounded() {
    for (asked, granted) in [(0, 16), (1, 1), (16, 16), (u32::MAX, 16)] {
        let pack = PackManifest { max_concurrent_calls: asked, ..PackManifest::default() };
        assert_eq!(read(pack).terms.concurrency, granted, "{asked}");
    }
}

#[test]
fn every_fault_is_named() {
    let with = |change: fn(&mut ToolDefinition)| {
        let mut tool = tool("read");
        change(&mut tool);
        tool
    };
    let rows = [
        (with(|tool| tool.name = "admin_reset".to_owned()), "its key may not offer this name"),
        (with(|tool| tool.timeout_seconds = -1), "`timeout_seconds` is -1"),
        (with(|tool| tool.timeout_seconds = 86_401), "`timeout_seconds` is 86401"),
        (with(|tool| tool.input_schema_json.clear()), "`input_schema_json` is missing"),
        (with(|tool| tool.input_schema_json = "{".to_owned()), "`input_schema_json` is not JSON"),
        (
            with(|tool| tool.input_schema_json = r#"{"type":"object","type":"x"}"#.to_owned()),
            "duplicate key `type`",
        ),
        (with(|tool| tool.output_schema_json = "x".to_owned()), "`output_schema_json` is not JSON"),
        (with(|tool| tool.annotations_json = "[]".to_owned()), "`annotations_json`"),
        (
            with(|tool| tool.annotations_json = r#"{"requiresConfirmation":"yes"}"#.to_owned()),
            "`annotations_json`",
        ),
        (
            with(|tool| tool.required_capabilities = vec!["a b".to_owned()]),
            "`required_capabilities`",
        ),
    ];
    for (tool, reason) in &rows {
        let faults = one(tool.clone()).faults;
        assert_eq!(faults.len(), 1, "{tool:?}: {faults:?}");
        assert!(faults[0].reason.contains(reason), "{reason}: {faults:?}");
    }
    let all = PackManifest {
        tools: rows.iter().map(|(tool, _)| tool.clone()).collect(),
        ..PackManifest::default()
    };
    assert_eq!(read(all).faults.len(), rows.len(), "all at once");
    let several = one(ToolDefinition {
        timeout_seconds: -5,
        input_schema_json: "no".to_owned(),
        required_capabilities: vec![String::new(), "b c".to_owned()],
        ..tool("read")
    });
    assert_eq!(several.faults.len(), 4, "of one tool too");
    let many = vec![tool("x"); MAX_TOOLS + 1];
    let too_many = read(PackManifest { tools: many, ..PackManifest::default() });
    assert_eq!((too_many.faults.len(), too_many.manifest.tools.len()), (1, MAX_TOOLS));
}
