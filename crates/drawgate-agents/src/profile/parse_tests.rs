use std::path::Path;

use drawgate_core::canonical::sha256_hex;
use serde_json::{Map, json};

use super::{MAX_FILE, parse};
use crate::profile::{Budget, Invoker, Parsed, Problem, Profile};

fn file(front: &str) -> String {
    format!("---\n{front}\n---\nDo it.\n")
}

#[track_caller]
fn profile(front: &str) -> Profile {
    let parsed = parse("agent.md", &file(&format!("description: d\n{front}"))).unwrap();
    assert_eq!(parsed.warnings, [], "{front}");
    parsed.profile
}

fn problems(front: &str) -> Vec<Problem> {
    parse("agent.md", &file(front)).unwrap_err()
}

fn lines(all: &[Problem]) -> String {
    all.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn warns(front: &str, expected: &[&str]) -> Profile {
    let front = format!("description: d\n{front}");
    let Parsed { profile, warnings } = parse("agent.md", &file(&front)).unwrap();
    assert_eq!(lines(&warnings), expected.join("\n"), "{front}");
    profile
}

/// All fields of a profile, and a custom tool with all of its own.
const FULL: &str = r#"name: research-agent
description: Finds and condenses sources
model: anthropic/claude-sonnet-4-6
tools:
  - web_search
  - time__*
  - name: summarize
    description: Summarize a document into key points
    model: gemini/gemini-2.0-flash-lite
    parameters:
      text: {type: string, description: The text}
      points: {type: integer, minimum: 1, default: 5}
      tone: {type: string, enum: [dry, warm], required: false}
    result_schema: {type: object, properties: {bullets: {type: array, items: {type: string}}}}
    prompt: "Return JSON {bullets:[...]}. {{points}} points, {{tone}}:\n\n{{text}}\n"
    public: true
invoker: api
ceiling: [network.request, file.read]
budget: {tokens: 200000, cost_usd: 1.0, seconds: 600, tool_calls: 100, runs: 20}
max_turns: 30
temperature: 0.2
public: true"#;

#[test]
fn programs_can_do_the_work() {
    for invoker in Invoker::ALL {
        let text = file(&format!("invoker: {}", invoker.as_str()));
        assert_eq!(parse("a.md", &text).unwrap().profile.invoker, invoker);
    }
    assert_eq!(parse("a.md", &file("")).unwrap().profile.invoker, Invoker::Api);
}

#[test]
fn every_field_is_read() {
    let text = file(FULL);
    let Parsed { profile, warnings } = parse("other.md", &text).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(profile.name, "research-agent");
    assert_eq!(profile.description, "Finds and condenses sources");
    assert_eq!(profile.model.as_deref(), Some("anthropic/claude-sonnet-4-6"));
    assert_eq!(profile.instructions, "Do it.");
    assert_eq!(profile.tools.allowed.unwrap(), ["web_search", "time__*"]);
    assert_eq!(profile.tools.denied, [""; 0]);
    let ceiling: Vec<String> = profile.ceiling.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(ceiling, ["network.request", "file.read"]);
    let budget = Budget {
        tokens: Some(200_000),
        cost_usd: Some(1.0),
        seconds: Some(600),
        tool_calls: Some(100),
        runs: Some(20),
    };
    assert_eq!(profile.budget, budget);
    assert_eq!(profile.max_turns, Some(30));
    assert_eq!(profile.temperature, Some(0.2));
    assert!(profile.public);
    assert_eq!(profile.hash, sha256_hex(text.as_bytes()));
}

#[test]
fn a_custom_tool_has_a_closed_schema_of_its_parameters() {
    let profile = parse("a.md", &file(FULL)).unwrap().profile;
    let [tool] = profile.custom.as_slice() else { panic!("{:?}", profile.custom) };
    assert_eq!(tool.name, "summarize");
    assert_eq!(tool.description, "Summarize a document into key points");
    assert_eq!(tool.model.as_deref(), Some("gemini/gemini-2.0-flash-lite"));
    let expected = json!({
        "type": "object",
        "properties": {
            "text": { "type": "string", "description": "The text" },
            "points": { "type": "integer", "minimum": 1, "default": 5 },
            "tone": { "type": "string", "enum": ["dry", "warm"] },
        },
        "required": ["text"],
        "additionalProperties": false,
    });
    assert_eq!(tool.parameters, expected);
    assert_eq!(tool.result_schema.as_ref().unwrap()["properties"]["bullets"]["type"], "array");
    assert!(tool.public);
    let arguments = Map::from_iter([("text".to_owned(), json!("Long."))]);
    let prompt = tool.prompt_for(&arguments);
    assert_eq!(prompt, "Return JSON {bullets:[...]}. 5 points, {{tone}}:\n\nLong.\n");
}

#[test]
fn an_object_parameter_names_its_own_required_members() {
    let profile = profile(
        "tools:\n- name: t\n  description: d\n  prompt: '{{o}}'\n  parameters:\n    o: {type: object, \
         properties: {a: {type: string}}, required: [a]}",
    );
    let parameters = &profile.custom[0].parameters;
    assert_eq!(parameters["required"], json!(["o"]));
    assert_eq!(parameters["properties"]["o"]["required"], json!(["a"]));
}

#[test]
fn what_is_not_said_has_no_limit() {
    let profile = profile("");
    assert_eq!(profile.name, "agent");
    assert_eq!(profile.model, None);
    assert_eq!(profile.tools.allowed, None);
    assert_eq!(profile.ceiling, None);
    assert_eq!(profile.budget, Budget::default());
    assert!(!profile.public);
}

#[test]
fn lists_may_be_texts_with_commas() {
    let profile = profile("tools: a, b__* ,\nceiling: file.read, file.write\nmodel: inherit");
    assert_eq!(profile.tools.allowed.unwrap(), ["a", "b__*"]);
    assert_eq!(profile.ceiling.unwrap().len(), 2);
    assert_eq!(profile.model, None);
}

#[test]
fn a_list_of_custom_tools_alone_limits_nothing_and_an_empty_one_allows_nothing() {
    let own = "tools:\n- {name: t, description: d, prompt: p}";
    assert_eq!(profile(own).tools.allowed, None);
    assert_eq!(profile("tools: []").tools.allowed, Some(Vec::new()));
    assert_eq!(profile("ceiling: []").ceiling, Some(Vec::new()));
}

#[test]
fn agents_that_are_named_are_the_only_ones_that_it_may_start() {
    let agents = |front: &str| profile(front).tools.agents;
    let some = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
    for (front, expected) in [
        ("tools: Agent(worker), Read", some(&["worker"])),
        ("tools: Task(Code Reviewer, tester)", some(&["code-reviewer", "tester"])),
        ("tools: [Agent(a), 'Agent(b, a)']", some(&["a", "b"])),
        ("tools: spawn_agent(a)", some(&["a"])),
        ("tools: Agent(a), Agent", None),
        ("tools: Agent(*)", None),
        ("tools: Agent", None),
        ("tools: Read", None),
        ("tools: {'*': false, 'Agent(a)': true}", some(&["a"])),
        ("agents: [a, B]", some(&["a", "b"])),
        ("agents: a, b", some(&["a", "b"])),
        ("agents: ['*', a]", None),
        ("tools: Agent(a, b)\nagents: [b, c]", some(&["b"])),
        ("tools: Agent(a, b)\nagents: '*'", some(&["a", "b"])),
    ] {
        assert_eq!(agents(front), expected, "{front}");
    }
    let none = profile("agents: []");
    assert_eq!((none.tools.agents, none.tools.denied), (some(&[]), vec!["spawn_agent".to_owned()]));
    let empty = warns(
        "tools: Agent()",
        &["line 3: `tools`: `Agent()`: left out, since the parentheses name no agent"],
    );
    assert_eq!(empty.tools.allowed, Some(Vec::new()));
}

#[test]
fn line_ends_of_windows_and_byte_order_marks_are_read() {
    let text = format!("\u{feff}{}", file(FULL)).replace('\n', "\r\n");
    let windows = parse("a.md", &text).unwrap().profile;
    let plain = parse("a.md", &file(FULL)).unwrap().profile;
    assert_eq!(windows.custom, plain.custom);
    assert_eq!(windows.instructions, plain.instructions);
    assert_eq!(windows.tools, plain.tools);
}

#[test]
fn files_without_front_matter_say_what_is_missing() {
    for (text, expected) in [
        ("", "line 1: the file has no front matter; begin it with"),
        ("# Agent\n", "line 1: the file has no front matter; begin it with"),
        ("--- \nname: a\n", "the front matter has no end; add a line `---`"),
        ("---", "the front matter has no end; add a line `---`"),
        ("---\n- a\n---\n", "the front matter must consist of `field: value` lines"),
        ("---\na: [\n---\n", "line 2: the front matter is not valid YAML: "),
        (
            "---\nname: a\nname: b\n---\n",
            "line 3: the front matter is not valid YAML: the key `name` is there twice; remove one",
        ),
    ] {
        let found = lines(&parse("a.md", text).unwrap_err());
        assert!(found.starts_with(expected), "{text:?}: {found}");
        assert!(!found.contains("line 1, column"), "lines are those of the file: {found}");
    }
}

#[test]
fn an_empty_front_matter_is_enough() {
    let Parsed { profile, warnings } = parse("My Agent.md", "---\n---\n").unwrap();
    assert_eq!(profile.name, "my-agent");
    assert_eq!(
        lines(&warnings),
        "`name`: called `my-agent` here\n\
         `description`: missing: other agents can't tell what this one is for\n\
         there is no text below the front matter: the model is told nothing"
    );
}

#[test]
fn sizes_are_bounded_and_the_bound_is_named() {
    let long = "x".repeat(MAX_FILE);
    let message = lines(&parse("a.md", &file(&long)).unwrap_err());
    assert_eq!(message, "the file is larger than 1 MiB; shorten it");
    let message = lines(&problems(&format!("description: {}", "x".repeat(65_536))));
    assert_eq!(message, "the front matter is larger than 64 KiB; shorten it");
}

#[test]
fn yaml_that_grows_or_nests_is_refused() {
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, \
                *b, *b, *b, *b, *b, *b]\nd: [*c, *c, *c, *c, *c, *c, *c, *c]";
    let deep = format!("a: {}{}", "[".repeat(60), "]".repeat(60));
    let many = format!("a: [{}]", "1,".repeat(9_000));
    for text in [bomb, &deep, &many] {
        let found = lines(&problems(text));
        assert!(found.contains("not valid YAML"), "{found}");
    }
}

#[test]
fn each_mistake_is_named_with_its_place() {
    insta::assert_snapshot!(mistakes());
}

/// Mistakes, each with what is said about it.
fn mistakes() -> String {
    let tool = |fields: &str| format!("tools:\n- x\n- {{name: sum, description: d, {fields}}}");
    let cases = [
        "nmae: a".to_owned(),
        "name: ''".to_owned(),
        format!("name: {}", "n".repeat(49)),
        "description: 7".to_owned(),
        "model: my model".to_owned(),
        "tools: 5".to_owned(),
        "tools: [[a]]".to_owned(),
        "tools:".to_owned(),
        "invoker: copilot".to_owned(),
        "ceiling: [file read]".to_owned(),
        "ceiling:".to_owned(),
        "budget: 5".to_owned(),
        "budget: {token: 5, seconds: 0, cost_usd: -1, runs: 1.5}".to_owned(),
        "max_turns: many".to_owned(),
        "temperature: 3".to_owned(),
        "public: yes".to_owned(),
        "kind: remote".to_owned(),
        "disable: true".to_owned(),
        "maxTurns: 3\nsteps: 4".to_owned(),
        "tools:\n- description: d\n  prompt: ''".to_owned(),
        "tools:\n- {name: Sum, description: d, prompt: p}".to_owned(),
        "tools:\n- {name: s, description: d, prompt: p}\n- {name: s, description: d, prompt: p}"
            .to_owned(),
        tool("prompt: p, promt: q, handler: x"),
        tool("prompt: '{{a}}', parameters: [a]"),
        tool("prompt: '{{a}}', parameters: {a: string}"),
        tool("prompt: '{{text}}', parameters: {text: {type: text, descripton: x}}"),
        tool("prompt: '{{text}}', parameters: {text: {type: string, required: maybe}}"),
        tool("prompt: '{{n}}', parameters: {n: {type: integer, minimum: low}}"),
        tool("prompt: '{{n}}', parameters: {n: {type: integer, default: five}}"),
        tool("prompt: p, parameters: {a b: {type: string}}"),
        tool("prompt: p, result_schema: {type: objekt}"),
        tool("prompt: p, result_schema: {$ref: 'https://example.com/schema.json'}"),
        tool("prompt: p, result_schema: text"),
        tool("prompt: p, public: 1, model: ''"),
    ];
    let shown =
        |case: &String| format!("{case}\n=> {}", lines(&problems(case)).replace('\n', "\n=> "));
    cases.iter().map(shown).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn all_mistakes_of_a_file_are_named_at_once() {
    let found = problems(
        "temperature: hot\ntools:\n- web_search\n- name: sum\n  description: d\n  prompt: '{{text}}'\n  \
         parameters:\n    text:\n      type: text\nbudget:\n  tokens: none",
    );
    let places: Vec<(&str, Option<&str>, Option<u32>)> =
        found.iter().map(|p| (p.field.as_str(), p.tool.as_deref(), p.line)).collect();
    assert_eq!(
        places,
        [
            ("temperature", None, Some(2)),
            ("tools[1].parameters.text.type", Some("sum"), Some(10)),
            ("budget.tokens", None, Some(12)),
        ]
    );
}

#[test]
fn what_has_no_effect_is_a_warning() {
    warns(
        "tools:\n- name: t\n  description: d\n  prompt: '{{a}} {{c}} {{c}}'\n  parameters:\n    a: {type: \
         string}\n    b: {type: string}",
        &[
            "line 6: tool `t`: `tools[0].prompt`: `{{c}}` is not a parameter and stays as it is",
            "line 9: tool `t`: `tools[0].parameters.b`: the prompt does not use `{{b}}`",
        ],
    );
    warns("colour: red", &["line 3: `colour`: ignored: unknown field"]);
    let named = warns("name: Code_Reviewer 2", &["line 3: `name`: called `code-reviewer-2` here"]);
    assert_eq!(named.name, "code-reviewer-2");
}

#[test]
fn what_would_give_rights_is_ignored_with_a_warning() {
    let profile = warns(
        "permissionMode: bypassPermissions\nhooks: {PreToolUse: []}\nmcpServers: [x]\ncolor: \
         red\npermission: {webfetch: allow}",
        &[
            "line 3: `permissionMode`: ignored: a file can't permit calls; grants and policy rules do",
            "line 4: `hooks`: ignored: a file can't start programs",
            "line 5: `mcpServers`: ignored: add servers to the configuration, and name their tools in \
             `tools`",
            "line 7: `permission`: `allow` gives no rights here; grants and policy rules do",
        ],
    );
    assert_eq!(profile.tools, crate::profile::ToolChoice::default());
}

#[test]
fn texts_that_other_programs_accept_without_quotes_are_read() {
    let loose =
        "name: a\ndescription: Reviews code. Triggers on: 'review', \"it's\" #1\nmodel: inherit";
    let Parsed { profile, warnings } = parse("a.md", &file(loose)).unwrap();
    assert_eq!(profile.description, "Reviews code. Triggers on: 'review', \"it's\" #1");
    assert_eq!(
        lines(&warnings),
        "line 3: `description`: not valid YAML without quotes; read as if the whole value were quoted"
    );
    let broken = problems("description: a: b\ntools: [x");
    assert!(lines(&broken).contains("not valid YAML"), "{broken:?}");
}

#[test]
fn minutes_become_seconds_unless_the_budget_has_some() {
    assert_eq!(profile("timeout_mins: 1.5").budget.seconds, Some(90));
    let both = profile("timeout_mins: 1\nbudget: {seconds: 7}");
    assert_eq!(both.budget.seconds, Some(7));
}

/// Files in the shapes that other programs use, and what is read from them.
#[test]
fn files_of_other_programs_are_read_as_they_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles");
    let mut shown = Vec::new();
    for found in crate::profile::read_folders(&[folder]) {
        let Parsed { profile, warnings } = found.parsed.unwrap();
        let Profile { name, model, tools, budget, max_turns, temperature, .. } = profile;
        let file = found.path.file_name().unwrap().display();
        shown.push(format!("{file}: {name}, {model:?}, {max_turns:?}, {temperature:?}"));
        shown.push(format!("  allowed {:?}\n  denied {:?}", tools.allowed, tools.denied));
        shown.extend(tools.agents.map(|agents| format!("  agents {agents:?}")));
        shown.push(format!("  {}", serde_json::to_string(&budget).unwrap()));
        shown.extend(warnings.iter().map(|warning| format!("  warning: {warning}")));
    }
    insta::assert_snapshot!(shown.join("\n"));
}
