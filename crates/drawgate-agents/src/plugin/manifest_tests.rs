use super::*;

const GOOD: &str = r#"{
    "$schema": "plugin.schema.json", "name": "notes", "version": "1.0.0", "main": "src/main.ts", "runtime": "node",
    "permissions": {
        "read": ["/usr/share/dict"], "write": ["~/notes"], "hosts": ["api.example.com"],
        "invoke": true, "rewrite": true, "hooks": ["onMessage", "rewriteCall"]
    }
}"#;

/// The problems of a manifest in which some members are different.
fn problems(changes: &[(&str, Value)]) -> Vec<String> {
    let mut value: Value = serde_json::from_str(GOOD).unwrap();
    for (pointer, change) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match change {
            Value::Null => parent.shift_remove(key),
            change => parent.insert(key.to_owned(), change.clone()),
        };
    }
    match PluginManifest::parse(value.to_string().as_bytes()) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.to_string().lines().map(str::to_owned).collect(),
    }
}

#[test]
fn a_good_manifest_is_read_and_written() {
    let manifest = PluginManifest::parse(GOOD.as_bytes()).unwrap();
    assert_eq!(manifest.runtime, Runtime::Node);
    assert_eq!(
        manifest.permissions.lines(),
        [
            "reads /usr/share/dict",
            "reads and writes ~/notes",
            "reaches api.example.com",
            "has models work and delegates tasks",
            "changes arguments and results of calls",
            "has the hook onMessage",
            "has the hook rewriteCall",
        ]
    );
    let written = serde_json::to_value(&manifest).unwrap();
    assert_eq!(written, serde_json::from_str::<Value>(GOOD).unwrap());
    assert_eq!(manifest.id().unwrap().as_str(), "notes");
}

/// A member, what it is changed to (`null` removes it), and the problem.
const FIELDS: &[(&str, &str, &str)] = &[
    (
        "/name",
        r#""no spaces""#,
        "plugin `no spaces`: `name`: `no spaces` is not a valid source id; use 1 to 64 of `a-z A-Z 0-9 _ -`",
    ),
    (
        "/name",
        "null",
        "plugin `drawgate-plugin.json`: `name`: `name` is missing; add it: The plugin's name, which its tools begin with: 1 to 64 of `a-z A-Z 0-9 _ -`",
    ),
    (
        "/version",
        r#""""#,
        "plugin `notes`: `version`: it must be 1 to 64 visible ASCII characters; write one such as `1.0.0`",
    ),
    ("/version", "1", "plugin `notes`: `version`: `version` must be a string, not a number"),
    (
        "/main",
        r#""../other/main.ts""#,
        "plugin `notes`: `main`: it must be a path inside the plugin's folder; such as `main.ts`",
    ),
    (
        "/main",
        r#""/etc/passwd""#,
        "plugin `notes`: `main`: it must be a path inside the plugin's folder; such as `main.ts`",
    ),
    (
        "/main",
        r#""main.rb""#,
        "plugin `notes`: `main`: a file of this runtime ends with `.ts`, `.mts`, `.cts`, `.js`, `.mjs` or `.cjs`; name another file, or change `runtime`",
    ),
    (
        "/runtime",
        r#""nodejs""#,
        "plugin `notes`: `runtime`: unknown runtime `nodejs`; did you mean `node`?",
    ),
    (
        "/runtime",
        r#""deno""#,
        "plugin `notes`: `runtime`: unknown runtime `deno`; use `node`, `python` or `exec`",
    ),
    (
        "/permissions",
        "[]",
        "plugin `notes`: `permissions`: `permissions` must be an object, not an array",
    ),
    (
        "/permissions/invoke",
        r#""true""#,
        "plugin `notes`: `permissions.invoke`: `invoke` must be true or false, not a string; write true without quotes",
    ),
    (
        "/permissions/read",
        r#""/tmp""#,
        "plugin `notes`: `permissions.read`: `read` must be an array, not a string; put it in `[` and `]`",
    ),
    (
        "/permissions/read",
        r#"["notes"]"#,
        "plugin `notes`: `permissions.read[0]`: `notes` is not a path of this machine; write an absolute path, or one that begins with `~/`",
    ),
    (
        "/permissions/write",
        r#"["/a/../b"]"#,
        "plugin `notes`: `permissions.write[0]`: `/a/../b` is not a path of this machine; write an absolute path, or one that begins with `~/`",
    ),
    (
        "/permissions/rewrite",
        "false",
        "plugin `notes`: `permissions.rewrite`: the hook `rewriteCall` changes arguments; set it to true, or remove the hook",
    ),
    (
        "/permissions/hooks",
        r#"["onMesage"]"#,
        "plugin `notes`: `permissions.hooks[0]`: unknown hooks[0] `onMesage`; did you mean `onMessage`?",
    ),
    (
        "/permission",
        "{}",
        "plugin `notes`: `permission`: unknown field `permission`; did you mean `permissions`?",
    ),
];

#[test]
fn each_problem_names_its_field() {
    for (pointer, change, expected) in FIELDS {
        let change = serde_json::from_str(change).unwrap();
        assert_eq!(problems(&[(pointer, change)]), [*expected]);
    }
    let [host] = &problems(&[("/permissions/hosts", json!(["http://x y"]))])[..] else { panic!() };
    assert!(host.starts_with("plugin `notes`: `permissions.hosts[0]`: "), "{host}");
}

#[test]
fn all_problems_are_named_at_once() {
    let found = problems(&[
        ("/name", json!("a b")),
        ("/main", json!("")),
        ("/colour", json!("red")),
        ("/permissions/read", json!(["x"])),
        ("/permissions/rewrite", Value::Null),
    ]);
    let fields: Vec<&str> = found.iter().map(|line| line.split('`').nth(3).unwrap()).collect();
    assert_eq!(fields, ["colour", "name", "main", "permissions.read[0]", "permissions.rewrite"]);
}

#[test]
fn what_is_not_a_manifest_says_so() {
    let rows = [
        ("", "not usable JSON: "),
        ("[]", "it must be an object"),
        (r#"{"name": "a", "name": "b"}"#, "not usable JSON: duplicate key `name`"),
    ];
    for (text, expected) in rows {
        let error = PluginManifest::parse(text.as_bytes()).unwrap_err().to_string();
        let expected = format!("plugin `drawgate-plugin.json`: `drawgate-plugin.json`: {expected}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn the_main_file_must_be_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let missing = PluginManifest::read(folder.path()).unwrap_err().to_string();
    assert!(missing.contains("it can't be read: No such file"), "{missing}");
    std::fs::write(folder.path().join(FILE), GOOD).unwrap();
    let error = PluginManifest::read(folder.path()).unwrap_err().to_string();
    assert_eq!(
        error,
        "plugin `notes`: `main`: there is no file `src/main.ts` in the folder; add it, or name another"
    );
    std::fs::create_dir(folder.path().join("src")).unwrap();
    let main = folder.path().join("src/main.ts");
    std::os::unix::fs::symlink("/etc/passwd", &main).unwrap();
    let error = PluginManifest::read(folder.path()).unwrap_err().to_string();
    assert_eq!(
        error,
        "plugin `notes`: `main`: it leads out of the plugin's folder; put the file into the folder"
    );
    std::fs::remove_file(&main).unwrap();
    std::fs::write(&main, "").unwrap();
    assert!(PluginManifest::read(folder.path()).is_ok());
    std::fs::write(folder.path().join(FILE), GOOD.replace("\"node\"", "\"exec\"")).unwrap();
    let error = PluginManifest::read(folder.path()).unwrap_err().to_string();
    assert_eq!(
        error,
        "plugin `notes`: `main`: it is not executable; run `chmod +x src/main.ts` in the folder"
    );
}

#[test]
fn the_published_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plugin.schema.json");
    let current = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(published == current, "docs/plugin.schema.json must be:\n{current}");
}
