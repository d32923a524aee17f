//! Rule × request.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::model::{Bounds, Principal, SourceId, ToolId};
use crate::policy::RulesError;
use crate::testing::{caller, run_of};

fn policy(fallback: &str, rules: &Value) -> Rules {
    let file = json!({ "version": "1.0", "defaults": { "fallback": fallback }, "rules": rules });
    Rules::from_value(file).unwrap()
}

struct Call {
    tool: &'static str,
    action: Option<&'static str>,
    arguments: Value,
    lineage: Option<Arc<Lineage>>,
}

fn call(arguments: Value) -> Call {
    Call { tool: "fs:write", action: Some("file.write"), arguments, lineage: None }
}

#[track_caller]
fn decided(rules: &Rules, call: &Call) -> PolicyDecision {
    let (source, tool) = call.tool.split_once(':').unwrap();
    let tool_id = ToolId::new(&SourceId::new(source).unwrap(), tool).unwrap();
    let principal = Principal::new("ann").unwrap();
    let arguments = call.arguments.as_object().unwrap();
    let size = crate::canonical::to_string(&call.arguments).len() as u64;
    let request = PolicyRequest {
        tool_id: &tool_id,
        action: call.action,
        claimed: None,
        principal: &principal,
        lineage: call.lineage.as_deref(),
        arguments,
        fits: true,
        size,
    };
    decide(rules, &request)
}

/// One rule with a condition, everything else at a fallback that differs from the verdict.
#[track_caller]
fn check(when: &Value, verdict: &str, arguments: Value, applies: bool) {
    let fallback = if verdict == "allow" { "deny" } else { "allow" };
    let rules =
        policy(fallback, &json!([{ "id": "r", "action": "*", "when": when, "decision": verdict }]));
    let shown = format!("{verdict} when {when} on {arguments}");
    assert_eq!(decided(&rules, &call(arguments)).rule_id.is_some(), applies, "{shown}");
}

#[test]
fn the_strictest_rule_wins_and_the_first_of_them_is_named() {
    let verdicts = ["allow", "allow_with_confirm", "deny"];
    for (first, a) in verdicts.iter().enumerate() {
        for (second, b) in verdicts.iter().enumerate() {
            let rules = policy(
                "deny",
                &json!([{ "id": "a", "action": "*", "decision": a }, { "id": "b", "action": "file.*", "decision": b }]),
            );
            let decision = decided(&rules, &call(json!({})));
            let strictest = if second > first { b } else { a };
            let name = if second > first { "b" } else { "a" };
            assert_eq!(json!(decision.decision), json!(strictest), "{a} {b}");
            assert_eq!(decision.rule_id.as_deref(), Some(name), "{a} {b}");
            assert_eq!(decision.requires_confirmation, *strictest == "allow_with_confirm");
        }
    }
}

#[test]
fn without_policy_all_is_allowed_and_with_one_nothing_that_no_rule_names() {
    let any = call(json!({}));
    assert_eq!(decided(&Rules::default(), &any).decision, Verdict::Allow);
    let empty = Rules::from_value(json!({ "version": "1.0" })).unwrap();
    assert_eq!(decided(&empty, &any).decision, Verdict::Deny);
    assert!(decided(&empty, &any).reason.ends_with("`policy.defaults.fallback` is not set"));
    let denied = decided(&policy("deny", &json!([])), &any);
    assert!(denied.reason.ends_with("`policy.defaults.fallback` is `deny`"), "{}", denied.reason);
    assert_eq!(
        decided(&policy("allow_with_confirm", &json!([])), &any).decision,
        Verdict::AllowWithConfirm
    );
    assert!(decided(&policy("allow_with_confirm", &json!([])), &any).requires_confirmation);
}

#[test]
fn actions_are_patterns() {
    let cases = [
        ("file.write", Some("file.write"), true),
        ("file.*", Some("file.write"), true),
        ("file.*", Some("files.write"), false),
        ("file.*", Some("filexwrite"), false),
        ("FILE.write", Some("file.write"), true),
        ("file.read", Some("file.write"), false),
        ("*", Some("file.write"), true),
        ("*", None, true),
        ("file.*", None, false),
        ("file.writ?", Some("file.write"), true),
        ("write", Some("file.write"), false),
    ];
    for (pattern, action, applies) in cases {
        let rules = policy("allow", &json!([{ "id": "r", "action": pattern, "decision": "deny" }]));
        let request = Call { action, ..call(json!({})) };
        assert_eq!(decided(&rules, &request).rule_id.is_some(), applies, "{pattern} {action:?}");
    }
}

#[test]
fn names_are_matched_as_a_whole() {
    let cases = [
        (json!({ "toolId": "fs:write" }), true),
        (json!({ "toolId": "fs:*" }), true),
        (json!({ "toolId": ["x:*", "fs:*"] }), true),
        (json!({ "toolId": "fs" }), false),
        (json!({ "toolId": "s:write" }), false),
        (json!({ "principal": "ann" }), true),
        (json!({ "principal": "ANN" }), true),
        (json!({ "principal": "an" }), false),
        (json!({ "connectorScope": "fs" }), true),
        (json!({ "connectorScope": "f" }), false),
        (json!({ "toolId": "fs:*", "principal": "bob" }), false),
    ];
    for (when, applies) in cases {
        check(&when, "deny", json!({}), applies);
        check(&when, "allow", json!({}), applies);
    }
}

#[test]
fn rules_about_agents_are_about_runs_of_a_profile() {
    // The profiles of the runs, from the root down; which rules about `agent` apply to the last one:
    // those that deny or ask, and those that allow.
    let cases: [(&[&str], Value, bool, bool); 10] = [
        (&[], json!("*"), false, false),
        (&[], json!("ann"), false, false),
        (&["worker"], json!("worker"), true, true),
        (&["worker"], json!("WORK*"), true, true),
        (&["worker"], json!(["other", "worker"]), true, true),
        (&["worker"], json!("other"), false, false),
        (&["reader", "worker"], json!("worker"), true, true),
        (&["reader", "worker"], json!("reader"), true, false),
        (&["reader", "middle", "worker"], json!("reader"), true, false),
        (&["reader", "middle", "worker"], json!("*"), true, true),
    ];
    for (runs, agent, restricts, allows) in cases {
        let last = runs
            .iter()
            .fold(caller("ann"), |above, profile| run_of(&above, profile, Bounds::default()));
        let request = Call { lineage: last.lineage, ..call(json!({})) };
        for (verdict, fallback, applies) in [
            ("deny", "allow", restricts),
            ("allow_with_confirm", "allow", restricts),
            ("allow", "deny", allows),
        ] {
            let rule = json!([{ "id": "r", "action": "*", "when": { "agent": agent }, "decision": verdict }]);
            let found = decided(&policy(fallback, &rule), &request).rule_id.is_some();
            assert_eq!(found, applies, "{verdict} when agent is {agent}, by {runs:?}");
        }
    }
}

#[test]
fn paths() {
    let etc = json!({ "path": "/etc/**" });
    let work = json!({ "path": "/data/**" });
    let cases = [
        // A rule that denies applies if any path matches, in whatever form it is written.
        ("deny", &etc, json!({ "path": "/etc/passwd" }), true),
        ("deny", &etc, json!({ "path": "/etc/a/b/c" }), true),
        ("deny", &etc, json!({ "path": "/ETC/passwd" }), true),
        ("deny", &etc, json!({ "path": "/etcetera/x" }), false),
        ("deny", &etc, json!({ "path": "/data/../etc/passwd" }), true),
        ("deny", &etc, json!({ "path": "/data/../../../etc/passwd" }), true),
        ("deny", &etc, json!({ "path": "//etc///./passwd" }), true),
        ("deny", &etc, json!({ "path": "\\etc\\passwd" }), true),
        ("deny", &etc, json!({ "path": "/etc/x\\..\\..\\work\\y" }), true),
        ("deny", &etc, json!({ "path": "/data/x\\..\\..\\etc\\y" }), true),
        ("deny", &etc, json!({ "path": "/tmp/a://../../../etc/passwd" }), true),
        ("deny", &etc, json!({ "uri": "file:///etc/passwd" }), true),
        ("deny", &etc, json!({ "uri": "FILE:///etc/passwd" }), true),
        ("deny", &etc, json!({ "uri": "file:/etc/passwd" }), true),
        ("deny", &etc, json!({ "uri": "file://localhost/etc/passwd" }), true),
        ("deny", &etc, json!({ "uri": "file:///%65tc/passwd" }), true),
        ("deny", &etc, json!({ "uri": "file:///data/../etc/passwd" }), true),
        ("deny", &etc, json!({ "anything": " file:///etc/passwd" }), true),
        ("deny", &etc, json!({ "text": "/etc/passwd" }), false),
        ("deny", &etc, json!({ "path": "https://example.com/etc/passwd" }), false),
        ("deny", &etc, json!({ "paths": ["/data/a", "/etc/passwd"] }), true),
        ("deny", &etc, json!({ "edits": [{ "filePath": "/etc/passwd" }] }), true),
        ("deny", &etc, json!({ "output_file": "/etc/passwd" }), true),
        ("deny", &etc, json!({ "files": [{ "name": "/etc/passwd" }] }), true),
        ("deny", &etc, json!({ "files": [{ "name": "/etc/passwd", "path": "/data/a" }] }), true),
        ("deny", &etc, json!({ "target": { "location": [["/etc/passwd"]] } }), true),
        ("deny", &etc, json!({ "files": { "/etc/passwd": "text" } }), true),
        ("deny", &etc, json!({ "edits": [{ "text": "/etc/passwd" }] }), false),
        ("deny", &etc, json!({ "OLD-PATH": "/etc/passwd" }), true),
        ("deny", &etc, json!({ "destination": "/etc/passwd", "source": "/data/x" }), true),
        ("deny", &etc, json!({}), false),
        ("allow_with_confirm", &etc, json!({ "paths": ["/data/a", "/etc/b"] }), true),
        // A rule that allows applies only if all match, and there is one.
        ("allow", &work, json!({ "path": "/data/a" }), true),
        ("allow", &work, json!({ "paths": ["/data/a", "/data/b"] }), true),
        ("allow", &work, json!({ "paths": ["/data/a", "/etc/b"] }), false),
        ("allow", &work, json!({ "path": "/data/../etc/passwd" }), false),
        ("allow", &work, json!({ "files": [{ "path": "/data/a", "content": "x" }] }), true),
        ("allow", &work, json!({ "files": [{ "name": "/data/a" }] }), true),
        ("allow", &work, json!({ "files": [{ "name": "/etc/b" }], "path": "/data/a" }), false),
        ("allow", &work, json!({ "files": { "/etc/b": "/data/a" } }), false),
        ("allow", &work, json!({ "path": "/data/a", "from": { "line": 1 } }), true),
        ("allow", &work, json!({ "path": "/data/a\\..\\..\\..\\etc" }), false),
        ("allow", &work, json!({ "path": "/data/a", "target": "../x" }), false),
        ("allow", &work, json!({ "path": "work/a" }), false),
        ("allow", &work, json!({ "uri": "file:///data/a?/../../etc/b" }), false),
        ("allow", &work, json!({ "uri": "file:///data/%2e%2e/etc/b" }), false),
        ("allow", &work, json!({ "text": "x" }), false),
        ("allow", &work, json!({}), false),
    ];
    for (verdict, when, arguments, applies) in cases {
        check(when, verdict, arguments, applies);
    }
    let folder = json!({ "path": "/data/*.txt" });
    check(&folder, "deny", json!({ "path": "/data/a.txt" }), true);
    check(&folder, "deny", json!({ "path": "/data/a/b.txt" }), false);
    check(&json!({ "path": "**" }), "allow", json!({ "path": "a\nb" }), true);
}

#[test]
fn hosts() {
    let evil = json!({ "host": ["evil.example", "*.evil.example", "::1", "fe80::1"] });
    let matching = [
        json!({ "url": "https://evil.example/x" }),
        json!({ "url": "https://EVIL.example./x" }),
        json!({ "url": "https://evil.example:8443/x" }),
        json!({ "url": "https://good.example@evil.example/" }),
        json!({ "url": "https://user:pw@evil.example:1" }),
        json!({ "url": "https://a@b@evil.example" }),
        json!({ "url": "https://evil.example?good.example" }),
        json!({ "url": "https://evil.example#@good.example" }),
        json!({ "url": "https://evil.example\\@good.example" }),
        json!({ "url": "https://good.example\\@evil.example" }),
        json!({ "url": "https:\\\\evil.example\\x" }),
        json!({ "url": "https:/evil.example" }),
        json!({ "url": "https:////evil.example" }),
        json!({ "url": "  https://evil.example" }),
        json!({ "url": "ht\ntps://evil.\texample/" }),
        json!({ "url": "https://ev%69l.example/" }),
        json!({ "url": "https://ｅvil。example/" }),
        json!({ "url": "WSS://evil.example" }),
        json!({ "anything": "gopher://evil.example/_x" }),
        json!({ "deep": [{ "x": ["https://a.evil.example"] }] }),
        json!({ "url": "evil.example/path" }),
        json!({ "url": "//evil.example/path" }),
        json!({ "baseUrl": "evil.example:80" }),
        json!({ "host": "evil.example" }),
        json!({ "host": "Evil.Example.:443" }),
        json!({ "hostname": "x.evil.example" }),
        json!({ "server": { "name": "evil.example" } }),
        json!({ "hosts": [{ "name": "evil.example:443", "weight": 1 }] }),
        json!({ "url": "http://[::1]:8080/" }),
        json!({ "url": "http://[FE80::1]/" }),
        json!({ "host": "::1" }),
        json!({ "host": "[::1]:80" }),
    ];
    for arguments in matching {
        check(&evil, "deny", arguments, true);
    }
    let others = [
        json!({ "url": "https://good.example/evil.example" }),
        json!({ "url": "https://evil.example.good.example/" }),
        json!({ "url": "https://notevil.example/" }),
        json!({ "url": "https://evil.example@good.example/" }),
        json!({ "text": "see https://evil.example" }),
        json!({ "text": "evil.example" }),
        json!({ "url": "http://[::2]/" }),
        json!({ "uri": "/relative" }),
        json!({}),
    ];
    for arguments in others {
        check(&evil, "deny", arguments, false);
    }
}

#[test]
fn a_rule_that_allows_a_host_must_cover_all() {
    let good = json!({ "host": "good.example" });
    let allowed = [
        (json!({ "url": "https://good.example/x" }), true),
        (json!({ "url": "https://good.example\\@evil.example" }), false),
        (json!({ "url": "https://good.example/x", "callback": "https://evil.example" }), false),
        (json!({ "url": "https://good.example/x", "host": "evil.example" }), false),
        (json!({ "note": "nothing to see" }), false),
    ];
    for (arguments, applies) in allowed {
        check(&good, "allow", arguments, applies);
    }
}

#[test]
fn argument_matchers() {
    let cases = [
        (json!({ "mode": { "equals": "force" } }), json!({ "mode": "force" }), true),
        (json!({ "mode": { "equals": "force" } }), json!({ "mode": "Force" }), false),
        (json!({ "mode": { "equals": "force" } }), json!({}), false),
        (json!({ "n": { "equals": 1 } }), json!({ "n": 1.0 }), true),
        (json!({ "n": { "equals": [1, { "a": 2 }] } }), json!({ "n": [1.0, { "a": 2.0 }] }), true),
        (json!({ "n": { "equals": 1 } }), json!({ "n": "1" }), false),
        (json!({ "n": { "equals": null } }), json!({ "n": null }), true),
        (json!({ "n": { "equals": null } }), json!({ "n": 5 }), false),
        (json!({ "n": { "oneOf": [1, 2] } }), json!({ "n": 2.0 }), true),
        (json!({ "n": { "oneOf": [1, 2] } }), json!({ "n": 3 }), false),
        (json!({ "n": { "oneOf": [] } }), json!({ "n": 3 }), false),
        (json!({ "s": { "matches": "drop *" } }), json!({ "s": "DROP table" }), true),
        (json!({ "s": { "matches": "drop *" } }), json!({ "s": "drop\ntable" }), false),
        (json!({ "s": { "matches": "drop*" } }), json!({ "s": "drop\ntable" }), true),
        (json!({ "s": { "matches": "drop*" } }), json!({ "s": 5 }), false),
        (json!({ "n": { "greaterThan": 10 } }), json!({ "n": 10 }), false),
        (json!({ "n": { "greaterThan": 10 } }), json!({ "n": 10.5 }), true),
        (json!({ "n": { "greaterThan": 10 } }), json!({ "n": "11" }), false),
        (json!({ "x": { "present": true } }), json!({ "x": null }), true),
        (json!({ "x": { "present": true } }), json!({}), false),
        (json!({ "x": { "present": false } }), json!({}), true),
        (json!({ "x": { "present": false } }), json!({ "x": 1 }), false),
        (json!({ "x": {} }), json!({ "x": 1 }), true),
        (json!({ "x": {} }), json!({}), false),
        (json!({ "a.b": { "equals": 1 } }), json!({ "a": { "b": 1 } }), true),
        (json!({ "a.1.b": { "equals": 1 } }), json!({ "a": [0, { "b": 1 }] }), true),
        (json!({ "a.9": { "equals": 1 } }), json!({ "a": [1] }), false),
        (json!({ "a.b": { "equals": 1 } }), json!({ "a": 1 }), false),
        (json!({ "a.b": { "equals": 1 } }), json!({ "a": [{ "b": 1 }] }), true),
        (json!({ "a.b.c": { "equals": 1 } }), json!({ "a": [{ "b": [{ "c": 1 }] }] }), true),
        (json!({ "a.b.c": { "equals": 1 } }), json!({ "a": { "b.c": 1 } }), true),
        (json!({ "s": { "matches": "*.pem" } }), json!({ "s": ["a.pem"] }), true),
        (json!({ "s": { "matches": "*.pem" } }), json!({ "s": { "x": [{ "y": "a.pem" }] } }), true),
        (json!({ "n": { "greaterThan": 10 } }), json!({ "n": [[11]] }), true),
        (json!({ "n": { "equals": 1 } }), json!({ "n": [] }), false),
        (json!({ "a.b": { "equals": 1 } }), json!({ "a.b": 1 }), true),
        (json!({ "x": { "equals": 1 }, "y": { "equals": 2 } }), json!({ "x": 1, "y": 3 }), false),
        (json!({ "n": { "equals": 5, "greaterThan": 9 } }), json!({ "n": 5 }), false),
    ];
    for (matchers, arguments, applies) in cases {
        check(&json!({ "arguments": matchers }), "deny", arguments.clone(), applies);
        check(&json!({ "arguments": matchers }), "allow", arguments, applies);
    }
}

#[test]
fn a_dotted_argument_does_not_hide_a_nested_one() {
    let when = json!({ "arguments": { "a.b": { "equals": "danger" } } });
    let both = json!({ "a.b": "harmless", "a": { "b": "danger" } });
    check(&when, "deny", both.clone(), true);
    check(&when, "allow", both, false);
}

#[test]
fn of_several_values_one_is_enough_to_deny_and_all_must_be_allowed() {
    let when = json!({ "arguments": { "to.name": { "matches": "*@good.example" } } });
    let mixed = json!({ "to": [{ "name": "a@good.example" }, { "name": ["b@evil.example"] }] });
    check(&when, "deny", mixed.clone(), true);
    check(&when, "allow", mixed, false);
}

#[test]
fn size_over_is_strictly_over() {
    let arguments = json!({ "x": "1234" });
    let size = arguments.to_string().len();
    check(&json!({ "sizeOver": size - 1 }), "deny", arguments.clone(), true);
    check(&json!({ "sizeOver": size }), "deny", arguments, false);
}

#[test]
fn a_decision_carries_reason_and_risk() {
    let rules = policy(
        "allow",
        &json!([{ "id": "r", "action": "*", "decision": "deny", "riskTags": ["delete", "batch"], "reason": "no" }]),
    );
    let decision = decided(&rules, &call(json!({})));
    assert_eq!(decision.reason, "no");
    assert_eq!(json!(decision.risk_tags), json!(["delete", "batch"]));
}

#[test]
fn bad_policies_are_refused() {
    let rule = |extra: Value| {
        let mut rule = json!({ "id": "r", "action": "*", "decision": "deny" });
        rule.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({ "version": "1.0", "rules": [rule] })
    };
    let long = "x".repeat(1025);
    let cases = [
        (json!({}), "version"),
        (json!([]), "malformed: invalid"),
        (json!({ "version": "2.0" }), "`2.0` is unknown"),
        (json!({ "version": 1 }), "malformed"),
        (json!({ "version": "1.0", "rule": [] }), "unknown field `rule`"),
        (json!({ "version": "1.0", "defaults": { "fall": "deny" } }), "unknown field `fall`"),
        (json!({ "version": "1.0", "defaults": { "fallback": "maybe" } }), "maybe"),
        (rule(json!({ "effect": "deny" })), "unknown field `effect`"),
        (rule(json!({ "when": { "paths": "x" } })), "unknown field `paths`"),
        (rule(json!({ "when": { "arguments": { "x": { "is": 1 } } } })), "unknown field `is`"),
        (rule(json!({ "action": "" })), "1 to 1024"),
        (rule(json!({ "action": long.as_str() })), "1 to 1024"),
        (rule(json!({ "when": { "path": long.as_str() } })), "1 to 1024"),
        (rule(json!({ "when": { "host": [] } })), "at least one pattern"),
        (rule(json!({ "when": { "toolId": null } })), "malformed"),
        (rule(json!({ "decision": "allow_all" })), "allow_all"),
        (rule(json!({ "riskTags": ["scary"] })), "malformed: `rules[0].riskTags[0]`: unknown"),
        (
            json!({ "version": "1.0", "rules": [{ "action": "*", "decision": "deny" }] }),
            "missing field `id`",
        ),
        (
            json!({ "version": "1.0", "rules": [{ "id": "r", "action": "*" }] }),
            "missing field `decision`",
        ),
    ];
    for (file, hint) in cases {
        let error = Rules::from_value(file.clone()).unwrap_err().to_string();
        assert!(error.contains(hint), "{file}: {error}");
    }
    let twice = json!({ "version": "1.0", "rules": [
        { "id": "r", "action": "a", "decision": "deny" }, { "id": "r", "action": "b", "decision": "allow" }] });
    assert!(matches!(Rules::from_value(twice), Err(RulesError::DuplicateRule(id)) if id == "r"));
    let many: Vec<Value> = (0..10_001)
        .map(|n| json!({ "id": n.to_string(), "action": "*", "decision": "deny" }))
        .collect();
    assert!(matches!(
        Rules::from_value(json!({ "version": "1.0", "rules": many })),
        Err(RulesError::TooMany)
    ));
}

#[test]
fn patterns_have_no_regex_in_them() {
    for (pattern, text, matches) in [
        ("a.c", "abc", false),
        ("a.c", "a.c", true),
        ("(a|b)", "a", false),
        ("[ab]", "a", false),
        ("a+", "aa", false),
        ("^a$", "a", false),
        ("\\d", "5", false),
        ("*a*a*a*a*a*a*a*a*b", &"a".repeat(500), false),
    ] {
        assert_eq!(Pattern::new(pattern).unwrap().matches(text), matches, "{pattern} {text}");
    }
}

#[test]
fn the_schema_for_editors_describes_the_file() {
    let schema = Rules::json_schema();
    assert!(schema["properties"]["rules"].is_object());
    let validator = jsonschema::validator_for(&schema).unwrap();
    let good = json!({ "version": "1.0", "rules": [
        { "id": "r", "action": "*", "when": { "path": ["/a", "/b"], "toolId": "x:*" }, "decision": "deny" }] });
    assert!(validator.is_valid(&good));
    assert!(!validator.is_valid(&json!({ "version": "1.0", "rules": [{ "id": "r" }] })));
}

/// A rule about `**` covers the top folder and the folder that it names.
#[test]
fn two_stars_are_any_folder_and_none() {
    for (pattern, path, matches) in [
        ("**/*.pem", "key.pem", true),
        ("**/*.pem", "/key.pem", true),
        ("**/*.pem", "a/b/key.pem", true),
        ("**/*.pem", "a/key.pem.txt", false),
        ("**/.ssh/**", ".ssh/id_rsa", true),
        ("**/.ssh/**", "home/.ssh/id_rsa", true),
        ("**/.ssh/**", "home/.ssh", true),
        ("**/.ssh/**", "home/.sshx/id", false),
        ("/etc/**", "/etc", true),
        ("/etc/**", "/etc/passwd", true),
        ("/etc/**", "/etcetera", false),
        ("a/*", "a/b/c", false),
        ("a/**/c", "a/c", true),
        ("a/**/c", "a/b/b/c", true),
        ("a/**/c", "abc", false),
    ] {
        let rules = Rules::from_value(
            json!({ "version": "1.0", "defaults": { "fallback": "allow" }, "rules": [
            { "id": "r", "action": "*", "when": { "path": pattern }, "decision": "deny" }] }),
        );
        let arguments = json!({ "path": path });
        let request = PolicyRequest {
            tool_id: &ToolId::new(&SourceId::new("s").unwrap(), "t").unwrap(),
            action: None,
            claimed: None,
            principal: &Principal::local(),
            lineage: None,
            arguments: arguments.as_object().unwrap(),
            fits: true,
            size: 0,
        };
        let denied = decide(&rules.unwrap(), &request).decision == Verdict::Deny;
        assert_eq!(denied, matches, "{pattern} on {path}");
    }
}

/// What a server claims of itself may tighten, never loosen.
#[test]
fn claimed_actions_match_only_rules_that_do_not_allow() {
    for (decision, wanted) in [
        ("allow", Verdict::Deny),
        ("allow_with_confirm", Verdict::AllowWithConfirm),
        ("deny", Verdict::Deny),
    ] {
        let rules = Rules::from_value(json!({ "version": "1.0", "rules": [
            { "id": "r", "action": "connector.read", "decision": decision }] }));
        let request = PolicyRequest {
            tool_id: &ToolId::new(&SourceId::new("s").unwrap(), "t").unwrap(),
            action: None,
            claimed: Some("connector.read"),
            principal: &Principal::local(),
            lineage: None,
            arguments: &serde_json::Map::new(),
            fits: true,
            size: 0,
        };
        assert_eq!(decide(&rules.unwrap(), &request).decision, wanted, "{decision}");
    }
}

#[test]
fn arguments_that_can_be_read_in_several_ways_meet_the_strictest_reading() {
    let conditions = [
        json!({ "arguments": { "force": { "equals": true } } }),
        json!({ "path": "/etc/**" }),
        json!({ "host": "internal" }),
    ];
    for when in conditions {
        for (verdict, wanted) in [
            ("deny", Verdict::Deny),
            ("allow_with_confirm", Verdict::AllowWithConfirm),
            ("allow", Verdict::AllowWithConfirm),
        ] {
            let fallback = if verdict == "allow" { "allow_with_confirm" } else { "allow" };
            let rule = json!({ "id": "r", "action": "*", "when": when, "decision": verdict });
            let rules = Rules::from_value(
                json!({ "version": "1.0", "defaults": { "fallback": fallback }, "rules": [rule] }),
            );
            let arguments = json!({ "force": "true", "path": "[\"/etc/passwd\"]" });
            let request = PolicyRequest {
                tool_id: &ToolId::new(&SourceId::new("fs").unwrap(), "write").unwrap(),
                action: None,
                claimed: None,
                principal: &Principal::local(),
                lineage: None,
                arguments: arguments.as_object().unwrap(),
                fits: false,
                size: 0,
            };
            assert_eq!(decide(&rules.unwrap(), &request).decision, wanted, "{verdict} {when}");
        }
    }
}
