//! Plugins whose definitions are wrong, in real Node: each is refused when it is loaded, and told why.

use drawgate_agents::plugin::process::{LoadError, ProcessPlugin, ProcessSettings};

use super::{Machine, fixture};

const MANIFEST: &str =
    r#"{"name": "bad", "version": "1.0.0", "main": "main.mjs", "runtime": "node"}"#;
const TOOL: &str =
    "{name: 'a', description: 'does it', schema: {type: 'object'}, handler: async () => ''}";

/// Definitions, and why they are refused.
const ROWS: &[(&str, &str)] = &[
    ("tools: {}", "`tools`: it must be an array, not an object; put the tools in `[` and `]`"),
    ("tools: ['a']", "`tools[0]`: a tool must be an object, not a string"),
    ("tools: [{...TOOL, name: undefined}]", "tool tools[0], `name`: it is missing"),
    ("tools: [{...TOOL, name: ''}]", "tool tools[0], `name`: it is empty"),
    ("tools: [{...TOOL, name: 7}]", "tool tools[0], `name`: it must be a string, not a number"),
    (
        "tools: [{...TOOL, name: 'a b'}]",
        "tool `a b`, `name`: it has characters that are not allowed; use 1 to 64 of `a-z A-Z 0-9 _ -`, and no `-` at the beginning",
    ),
    (
        "tools: [{...TOOL, name: 'x'.repeat(65)}]",
        "tool `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx`, `name`: it is longer than 64 characters; shorten it",
    ),
    ("tools: [TOOL, TOOL]", "tool `a`, `name`: another tool has the same name; rename one"),
    ("tools: [{...TOOL, description: undefined}]", "tool `a`, `description`: it is missing"),
    ("tools: [{...TOOL, description: ' '}]", "tool `a`, `description`: it is empty"),
    (
        "tools: [{...TOOL, description: 'x'.repeat(20000)}]",
        "tool `a`, `description`: it is longer than 16384 bytes; models read it with every request",
    ),
    (
        "tools: [{...TOOL, schema: undefined}]",
        "tool `a`, `schema`: it is missing; write a JSON Schema such as `{\"type\": \"object\", \"properties\": {}}`",
    ),
    (
        "tools: [{...TOOL, schema: []}]",
        "tool `a`, `schema`: it must be an object, not an array; write a JSON Schema such as `{\"type\": \"object\", \"properties\": {}}`",
    ),
    (
        "tools: [{...TOOL, schema: {}}]",
        "tool `a`, `schema`: it must have `type: object`; write a JSON Schema such as `{\"type\": \"object\", \"properties\": {}}`",
    ),
    (
        "tools: [{...TOOL, schema: {type: 'string'}}]",
        "tool `a`, `schema`: it must have `type: object`; write a JSON Schema such as `{\"type\": \"object\", \"properties\": {}}`",
    ),
    (
        "tools: [{...TOOL, handler: undefined}]",
        "tool `a`, `handler`: it is missing; write an async function",
    ),
    (
        "tools: [{...TOOL, handler: 'x'}]",
        "tool `a`, `handler`: it must be a function, not string; write an async function",
    ),
    (
        "tools: Array.from({length: 129}, (_, i) => ({...TOOL, name: 't' + i}))",
        "`tools`: there are 129 tools, and 128 at most; make several plugins of it",
    ),
];

/// What a definition is refused with.
async fn refused(machine: &Machine, definition: &str) -> String {
    let text = format!(
        "const TOOL = {TOOL};
        export const plugin = {{name: 'bad', version: '1.0.0', register: async () => ({{}}), {definition}}};"
    );
    let folder = machine.write("bad", &[("drawgate-plugin.json", MANIFEST), ("main.mjs", &text)]);
    // JavaScript runs on the Node of the distribution, too.
    let settings = ProcessSettings { node: None, ..machine.settings(&folder) };
    match machine.load_with(settings).await {
        Ok(_) => panic!("`{definition}` was loaded"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn bad_tools_are_refused_by_plugin_tool_and_field() {
    let machine = Machine::new();
    for (definition, expected) in ROWS {
        assert_eq!(refused(&machine, definition).await, format!("plugin `bad`: {expected}"));
    }
    let cyclic =
        "tools: [{...TOOL, get schema() { const it = {type: 'object'}; it.it = it; return it; }}]";
    let said = refused(&machine, cyclic).await;
    assert!(said.contains("tool `a`, `schema`: it must be an object, not a string"), "{said}");
    let schema = "{type: 'object', properties: {x: {type: 'strnig'}}}";
    let invalid = refused(&machine, &format!("tools: [{{...TOOL, schema: {schema}}}]")).await;
    let expected = "plugin `bad`: tool `a`, `schema`: not a valid JSON Schema: ";
    assert!(invalid.starts_with(expected), "{invalid}");
}

#[tokio::test]
async fn all_problems_are_named_at_once() {
    let machine = Machine::new();
    let definition = "name: 'other', version: '2.0.0', register: () => ({onMesage() {}, onMessage() {}}), tools: [
        {name: 'a', description: 7, schema: null},
        {name: 'b/c', description: 'd', schema: {type: 'object'}, handler() {}},
    ]";
    let said = refused(&machine, definition).await;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "plugin `bad`: `name`: the plugin says `other`, and its drawgate-plugin.json says `bad`; write the same in both",
            "plugin `bad`: `version`: the plugin says `2.0.0`, and its drawgate-plugin.json says `1.0.0`; write the same in both",
            "plugin `bad`: `hooks`: unknown hook `onMesage`; did you mean `onMessage`?",
            "plugin `bad`: `hooks`: the plugin has the hook `onMessage` without the permission; add it to `permissions.hooks` in its drawgate-plugin.json, or remove the hook",
            "plugin `bad`: tool `a`, `description`: it must be a string, not a number",
            "plugin `bad`: tool `a`, `schema`: it is missing; write a JSON Schema such as `{\"type\": \"object\", \"properties\": {}}`",
            "plugin `bad`: tool `a`, `handler`: it is missing; write an async function",
            "plugin `bad`: tool `b/c`, `name`: it has characters that are not allowed; use 1 to 64 of `a-z A-Z 0-9 _ -`, and no `-` at the beginning",
        ]
    );
}

#[tokio::test]
async fn what_does_not_load_says_why() {
    let machine = Machine::new();
    let rows = [
        (
            "export const x = 1",
            "the module exports no plugin; export it as `plugin`, or as the default export",
        ),
        ("export default {register: 7}", "`register` of the plugin must be a function, not number"),
        (
            "export default {register: () => ({onMessage: 7})}",
            "the hook `onMessage` is not a function",
        ),
        ("\n\nthrow new Error('no luck')", "no luck (main.mjs:3)"),
        ("export default {\n  register() { throw new Error('no luck') }}", "no luck (main.mjs:2)"),
        ("export default {\n  name: {{", "Unexpected token '{' (main.mjs:2)"),
    ];
    for (text, expected) in rows {
        let folder =
            machine.write("bad", &[("drawgate-plugin.json", MANIFEST), ("main.mjs", text)]);
        let error = machine.load(&folder).await.err().unwrap().to_string();
        assert_eq!(error, format!("plugin `bad` did not start: {expected}"));
    }
    let manifest = MANIFEST.replace("main.mjs", "main.js");
    for (name, package) in [("script", "{}"), ("module", r#"{"type":"module"}"#)] {
        let text = "export default {\n  name: {{";
        let files = [
            ("drawgate-plugin.json", manifest.as_str()),
            ("package.json", package),
            ("main.js", text),
        ];
        let error = machine.load(&machine.write(name, &files)).await.err().unwrap().to_string();
        let expected = "plugin `bad` did not start: Unexpected token '{' (main.js:2)";
        assert_eq!(error, expected, "{package}");
    }
    let rows = [
        ("import sys\nif True:\nprint(1)\n", "main.py:3: IndentationError: "),
        ("def work():\n    return nothing\nwork()\n", "main.py:2: NameError: "),
    ];
    let manifest = MANIFEST.replace("main.mjs", "main.py").replace("\"node\"", "\"python\"");
    for (text, expected) in rows {
        let folder =
            machine.write("worse", &[("drawgate-plugin.json", &manifest), ("main.py", text)]);
        let error = machine.load(&folder).await.err().unwrap().to_string();
        let exited = "plugin `bad` did not start: it exited with code 1; its last line of stderr: ";
        assert!(error.starts_with(&format!("{exited}{expected}")), "{error}");
    }
}

#[tokio::test]
async fn a_check_loads_a_plugin_and_gives_it_nothing() {
    let machine = Machine::new();
    let secret = machine.folder.path().join("secret.txt");
    std::fs::write(&secret, "secret").unwrap();
    let text = format!(
        "import {{ existsSync }} from 'node:fs';
        export const plugin = {{
          name: 'bad', version: '1.0.0', tools: [{TOOL}],
          register: async () => {{ if (existsSync('{}')) throw new Error('it sees more'); }},
        }};",
        secret.display()
    );
    let mut manifest: serde_json::Value = serde_json::from_str(MANIFEST).unwrap();
    manifest["permissions"] = serde_json::json!({ "read": [secret] });
    let manifest = manifest.to_string();
    let folder = machine.write("bad", &[("drawgate-plugin.json", &manifest), ("main.mjs", &text)]);
    let host = std::sync::Arc::clone(&machine.host);
    let checked = ProcessPlugin::check(machine.settings(&folder), host).await.unwrap();
    assert_eq!(checked.tools, ["a"]);
}

#[tokio::test]
async fn typescript_needs_a_current_node() {
    let machine = Machine::new();
    let settings = ProcessSettings {
        node: Some("/usr/bin/node".to_owned()),
        ..machine.settings(&fixture("everything"))
    };
    match machine.load_with(settings).await {
        // The distribution's Node is new enough.
        Ok((plugin, _)) => drop(plugin),
        Err(LoadError::Start { reason, .. }) => {
            let expected = "a plugin in TypeScript needs Node 22.18 or later, and this is Node ";
            assert!(reason.starts_with(expected), "{reason}");
            assert!(
                reason.contains("(/usr/bin/node); install a current Node, or set `node`"),
                "{reason}"
            );
        }
        Err(error) => panic!("{error}"),
    }
    let settings = ProcessSettings {
        node: Some("/nowhere/node".to_owned()),
        ..machine.settings(&fixture("everything"))
    };
    let error = machine.load_with(settings).await.err().unwrap().to_string();
    let expected = "plugin `everything` did not start: there is no program `/nowhere/node`; install it, or give its full path";
    assert_eq!(error, expected);
}
