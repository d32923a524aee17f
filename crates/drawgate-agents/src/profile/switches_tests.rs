use serde_json::{Value, json};

use super::{Switches, both, names};
use crate::profile::ToolChoice;
use crate::profile::findings::{Findings, Place};

fn choice(allowed: Option<&[&str]>, denied: &[&str]) -> ToolChoice {
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    ToolChoice { allowed: allowed.map(texts), denied: texts(denied), agents: None }
}

#[track_caller]
fn permits(value: &Value, expected: &ToolChoice) {
    let mut findings = Findings::default();
    let found = Switches::of_permissions(&mut findings, &Place::default(), value).choice();
    assert_eq!(found, *expected, "{value}");
    assert_eq!(findings.problems, [], "{value}");
}

#[test]
fn commas_separate_names_but_not_conditions() {
    assert_eq!(
        names("Read, Bash(git log, git diff) ,,X"),
        ["Read", "Bash(git log, git diff)", "X"]
    );
    assert_eq!(names(" "), [""; 0]);
    assert_eq!(names("a), b"), ["a)", "b"]);
}

#[test]
fn asking_means_denying() {
    permits(&json!({ "bash": "ask" }), &choice(None, &["bash"]));
    permits(&json!({ "edit": "deny" }), &choice(None, &["edit", "vfs_write"]));
    permits(&json!({ "webfetch": "allow" }), &choice(None, &[]));
    permits(&json!("deny"), &choice(Some(&[]), &[]));
    permits(&json!("allow"), &choice(None, &[]));
}

#[test]
fn conditions_on_arguments_deny_the_whole_tool() {
    permits(&json!({ "bash": { "*": "allow", "rm *": "ask" } }), &choice(None, &["bash"]));
    permits(&json!({ "bash": { "*": "allow" } }), &choice(None, &[]));
}

#[test]
fn the_last_switch_counts() {
    let read = choice(Some(&["vfs_read"]), &[]);
    permits(&json!({ "*": "ask", "read": "allow" }), &read);
    permits(&json!({ "read": "allow", "*": "deny" }), &choice(Some(&[]), &[]));
    permits(&json!({ "read": "deny", "*": "allow" }), &choice(None, &[]));
    permits(
        &json!({ "*": "deny", "read": "allow", "list": "allow", "vfs_read": "deny" }),
        &choice(Some(&["vfs_list"]), &["vfs_read"]),
    );
}

#[test]
fn words_that_are_not_permissions_are_problems() {
    for value in [json!(5), json!({ "bash": "never" }), json!({ "bash": true })] {
        let mut findings = Findings::default();
        Switches::of_permissions(&mut findings, &Place::default(), &value);
        assert_eq!(findings.problems.len(), 1, "{value}");
    }
}

#[test]
fn two_choices_allow_what_both_allow() {
    let cases = [
        (choice(None, &["a"]), choice(None, &["a", "b"]), choice(None, &["a", "b"])),
        (choice(Some(&["x"]), &[]), choice(None, &["y"]), choice(Some(&["x"]), &["y"])),
        (
            choice(Some(&["time__*", "web_fetch", "z"]), &[]),
            choice(Some(&["time__now", "web_*", "y"]), &[]),
            choice(Some(&["web_fetch", "time__now"]), &[]),
        ),
    ];
    for (one, other, expected) in cases {
        assert_eq!(both(one, other), expected);
    }
}
