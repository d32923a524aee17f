use serde_json::{Value, json};

use super::{fill, placeholders};

#[track_caller]
fn check(prompt: &str, arguments: &Value, expected: &str) {
    assert_eq!(fill(prompt, arguments.as_object().unwrap()), expected, "{prompt}");
}

#[test]
fn arguments_go_where_they_are_named() {
    let two = json!({ "a": "one", "b_2": "two" });
    check("{{a}} and {{b_2}}", &two, "one and two");
    check("{{ a }}{{\tb_2 }}{{a}}", &two, "onetwoone");
    check("", &two, "");
    check("grüße {{a}} ü", &two, "grüße one ü");
}

#[test]
fn values_that_are_not_texts_go_in_as_json() {
    let all =
        json!({ "n": 1.5, "list": [1, "x"], "map": { "k": null }, "yes": true, "null": null });
    check("{{n}} {{list}} {{map}} {{yes}} {{null}}", &all, r#"1.5 [1,"x"] {"k":null} true null"#);
}

#[test]
fn what_has_no_argument_stays() {
    let one = json!({ "a": "1" });
    for text in ["{{b}}", "{{ }}", "{{}}", "{{a b}}", "{{a", "{a}}", "{{a}", "{{#if a}}", "{{a.b}}"]
    {
        check(text, &one, text);
    }
    check("{{b}}{{a}}{{", &one, "{{b}}1{{");
    check("{{{a}}}", &one, "{1}");
    check("{{a {{a}}", &one, "{{a 1");
}

#[test]
fn what_an_argument_contains_is_not_filled_in() {
    let nested = json!({ "a": "{{b}}", "b": "{{a}}" });
    check("{{a}}{{b}}", &nested, "{{b}}{{a}}");
    let halves = json!({ "open": "{{", "a": "1" });
    check("{{open}}a}}", &halves, "{{a}}");
}

#[test]
fn placeholders_are_listed_in_their_order() {
    let names: Vec<&str> = placeholders("{{a}} {{ b }} {{a}} {{9}}").map(|p| p.name).collect();
    assert_eq!(names, ["a", "b", "a"]);
}
