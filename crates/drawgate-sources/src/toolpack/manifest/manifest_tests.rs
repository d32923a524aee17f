use serde_json::json;

use super::*;

const EXAMPLE: &str = include_str!("example.json");

fn example() -> Value {
    strict::parse(EXAMPLE.as_bytes()).unwrap()
}

fn problems(manifest: &Value) -> Vec<Problem> {
    match Manifest::parse(manifest.to_string().as_bytes()) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.problems,
    }
}

/// The example with one member set; with `null`, without it.
fn with(pointer: &str, value: Value) -> Value {
    let mut manifest = example();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match manifest.pointer_mut(parent).unwrap() {
        Value::Object(map) if value.is_null() => drop(map.shift_remove(key)),
        Value::Object(map) => drop(map.insert(key.to_owned(), value)),
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        other => panic!("{other}"),
    }
    manifest
}

/// One problem, at this place, with these words in its message and its hint.
#[track_caller]
fn check(manifest: &Value, path: &str, message: &str, hint: &str) {
    let found = problems(manifest);
    let shown = Problems { problems: found.clone() }.to_string();
    let [problem] = found.as_slice() else { panic!("{path}: not one problem:\n{shown}") };
    assert_eq!(problem.path, path, "{shown}");
    assert!(problem.message.contains(message), "{path}: {shown}");
    let said = problem.hint.as_deref().unwrap_or_default();
    assert!(said.contains(hint), "{path}: {shown}");
    assert!(!hint.is_empty() || problem.hint.is_none(), "{path}: the hint is not checked: {shown}");
}

#[test]
fn the_example_is_read_and_written_the_same() {
    let manifest = Manifest::parse(EXAMPLE.as_bytes()).unwrap();
    assert_eq!(manifest.id, "example-pack");
    assert_eq!(manifest.tools.len(), 3);
    assert!(!manifest.enabled);
    assert_eq!(serde_json::to_value(&manifest).unwrap(), example());
    let again = Manifest::parse(&serde_json::to_vec(&manifest).unwrap()).unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), example());
    assert_eq!(
        manifest.timeouts(),
        BTreeMap::from([("mcp_issue_search".to_owned(), Duration::from_secs(30))])
    );
}

#[test]
fn the_whole_form_is_read_and_written_the_same() {
    let whole = json!({
        "$schema": "toolpack.schema.json",
        "id": "all", "name": "All", "version": "1.2.3-rc.1+b5", "description": "a\nb", "enabled": true,
        "connectors": [
            { "id": "s", "type": "mcp", "description": "d", "mcp": {
                "transport": "stdio", "command": "node", "args": ["x", "env-A"], "env": { "B": "env:B" },
                "working_dir": "server", "timeout_seconds": 1, "retries": 0, "concurrency": 1 } },
            { "id": "o", "type": "openapi", "openapi": {
                "spec_url": "https://a.example/spec", "base_url": "env:BASE", "headers": { "X": "y" },
                "auth": { "k": "env:KEY", "c": { "client_id": "i", "client_secret": "env:S" } },
                "timeout_seconds": 5, "retries": 3, "concurrency": 2 } },
        ],
        "tools": [
            { "type": "openapi", "connector_id": "o", "operations": "*", "include": ["get*"],
              "exclude": ["x"], "prefix": "api_" },
            { "name": "count", "type": "command", "description": "d", "command_template": "wc -l",
              "timeout_seconds": 9, "sandbox": "strict", "annotations": { "readOnlyHint": true } },
        ],
        "permissions": {
            "paths": { "read": ["/srv/data", "notes"], "write": ["~/out"] },
            "hosts": ["api.example.com", "127.0.0.1:8080"], "env": ["TOKEN"],
        },
    });
    assert_eq!(problems(&whole), []);
    let manifest = Manifest::parse(whole.to_string().as_bytes()).unwrap();
    let mut written = serde_json::to_value(&manifest).unwrap();
    // A default that is written out.
    written["connectors"][1]["openapi"]["auth"]["c"]
        .as_object_mut()
        .unwrap()
        .remove("client_authentication");
    assert_eq!(written, {
        let mut sorted = whole.clone();
        // Maps by name are written in order.
        sorted["connectors"][1]["openapi"]["auth"] =
            json!({ "c": { "client_id": "i", "client_secret": "env:S" }, "k": "env:KEY" });
        sorted
    });
}

#[test]
fn what_is_not_json_is_said_at_once() {
    let cases = [
        ("", "not usable JSON"),
        ("{", "not usable JSON"),
        ("[]", "a manifest is an object"),
        (r#"{"id": "a", "id": "b"}"#, "duplicate key `id`"),
        (r#"{"tools": [{"name": "a", "name": "b"}]}"#, "duplicate key `name`"),
        ("{} {}", "not usable JSON"),
        ("{\"id\": NaN}", "not usable JSON"),
    ];
    for (text, expected) in cases {
        let problems = Manifest::parse(text.as_bytes()).unwrap_err().problems;
        assert_eq!(problems.len(), 1, "{text}");
        assert_eq!(problems[0].path, "$");
        assert!(problems[0].message.contains(expected), "{text}: {}", problems[0]);
        assert!(problems[0].hint.is_some());
    }
    let large = format!("{{\"description\": \"{}\"}}", "x".repeat(MAX_BYTES));
    let problems = Manifest::parse(large.as_bytes()).unwrap_err().to_string();
    assert!(problems.contains("larger than 1048576 bytes"), "{problems}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Manifest::parse(deep.as_bytes()).is_err());
}

/// One line for each rule: what breaks it, and what is said about it.
const RULES: &str = include_str!("rules.tsv");

#[test]
fn every_rule() {
    let rules = RULES.lines().filter(|line| !line.starts_with('#'));
    for line in rules {
        let columns: Vec<&str> = line.split('\t').collect();
        let [pointer, value, path, message, hint] = columns[..] else { panic!("{line}") };
        check(&with(pointer, serde_json::from_str(value).unwrap()), path, message, hint);
    }
}

#[test]
fn every_limit() {
    let template = format!("gh {{{{limit}}}} {}", "x".repeat(9000));
    let cases = [
        ("/description", "x".repeat(5000), "longer than 4096", "shorten"),
        ("/connectors/0/description", "x".repeat(5000), "longer than 4096", "shorten"),
        ("/tools/0/description", "x".repeat(5000), "longer than 4096", "shorten"),
        ("/tools/2/command_template", template, "longer than 8192", "script"),
    ];
    for (pointer, text, message, hint) in cases {
        let path = pointer.replace("/0", "[0]").replace("/2", "[2]").replace('/', ".");
        check(&with(pointer, text.into()), &format!("${path}"), message, hint);
    }
    let tools: Vec<Value> = (0..1001)
        .map(|index| json!({ "name": format!("t{index}"), "type": "command", "command_template": "ls" }))
        .collect();
    check(&with("/tools", tools.into()), "$.tools", "1001 tools are too many", "at most 1000");
}

#[test]
fn connectors_have_ids_of_their_own() {
    let mut manifest = with("/connectors/0/id", "Main".into());
    manifest["tools"][0]["connector_id"] = "Main".into();
    check(&manifest, "$.connectors[0].id", "`Main` is not an id", "use 1 to 64");
    let twice = with(
        "/connectors/-",
        json!({ "id": "mcp_main", "type": "mcp", "mcp": { "command": "x" } }),
    );
    check(&twice, "$.connectors[2].id", "the id `mcp_main` is used twice", "$.connectors[0].id");
    let many: Vec<Value> = (0..65)
        .map(|index| json!({ "id": format!("c{index}"), "type": "mcp", "mcp": { "command": "x" } }))
        .collect();
    let mut manifest = with("/tools", json!([example()["tools"][2]]));
    manifest["connectors"] = json!(many);
    check(&manifest, "$.connectors", "65 connectors are too many", "at most 64");
}

#[test]
fn what_is_declared_may_be_inside() {
    for (url, host) in [
        ("http://127.0.0.1:3000/mcp", "127.0.0.1:3000"),
        ("http://localhost:8080", "localhost:*"),
        ("http://10.1.2.3", "10.0.0.0/8"),
    ] {
        let mut manifest = with("/connectors/0/mcp/url", url.into());
        manifest["permissions"] = json!({ "hosts": [host] });
        assert_eq!(problems(&manifest), [], "{url}");
    }
    // A name is meant at public addresses only.
    let mut manifest = with("/connectors/0/mcp/url", "http://10.1.2.3".into());
    manifest["permissions"] = json!({ "hosts": ["*"] });
    assert_eq!(problems(&manifest).len(), 1);
}

#[test]
fn programs_of_the_system_of_the_pack_and_of_declared_folders_may_run() {
    let server = |command: &str| with("/connectors/0/mcp", json!({ "command": command }));
    for command in ["node", "/usr/local/bin/x", "/bin/x", "./x", "bin/x"] {
        assert_eq!(problems(&server(command)), [], "{command}");
    }
    for (read, fits) in [
        ("/opt/tools", true),
        ("/opt/tools/bin/x", true),
        ("/opt/tool", false),
        ("opt/tools", false),
    ] {
        let mut manifest = server("/opt/tools/bin/x");
        manifest["tools"][2]["command_template"] = "sh /opt/tools/run.sh {{limit}}".into();
        manifest["permissions"] = json!({ "paths": { "read": [read] } });
        let expected = match (fits, read) {
            (true, "/opt/tools") => 0,
            (true, _) => 1,
            (false, _) => 2,
        };
        assert_eq!(problems(&manifest).len(), expected, "{read}");
    }
    // What the pack may write is no place for programs.
    let mut manifest = server("/opt/tools/bin/x");
    manifest["permissions"] = json!({ "paths": { "write": ["/opt/tools"] } });
    assert_eq!(problems(&manifest).len(), 1);
}

#[test]
fn tools_have_names_of_their_own() {
    let twice = with("/tools/1/name", "mcp_issue_search".into());
    check(&twice, "$.tools[1].name", "is used twice, first at $.tools[0].name", "choose another");
    for twin in ["mcp_1ssue_search", "mcp_lssue_search"] {
        let alike = with("/tools/1/name", twin.into());
        let message = format!("`{twin}` looks like `mcp_issue_search` at $.tools[0].name");
        check(&alike, "$.tools[1].name", &message, "choose another");
    }
    let builtin = with("/tools/0/name", "vfs_l1st".into());
    check(&builtin, "$.tools[0].name", "looks like `vfs_list`, a built-in tool", "choose another");
}

#[test]
fn references_stand_in_no_command_line() {
    let server = |command: &str, arg: &str| {
        let env = json!({ "KEY": "env:KEY" });
        with("/connectors/0/mcp", json!({ "command": command, "args": [arg], "env": env }))
    };
    assert_eq!(problems(&server("node", "x")), []);
    let (message, advice) = ("can't stand in a command line", "write it in `env`");
    check(&server("node", "env:KEY"), "$.connectors[0].mcp.args[0]", message, advice);
    check(&server("node", "--key=env:KEY"), "$.connectors[0].mcp.args[0]", message, advice);
    check(&server("env:SERVER", "x"), "$.connectors[0].mcp.command", message, advice);
}

#[test]
fn every_built_in_name_is_taken() {
    for tool in crate::builtin::specs::tools() {
        let manifest = with("/tools/0/name", tool.name.as_str().into());
        check(&manifest, "$.tools[0].name", "is the name of a built-in tool", "choose another");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let manifest = json!({
        "id": "Bad Id", "version": 1, "tool": [],
        "connectors": [
            { "id": "a", "type": "mcp", "mcp": { "transport": "stdio" } },
            { "id": "a", "type": "openapi", "openapi": {} },
            { "id": "b", "type": "grpc" },
        ],
        "tools": [
            { "name": "One", "type": "command" },
            { "name": "two_tools", "type": "mcp" },
            { "name": "two_tools", "type": "openapi", "connector_id": "c" },
            7,
        ],
        "permissions": { "hosts": ["http://x"] },
    });
    let paths: Vec<String> = problems(&manifest).into_iter().map(|problem| problem.path).collect();
    let expected = [
        "$.name",
        "$.version",
        "$.tool",
        "$.connectors[2].type",
        "$.tools[3]",
        "$.id",
        "$.connectors[0].mcp.command",
        "$.connectors[1].id",
        "$.connectors[1].openapi",
        "$.permissions.hosts[0]",
        "$.tools[0].name",
        "$.tools[0].command_template",
        "$.tools[1].connector_id",
        "$.tools[2].name",
        "$.tools[2].connector_id",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn hostile_text_is_not_repeated_raw() {
    let manifest = with("/id", "\u{1b}[31m\u{202e}evil".into());
    let shown = Problems { problems: problems(&manifest) }.to_string();
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown}");
    let manifest = with("/tools/0/\u{1b}[2J", json!(1));
    assert!(!Problems { problems: problems(&manifest) }.to_string().contains('\u{1b}'));
    let manifest = with("/connectors/0/mcp/url", "https://user:hunter2@mcp.example.com/".into());
    assert!(!Problems { problems: problems(&manifest) }.to_string().contains("hunter2"));
}

mod files {
    use std::fs;

    use super::*;

    const SPEC: &str = r#"{ "openapi": "3.0.3", "info": { "title": "Pets", "version": "1" },
        "servers": [{ "url": "https://pets.example.com" }],
        "paths": {
            "/pets": { "get": { "operationId": "listPets", "responses": {} } },
            "/pets/{id}": { "get": { "operationId": "getPetById", "responses": {},
                "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }] } }
        } }"#;

    fn folder(manifest: &Value) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("spec")).unwrap();
        fs::write(folder.path().join("spec/petstore.json"), SPEC).unwrap();
        fs::write(folder.path().join(FILE), manifest.to_string()).unwrap();
        folder
    }

    #[track_caller]
    fn check_in(folder: &Path, path: &str, message: &str, hint: &str) {
        let found = Manifest::read(folder).map(|_| ()).unwrap_err();
        let [problem] = found.problems.as_slice() else { panic!("{found}") };
        assert_eq!(problem.path, path, "{found}");
        assert!(problem.message.contains(message), "{found}");
        assert!(problem.hint.as_deref().unwrap_or_default().contains(hint), "{found}");
    }

    #[test]
    fn the_example_with_its_files_is_good() {
        let folder = folder(&example());
        let manifest = Manifest::read(folder.path()).unwrap();
        let definitions = manifest.definitions(folder.path());
        assert_eq!(
            definitions.keys().collect::<Vec<_>>(),
            ["api_get_pet", "gh_issue_list", "mcp_issue_search"]
        );
        assert!(definitions.values().all(|hash| hash.len() == 64));
    }

    #[test]
    fn definitions_change_with_what_a_tool_is() {
        let before = folder(&example());
        let before = Manifest::read(before.path()).unwrap().definitions(before.path());
        let changed = |manifest: &Value, spec: &str| {
            let folder = folder(manifest);
            fs::write(folder.path().join("spec/petstore.json"), spec).unwrap();
            let after = Manifest::read(folder.path()).unwrap().definitions(folder.path());
            after
                .into_iter()
                .filter(|(name, hash)| before.get(name) != Some(hash))
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
        };
        assert_eq!(changed(&example(), SPEC), Vec::<String>::new());
        assert_eq!(changed(&with("/enabled", true.into()), SPEC), Vec::<String>::new());
        let template = with("/tools/2/command_template", "gh pr list --limit {{limit}}".into());
        assert_eq!(changed(&template, SPEC), ["gh_issue_list"]);
        assert_eq!(
            changed(&with("/tools/0/remote_tool", "other".into()), SPEC),
            ["mcp_issue_search"]
        );
        let spec = SPEC.replace("\"type\": \"string\"", "\"type\": \"integer\"");
        assert_eq!(changed(&example(), &spec), ["api_get_pet"]);
    }

    #[test]
    fn a_whole_api_is_written_out() {
        let mut manifest = example();
        manifest["tools"] = json!([{ "type": "openapi", "connector_id": "petstore_api", "operations": "*", "prefix": "pets_" }]);
        let folder = folder(&manifest);
        let manifest = Manifest::read(folder.path()).unwrap();
        let definitions = manifest.definitions(folder.path());
        assert_eq!(
            definitions.keys().collect::<Vec<_>>(),
            ["pets_get_pet_by_id", "pets_list_pets"]
        );
    }

    #[test]
    fn files_must_be_there_and_fit() {
        let check = |manifest: Value, path, message, hint| {
            let folder = folder(&manifest);
            check_in(folder.path(), path, message, hint);
        };
        let spec = "$.connectors[1].openapi.spec_path";
        check(
            with("/connectors/1/openapi/spec_path", "spec/none.json".into()),
            spec,
            "no file `spec/none.json`",
            "OpenAPI 3",
        );
        check(
            with("/connectors/1/openapi/spec_path", "spec".into()),
            spec,
            "no file `spec`",
            "OpenAPI 3",
        );
        check(
            with("/connectors/1/openapi/spec_path", FILE.into()),
            spec,
            "not an OpenAPI document",
            "OpenAPI 3",
        );
        check(
            with("/tools/1/operation_id", "getPetByID".into()),
            "$.tools[1].operation_id",
            "unknown operation `getPetByID`",
            "did you mean `getPetById`?",
        );
        check(
            with("/tools/1/operation_id", Value::Null),
            "$.tools[1].name",
            "unknown operation `api_get_pet`",
            "name an operation",
        );
        check(
            with("/connectors/0/mcp", json!({ "command": "x", "working_dir": "server" })),
            "$.connectors[0].mcp.working_dir",
            "no folder `server`",
            "add it",
        );
    }

    #[test]
    fn whole_apis_must_give_names_that_are_free() {
        let check = |manifest: &Value, message, hint| {
            let folder = folder(manifest);
            check_in(folder.path(), "$.tools[1].operations", message, hint);
        };
        let whole = |extra: Value| {
            let mut tool =
                json!({ "type": "openapi", "connector_id": "petstore_api", "operations": "*" });
            tool.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            with("/tools/1", tool)
        };
        check(&whole(json!({ "exclude": ["*"] })), "no operation is left", "include");
        check(
            &whole(json!({ "include": ["listPet"] })),
            "no operation matches `listPet`",
            "include",
        );
        let mut clash = whole(json!({}));
        clash["tools"][0]["name"] = "list_pets".into();
        check(&clash, "`list_pets` is used twice", "prefix");
    }

    #[test]
    fn credentials_are_for_schemes_that_can_be_sent() {
        let key = |name: &str| json!({ "type": "apiKey", "in": "header", "name": name });
        let bearer = json!({ "type": "http", "scheme": "bearer" });
        for (scheme, auth, message) in [
            (key("X-Key"), "key", None),
            (key("Transfer-Encoding"), "key", Some("the header `transfer-encoding`, which only")),
            (key("Host"), "key", Some("the header `host`, which only the gateway sets")),
            (json!({ "type": "mutualTLS" }), "key", Some("client certificates")),
            (bearer, "kye", Some("did you mean `key`?")),
        ] {
            let mut spec: Value = serde_json::from_str(SPEC).unwrap();
            spec["components"]["securitySchemes"] = json!({ "key": scheme });
            let folder = folder(&with("/connectors/1/openapi/auth", json!({ auth: "env:KEY" })));
            fs::write(folder.path().join("spec/petstore.json"), spec.to_string()).unwrap();
            match message {
                None => assert!(Manifest::read(folder.path()).is_ok()),
                Some(message) => {
                    let place = format!("$.connectors[1].openapi.auth.{auth}");
                    check_in(folder.path(), &place, message, "");
                }
            }
        }
    }

    #[test]
    fn an_api_must_have_an_address_that_may_be_reached() {
        let manifest = with("/connectors/1/openapi/base_url", Value::Null);
        let folder = folder(&manifest);
        assert!(Manifest::read(folder.path()).is_ok());
        let write =
            |spec: String| fs::write(folder.path().join("spec/petstore.json"), spec).unwrap();
        let place = "$.connectors[1].openapi.base_url";
        write(SPEC.replace("https://pets.example.com", "/v1"));
        check_in(folder.path(), place, "is not absolute", "");
        write(SPEC.replace("https://pets.example.com", "http://127.0.0.1:9000"));
        check_in(folder.path(), place, "`127.0.0.1:9000` is on this machine", "permissions");
    }

    #[test]
    fn an_address_is_no_template() {
        for url in ["https://{region}.example.com", "https://a.example/{region}/v1"] {
            let folder = folder(&with("/connectors/1/openapi/base_url", url.into()));
            let place = "$.connectors[1].openapi.base_url";
            check_in(folder.path(), place, "`{region}` is not filled in", "env:NAME");
        }
    }

    #[test]
    fn links_lead_nowhere() {
        let folder = folder(&with("/connectors/1/openapi/spec_path", "spec/link.json".into()));
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("spec.json"), SPEC).unwrap();
        std::os::unix::fs::symlink(
            outside.path().join("spec.json"),
            folder.path().join("spec/link.json"),
        )
        .unwrap();
        check_in(
            folder.path(),
            "$.connectors[1].openapi.spec_path",
            "leads out of the pack",
            "OpenAPI 3",
        );
    }

    #[test]
    fn a_folder_without_a_manifest_says_so() {
        let folder = tempfile::tempdir().unwrap();
        check_in(
            folder.path(),
            "$",
            "toolpack.json` can't be read",
            "a folder that holds a `toolpack.json`",
        );
    }
}

#[test]
fn the_schema_accepts_what_the_reader_accepts() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["required"], json!(["id", "name", "version", "tools"]));
    let described = |pointer: &str| {
        let properties = schema.pointer(pointer).unwrap().as_object().unwrap();
        for (name, property) in properties {
            assert!(property.get("description").is_some(), "{pointer}/{name} has no description");
        }
        properties.len()
    };
    assert_eq!(described("/properties"), 9);
    assert_eq!(described("/$defs/Connector/properties"), 5);
    assert_eq!(described("/$defs/McpConnector/properties"), 10);
    assert_eq!(described("/$defs/OpenapiConnector/properties"), 8);
    assert_eq!(described("/$defs/Tool/properties"), 15);
    let compiled = drawgate_core::registry::CompiledSchema::for_object(&schema).unwrap();
    let accepts = |manifest: &Value| compiled.check(manifest).is_ok();
    assert!(accepts(&example()));
    for (pointer, value) in [
        ("/id", Value::Null),
        ("/id", "Bad Id".into()),
        ("/extra", true.into()),
        ("/tools/0/name", "getPet".into()),
        ("/tools/0/connector_id", Value::Null),
        ("/tools/2/command_template", Value::Null),
        ("/tools/2/sandbox", "none".into()),
        ("/connectors/0/type", "grpc".into()),
        ("/connectors/0/mcp", Value::Null),
        ("/connectors/1/openapi/spec_path", Value::Null),
        ("/connectors/0/mcp/retries", 11.into()),
    ] {
        let bad = with(pointer, value);
        assert!(!accepts(&bad), "{pointer}");
        assert_ne!(problems(&bad), [], "{pointer}");
    }
}

#[test]
fn the_projects_examples_are_good() {
    let compiled = drawgate_core::registry::CompiledSchema::for_object(&schema()).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/toolpacks");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let pack = entry.path();
        let Ok(bytes) = std::fs::read(pack.join(FILE)) else { continue };
        let manifest = Manifest::read(&pack);
        let manifest = manifest.unwrap_or_else(|error| panic!("{}: {error}", pack.display()));
        assert_eq!(manifest.id, entry.file_name().to_str().unwrap());
        let value = strict::parse(&bytes).unwrap();
        assert!(compiled.check(&value).is_ok(), "{}", pack.display());
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
}
