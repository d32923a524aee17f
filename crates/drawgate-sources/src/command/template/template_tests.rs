use proptest::prelude::*;
use serde_json::json;

use super::*;

fn schema(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "required": required });
    schema["properties"] = properties;
    schema
}

fn text() -> Value {
    schema(json!({ "q": { "type": "string" } }), &["q"])
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

/// The command as JSON, or the code of what refused it.
fn check(template: &str, parameters: &Value, arguments: Value) -> String {
    match Template::parse(template, parameters) {
        Err(error) => error.code().to_owned(),
        Ok(template) => match template.fill(&object(arguments)) {
            Err(error) => error.code().to_owned(),
            Ok(command) => json!(command).to_string(),
        },
    }
}

/// What the rows of the table take for granted.
fn parameters(row: &str) -> Value {
    match row {
        row if row.starts_with("int_") || row == "unknown_arg" => {
            schema(json!({ "limit": { "type": "integer" } }), &["limit"])
        }
        row if row.starts_with("splat_") => {
            let paths = json!({ "type": "array", "items": { "type": "string" } });
            schema(json!({ "paths": paths }), &["paths"])
        }
        "pattern_anchored" => {
            schema(json!({ "q": { "type": "string", "pattern": "[0-9]+" } }), &["q"])
        }
        "enum" => schema(json!({ "q": { "type": "string", "enum": ["open", "closed"] } }), &["q"]),
        "tpl_inner" => {
            let pattern = "[A-Za-z0-9_.-]+/[A-Za-z0-9_-]+";
            schema(json!({ "q": { "type": "string", "pattern": pattern } }), &["q"])
        }
        _ => text(),
    }
}

#[test]
fn the_table_of_injections_holds() {
    let rows = include_str!("injection.tsv").lines().skip(1);
    let mut count = 0;
    for row in rows {
        let mut fields = row.split('\t');
        let mut next = || fields.next().unwrap_or_else(|| panic!("{row}"));
        let (name, template, arguments, expected) = (next(), next(), next(), next());
        let template: String = serde_json::from_str(template).unwrap();
        let arguments = match arguments {
            "@repeat A 131072" => json!({ "q": "A".repeat(131_072) }),
            arguments => serde_json::from_str(arguments).unwrap(),
        };
        let expected = serde_json::from_str::<Value>(expected)
            .map_or_else(|_| expected.to_owned(), |command| command.to_string());
        assert_eq!(check(&template, &parameters(name), arguments), expected, "{name}");
        count += 1;
    }
    assert_eq!(count, 57);
}

#[test]
fn what_only_a_shell_means_is_refused_and_quotes_make_it_text() {
    let none = json!({});
    for bad in [
        "gh $HOME",
        "gh `id`",
        "gh a|b",
        "gh a;b",
        "gh a&",
        "gh <a",
        "gh >a",
        "gh (a)",
        "gh a\\ b",
        "gh *.rs",
        "gh [ab]",
        "gh ?.rs",
        "gh a?",
        "gh ~/x",
        "gh #x",
        "gh {a,b}",
        "gh \"$(id)\"",
        "gh \"`id`\"",
        "gh \"a\\n\"",
        "gh a\rb",
        "gh 'a\nb'",
        "gh a\0",
        "X=1 gh",
        "gh\n",
    ] {
        assert_eq!(check(bad, &none, json!({})), "E_TEMPLATE_SHELL_META", "{bad:?}");
    }
    for hidden in ["gh \u{202e}a", "gh 'a\u{2028}b'", "gh a\u{200b}", "gh a\u{a0}b", "gh \u{e0041}"]
    {
        assert_eq!(check(hidden, &none, json!({})), "E_TEMPLATE_HIDDEN", "{hidden:?}");
    }
    for unclosed in ["gh 'a", "gh \"a", "gh a'"] {
        assert_eq!(check(unclosed, &none, json!({})), "E_TEMPLATE_QUOTE", "{unclosed}");
    }
    for (good, command) in [
        ("  gh\ta  b ", json!(["gh", "a", "b"])),
        ("gh 'a b' \"c d\"e ''", json!(["gh", "a b", "c de", ""])),
        ("jq '.[] | {a: {b: .x}}' \"it's\"", json!(["jq", ".[] | {a: {b: .x}}", "it's"])),
        ("find . -exec wc -l {} +", json!(["find", ".", "-exec", "wc", "-l", "{}", "+"])),
        ("curl 'x?y=1#z' a#~", json!(["curl", "x?y=1#z", "a#~"])),
        ("printf 'a\u{a0}b'", json!(["printf", "a\u{a0}b"])),
    ] {
        assert_eq!(check(good, &none, json!({})), command.to_string(), "{good}");
    }
}

#[test]
fn placeholders_are_plain_names() {
    for bad in [
        "gh {{}}",
        "gh {{q",
        "gh q}}",
        "gh {{q}}}",
        "gh {{{q}}",
        "gh {{a b}}",
        "gh {{q.x}}",
        "gh {{#q}}",
        "gh {{&q}}",
        "gh {{q|x}}",
        "gh {{q {{q}} }}",
        "gh {{q?}}",
        "gh {{q?-a b}}",
        "gh '{{{q}}}'",
        "gh \"{{{{q}}}}\"",
    ] {
        assert_eq!(check(bad, &text(), json!({ "q": "1" })), "E_TEMPLATE_PLACEHOLDER", "{bad}");
    }
    for good in ["gh {{q}}", "gh {{ q }}", "gh '{{q}}'", "gh \"{{q}}\""] {
        assert_eq!(check(good, &text(), json!({ "q": "a b" })), r#"["gh","a b"]"#, "{good}");
    }
    for bad in
        ["{{q}}", "{{q}} x", "g{{q}} x", "", "  ", "bin/gh {{q}}", "../gh {{q}}", "-gh {{q}}"]
    {
        assert_eq!(check(bad, &text(), json!({ "q": "1" })), "E_TEMPLATE_PROGRAM", "{bad}");
    }
}

#[test]
fn parameters_and_placeholders_belong_together() {
    let code = |template: &str, parameters: &Value| {
        Template::parse(template, parameters).map(drop).unwrap_err().code()
    };
    assert_eq!(code("gh {{other}} {{q}}", &text()), "E_TEMPLATE_PARAMETER");
    let unused = Template::parse("gh", &text()).unwrap_err();
    assert_eq!(unused.code(), "E_TEMPLATE_UNUSED");
    assert!(unused.to_string().contains("`q`"), "{unused}");
    for property in [
        json!({}),
        json!({ "type": "object" }),
        json!(true),
        json!({ "type": ["string", "integer"] }),
    ] {
        assert_eq!(
            code("gh {{q}}", &schema(json!({ "q": property }), &[])),
            "E_TEMPLATE_PARAMETER"
        );
    }
    for pattern in ["(?=a)", "(a)\\1", "(", "(?x) a #"] {
        let property = json!({ "type": "string", "pattern": pattern });
        assert_eq!(
            code("gh {{q}}", &schema(json!({ "q": property }), &[])),
            "E_TEMPLATE_PARAMETER",
            "{pattern}"
        );
    }
    assert_eq!(
        code("gh {{q}}", &schema(json!({ "q": { "type": "string" } }), &["r"])),
        "E_TEMPLATE_PARAMETER"
    );
    assert_eq!(code("gh", &json!([])), "E_TEMPLATE_SCHEMA");
    assert_eq!(code("gh", &json!({ "type": "string" })), "E_TEMPLATE_SCHEMA");
    for template in
        ["gh x{{q}}", "gh {{q}}.txt", "gh a={{q}}", "gh --a=b={{q}}", "gh --a={{q}}x", "gh =/{{q}}"]
    {
        assert_eq!(code(template, &text()), "E_TEMPLATE_PATTERN", "{template}");
    }
    let list = schema(json!({ "q": { "type": "array", "items": { "type": "string" } } }), &[]);
    for template in ["gh {{q}}", "gh --a={{q...}}", "gh {{q...}}{{q...}}"] {
        assert_eq!(code(template, &list), "E_TEMPLATE_SPLAT", "{template}");
    }
    assert_eq!(code("gh {{q?--q}}", &text()), "E_TEMPLATE_PARAMETER");
}

#[test]
fn what_is_not_given_leaves_no_trace() {
    let properties = json!({
        "limit": { "type": "integer" },
        "state": { "type": "string", "enum": ["open", "closed"], "default": "open" },
        "labels": { "type": "array", "items": { "type": "string" } },
        "web": { "type": "boolean" },
        "q": { "type": "string" },
    });
    let parameters = schema(properties, &[]);
    let template =
        "gh list --limit {{limit}} --state={{state}} --label {{labels...}} {{web?--web}} -- {{q}}";
    for (arguments, command) in [
        (json!({}), json!(["gh", "list", "--state=open", "--"])),
        (
            json!({ "limit": null, "labels": [], "web": false }),
            json!(["gh", "list", "--state=open", "--"]),
        ),
        (
            json!({ "limit": 5, "state": "closed", "labels": ["a b", "c"], "web": true, "q": "-x" }),
            json!([
                "gh",
                "list",
                "--limit",
                "5",
                "--state=closed",
                "--label",
                "a b",
                "c",
                "--web",
                "--",
                "-x"
            ]),
        ),
    ] {
        assert_eq!(
            check(template, &parameters, arguments.clone()),
            command.to_string(),
            "{arguments}"
        );
    }
    for bad in [json!({ "labels": ["-x"] }), json!({ "limit": -5 })] {
        assert_eq!(check(template, &parameters, bad.clone()), "E_OPTION", "{bad}");
    }
    let bad_default = schema(json!({ "q": { "type": "string", "default": 5 } }), &[]);
    assert_eq!(check("gh {{q}}", &bad_default, json!({})), "E_TEMPLATE_PARAMETER");
}

/// What one value of a parameter becomes.
fn one(property: Value, value: Value) -> String {
    let named = |value: Value| Value::from_iter([("q", value)]);
    check("gh --x={{q}}", &schema(named(property), &["q"]), named(value))
}

#[test]
fn values_are_written_by_their_type() {
    let integer = json!({ "type": "integer", "minimum": 1, "exclusiveMaximum": 10 });
    for (value, expected) in [
        (json!(5), r#"["gh","--x=5"]"#),
        (json!(5.0), r#"["gh","--x=5"]"#),
        (json!(1e0), r#"["gh","--x=1"]"#),
        (json!(5.5), "E_TYPE"),
        (json!(0), "E_RANGE"),
        (json!(10), "E_RANGE"),
        (json!(u64::MAX), "E_RANGE"),
        (json!(1e300), "E_RANGE"),
        (json!("5"), "E_TYPE"),
        (json!([5]), "E_TYPE"),
        (Value::Null, "E_MISSING"),
    ] {
        assert_eq!(one(integer.clone(), value.clone()), expected, "{value}");
    }
    assert_eq!(one(json!({ "type": "integer" }), json!(-0.0)), r#"["gh","--x=0"]"#);
    let number = json!({ "type": "number" });
    for (value, expected) in [
        (json!(-1.5), r#"["gh","--x=-1.5"]"#),
        (json!(9_007_199_254_740_993_i64), "E_RANGE"),
        (json!(true), "E_TYPE"),
    ] {
        assert_eq!(one(number.clone(), value.clone()), expected, "{value}");
    }
    assert_eq!(one(json!({ "type": "boolean" }), json!(false)), r#"["gh","--x=false"]"#);
    assert_eq!(one(json!({ "type": "boolean" }), json!("false")), "E_TYPE");
    assert_eq!(one(json!({ "type": ["string", "null"] }), json!("x")), r#"["gh","--x=x"]"#);
    assert_eq!(one(json!({ "type": "string", "maxLength": 2 }), json!("abc")), "E_SCHEMA");
    assert_eq!(one(json!({ "type": "string", "pattern": "a|b" }), json!("ax")), "E_SCHEMA");
    assert_eq!(one(json!({ "type": "string", "pattern": "^a$" }), json!("a\n")), "E_SCHEMA");
    let lines = json!({ "type": "string", "x-multiline": true });
    assert_eq!(one(lines.clone(), json!("a\n\tb")), r#"["gh","--x=a\n\tb"]"#);
    for control in ["a\rb", "a\u{1b}b", "a\u{7f}", "a\u{85}", "a\u{9b}31m"] {
        assert_eq!(one(lines.clone(), json!(control)), "E_CONTROL", "{control:?}");
    }
    assert_eq!(one(lines, json!("a\r\nb")), r#"["gh","--x=a\r\nb"]"#);
    assert_eq!(one(json!({ "type": "string" }), json!("a\tb")), "E_CONTROL");
    // The option's name counts too: 131071 bytes are what one argument may have.
    for (length, expected) in [(131_067, r#"["gh","--x=A"#), (131_068, "E_TOO_LONG")] {
        let filled = one(json!({ "type": "string" }), json!("A".repeat(length)));
        assert!(filled.starts_with(expected), "{length}: {}", filled.len());
    }
    let two = json!({ "a": { "type": "string", "pattern": "A+" }, "b": { "type": "string", "pattern": "A+" } });
    let half = "A".repeat(70_000);
    let filled =
        check("gh {{a}}/{{b}}", &schema(two, &["a", "b"]), json!({ "a": half, "b": half }));
    assert_eq!(filled, "E_TOO_LONG");
    let many = schema(json!({ "q": { "type": "array" } }), &["q"]);
    assert_eq!(
        check("gh -- {{q...}}", &many, json!({ "q": vec!["A".repeat(100_000); 11] })),
        "E_TOO_LONG"
    );
    assert_eq!(check("gh -- {{q...}}", &many, json!({ "q": [1] })), "E_TYPE");
    assert_eq!(check("gh -- {{q...}}", &many, json!({ "q": ["a", ""] })), "E_EMPTY");
}

#[test]
fn empty_and_listed_values() {
    assert_eq!(one(json!({ "type": "string" }), json!("")), "E_EMPTY");
    assert_eq!(one(json!({ "type": "string", "minLength": 0 }), json!("")), r#"["gh","--x="]"#);
    assert_eq!(one(json!({ "type": "string", "minLength": 0 }), json!("\n")), "E_CONTROL");
    let listed = json!({ "enum": ["", "a\nb", "\u{0}"] });
    assert_eq!(one(listed.clone(), json!("")), r#"["gh","--x="]"#);
    assert_eq!(one(listed.clone(), json!("a\nb")), r#"["gh","--x=a\nb"]"#);
    assert_eq!(one(listed.clone(), json!("\u{0}")), "E_NUL");
    assert_eq!(one(listed, json!("a\n")), "E_SCHEMA");
    let empty = |template: &str| {
        let pattern = json!({ "q": { "type": "string", "minLength": 0, "pattern": "a*" } });
        check(template, &schema(pattern, &["q"]), json!({ "q": "" }))
    };
    assert_eq!(empty("gh --search {{q}} x"), r#"["gh","--search","","x"]"#);
    assert_eq!(empty("gh -- {{q}}"), r#"["gh","--",""]"#);
    assert_eq!(empty("gh -n{{q}} x"), "E_EMPTY", "`-n` would take `x` for its value");
    let empties =
        json!({ "q": { "type": "array", "items": { "type": "string", "minLength": 0 } } });
    assert_eq!(
        check("gh -- {{q...}}", &schema(empties, &["q"]), json!({ "q": ["a", ""] })),
        r#"["gh","--","a",""]"#
    );
}

#[test]
fn callers_see_a_closed_schema_with_whole_patterns() {
    let parameters = schema(json!({ "q": { "type": "string", "pattern": "a|b" } }), &["q"]);
    let template = Template::parse("gh {{q}}", &parameters).unwrap();
    assert_eq!(template.schema()["additionalProperties"], false);
    assert_eq!(template.schema()["properties"]["q"]["pattern"], "^(?:a|b)$");
}

#[test]
fn files_of_the_folder_are_found_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.py"), "").unwrap();
    let path = folder.path().join("x.py").display().to_string();
    let located = |template: &str| {
        let template = Template::parse(template, &json!({})).unwrap().located(Some(folder.path()));
        template.map(|template| template.fill(&Map::new()).unwrap()).map_err(|error| error.code())
    };
    assert_eq!(
        located("python3 ./x.py ./other"),
        Ok(vec!["python3".to_owned(), path.clone(), "./other".to_owned()])
    );
    assert_eq!(located("./x.py"), Ok(vec![path]));
    for bad in ["./other", "python3 ./other", "./../x.py", "python3 ./a/../x.py", "./."] {
        assert_eq!(located(bad), Err("E_TEMPLATE_PROGRAM"), "{bad}");
    }
    let nowhere = Template::parse("./x.py", &json!({})).unwrap().located(None);
    assert_eq!(nowhere.unwrap_err().code(), "E_TEMPLATE_PROGRAM");
}

proptest! {
    /// Whatever a value is, it is refused or it is exactly one argument.
    #[test]
    fn a_value_is_one_argument(value in any::<String>()) {
        for (template, before) in [("gh {{q}} end", ""), ("gh --q={{q}} end", "--q="), ("gh \"{{q}}\" end", "")] {
            let template = Template::parse(template, &text()).unwrap();
            if let Ok(command) = template.fill(&object(json!({ "q": value }))) {
                prop_assert_eq!(command, ["gh", &format!("{before}{value}"), "end"]);
            }
        }
    }

    /// The same for lists, and dashes never get in where an option could stand.
    #[test]
    fn a_list_is_as_many_arguments_as_it_has_elements(list in prop::collection::vec("[-a-z $;|&'\"{}\\\\]{0,6}", 0..6)) {
        let parameters = schema(json!({ "q": { "type": "array", "items": { "type": "string" } } }), &["q"]);
        let template = Template::parse("gh {{q...}} end", &parameters).unwrap();
        match template.fill(&object(json!({ "q": list }))) {
            Ok(command) => {
                prop_assert!(list.iter().all(|item| !item.starts_with('-')));
                let inner: Vec<&String> = command.iter().skip(1).take(command.len() - 2).collect();
                prop_assert_eq!(inner, list.iter().collect::<Vec<_>>());
            }
            Err(_) => prop_assert!(list.iter().any(|item| item.is_empty() || item.starts_with('-'))),
        }
    }

    /// No template makes the reader fail in another way than by an error.
    #[test]
    fn any_text_is_a_template_or_an_error(template in "[a-z {}'\"$.?=-]{0,24}") {
        if let Ok(template) = Template::parse(&template, &json!({})) {
            prop_assert!(template.fill(&Map::new()).is_ok());
        }
    }
}
