//! Registrations, revisions and names.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::model::{Capability, McpToolSpec, SourceId, ToolId, ToolOutput};
use crate::testing::{FakeSource, caller, run_of, tool};

fn source_of(id: &str, tools: Vec<McpToolSpec>) -> Arc<FakeSource> {
    FakeSource::new(id, tools, |_, _| Ok(ToolOutput::text("ok")))
}

fn flat() -> SourceTerms {
    SourceTerms { naming: Naming::Flat, ..SourceTerms::default() }
}

fn plain(names: &[&str]) -> Vec<McpToolSpec> {
    names.iter().map(|name| tool(name, &Value::Null)).collect()
}

fn put(
    registry: &Registry,
    id: &str,
    tools: Vec<McpToolSpec>,
    terms: SourceTerms,
    origin: Origin,
) -> Result<Vec<BadTool>, RegistrationError> {
    let source = source_of(id, tools);
    registry.replace(Registration { manifest: source.describe(), terms, origin, source })
}

fn discover(registry: &Registry, id: &str, names: &[&str]) -> Vec<BadTool> {
    put(registry, id, plain(names), SourceTerms::default(), Origin::Discovered).unwrap()
}

fn sid(id: &str) -> SourceId {
    SourceId::new(id).unwrap()
}

fn wires(registry: &Registry) -> Vec<String> {
    registry.snapshot().entries().map(|entry| entry.wire.to_string()).collect()
}

#[test]
fn entries_are_ordered_by_source_then_name_whatever_the_order_of_arrival() {
    let (one, two) = (Registry::default(), Registry::default());
    discover(&one, "b", &["z", "a", "M"]);
    discover(&one, "a", &["y", "x"]);
    discover(&two, "a", &["x", "y"]);
    discover(&two, "b", &["M", "a", "z"]);
    let ids = |registry: &Registry| -> Vec<String> {
        registry.snapshot().entries().map(|entry| entry.id.to_string()).collect()
    };
    assert_eq!(ids(&one), ["a:x", "a:y", "b:M", "b:a", "b:z"]);
    assert_eq!(ids(&one), ids(&two));
    let definitions = |registry: &Registry| -> Vec<String> {
        registry.snapshot().entries().map(|entry| entry.definition.clone()).collect()
    };
    assert_eq!(definitions(&one), definitions(&two));
}

#[test]
fn names_that_are_no_names_are_replaced_or_refused() {
    let long = "x".repeat(129);
    let bad = ["", "a b", "a/b", "a:b", long.as_str(), "a\nb", "é", "-a", ".a", "a\u{0}"];
    for name in bad {
        let registry = Registry::default();
        assert_eq!(discover(&registry, "s", &["good", name]), [], "{name:?}");
        let before = wires(&registry);
        assert_eq!(before.len(), 2, "{name:?}");
        let declared = put(&registry, "t", plain(&["good", name]), flat(), Origin::Declared);
        let Err(RegistrationError::Refused { faults, .. }) = declared else { panic!("{name:?}") };
        assert_eq!(faults.len(), 1, "{name:?}");
        assert!(faults[0].reason.contains("is not a valid tool name"), "{}", faults[0].reason);
        assert!(!faults[0].to_string().contains(['\n', '\0']), "nothing hides in the message");
        assert_eq!(wires(&registry), before, "nothing of it took effect");
    }
}

#[test]
fn collisions_reject_the_whole_and_name_every_conflict_and_holder() {
    let registry = Registry::default();
    put(&registry, "one", plain(&["read", "write"]), flat(), Origin::Declared).unwrap();
    let revision = registry.snapshot().revision();
    let taken = put(&registry, "two", plain(&["new", "READ", "wr1te"]), flat(), Origin::Declared);
    let Err(RegistrationError::Refused { taken: conflicts, faults }) = taken else {
        panic!("taken")
    };
    let found: Vec<(String, String)> =
        conflicts.iter().map(|c| (c.tool.clone(), c.holder.to_string())).collect();
    let expected = [("two:READ", "one:read"), ("two:wr1te", "one:write")];
    assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let text = RegistrationError::Refused { faults, taken: conflicts }.to_string();
    assert!(text.contains("`two:READ` wants the name `READ`, which `one:read` holds"), "{text}");
    assert_eq!(wires(&registry), ["read", "write"]);
    assert_eq!(registry.snapshot().revision(), revision);
    // Qualified names do not collide, and the holder may come again.
    put(&registry, "two", plain(&["READ"]), SourceTerms::default(), Origin::Discovered).unwrap();
    put(&registry, "one", plain(&["read"]), flat(), Origin::Declared).unwrap();
    assert_eq!(wires(&registry), ["read", "two__READ"]);
}

#[test]
fn a_flat_name_can_not_imitate_a_qualified_one() {
    let registry = Registry::default();
    discover(&registry, "bank", &["pay"]);
    for name in ["bank__pay", "BANK__PAY", "bank--pay", "bank_-pay"] {
        let taken = put(&registry, "evil", plain(&[name]), flat(), Origin::Discovered);
        assert!(matches!(taken, Err(RegistrationError::Refused { .. })), "{name}");
    }
}

#[test]
fn twins_within_one_source() {
    for (a, b) in
        [("Read", "read"), ("read-file", "read_file"), ("fi1e", "file"), ("a.b", "a_b"), ("x", "x")]
    {
        let registry = Registry::default();
        let left_out = discover(&registry, "s", &[a, b]);
        if a == b {
            assert_eq!(left_out.len(), 1, "{a} {b}");
            assert!(left_out[0].reason.contains("clashes with"), "{}", left_out[0].reason);
        } else {
            assert_eq!(left_out, [], "one of them gets a longer name");
            assert_eq!(registry.snapshot().entries().count(), 2);
        }
        let declared = put(&registry, "t", plain(&[a, b]), flat(), Origin::Declared);
        assert!(matches!(declared, Err(RegistrationError::Refused { .. })), "{a} {b}");
    }
}

#[test]
fn what_a_declared_manifest_must_have_and_a_discovered_one_need_not() {
    let no_description: McpToolSpec =
        serde_json::from_value(json!({ "name": "a", "inputSchema": { "type": "object" } }))
            .unwrap();
    let blank = McpToolSpec { description: " \n".to_owned(), ..no_description.clone() };
    let long = McpToolSpec { description: "x".repeat(16 * 1024 + 1), ..no_description.clone() };
    let mut odd = tool("a", &Value::Null);
    odd.rest.insert("icons".to_owned(), json!([{ "src": "data:," }, {}]));
    let cases = [
        (odd, "`icons[1]` has no `src`", true),
        (tool("a", &json!({ "colour": "red" })), "annotation `colour` is not supported", true),
        (
            tool(
                "a",
                &json!({ "title": "T", "readOnlyHint": true, "destructiveHint": false,
            "idempotentHint": true, "openWorldHint": true }),
            ),
            "",
            true,
        ),
        (no_description, "`description` is missing", true),
        (blank, "`description` is missing", true),
        (long, "`description` is longer", false),
        (tool("a", &json!({ "policyAction": "rm.rf" })), "`rm.rf`, which is not known", false),
        (tool("a", &json!({ "policyAction": "file.read" })), "", true),
        (tool("a", &json!({ "requiredScopes": ["x"], "category": "core" })), "", true),
    ];
    for (spec, problem, discovered_passes) in cases {
        let registry = Registry::default();
        let shown = format!("{:?}", spec.annotations);
        match put(&registry, "s", vec![spec.clone()], flat(), Origin::Declared) {
            Ok(_) => assert_eq!(problem, "", "{shown}"),
            Err(error) => {
                assert!(
                    !problem.is_empty() && error.to_string().contains(problem),
                    "{shown}: {error}"
                );
            }
        }
        let left_out =
            put(&registry, "d", vec![spec], SourceTerms::default(), Origin::Discovered).unwrap();
        assert_eq!(left_out.is_empty(), discovered_passes, "{shown}");
    }
}

#[test]
fn require_action_refuses_a_tool_without_one_unless_the_operator_gives_it() {
    let mut terms = SourceTerms { require_action: true, ..SourceTerms::default() };
    let registry = Registry::default();
    let specs =
        || vec![tool("bare", &Value::Null), tool("named", &json!({ "policyAction": "file.read" }))];
    let left_out = put(&registry, "s", specs(), terms.clone(), Origin::Discovered).unwrap();
    assert_eq!(left_out.len(), 1);
    assert!(
        left_out[0].reason.contains("`require_policy_action` is set"),
        "{}",
        left_out[0].reason
    );
    let own = ToolTerms { policy_action: Some("file.write".to_owned()), ..ToolTerms::default() };
    terms.tools.insert("bare".to_owned(), own);
    assert!(put(&registry, "s", specs(), terms, Origin::Discovered).unwrap().is_empty());
}

#[test]
fn a_server_may_tighten_and_the_operator_decides() {
    let registry = Registry::default();
    let caps = |list: &[&str]| -> Vec<Capability> {
        list.iter().map(|c| Capability::new(c).unwrap()).collect()
    };
    let mut terms = SourceTerms { capabilities: caps(&["base"]), ..SourceTerms::default() };
    let off = ToolTerms { requires_confirmation: Some(false), ..ToolTerms::default() };
    terms.tools.insert("asks".to_owned(), off);
    let own =
        ToolTerms { capabilities: Some(caps(&["own"])), idempotent: true, ..ToolTerms::default() };
    terms.tools.insert("own".to_owned(), own);
    terms.tools.insert("gone".to_owned(), ToolTerms { disabled: true, ..ToolTerms::default() });
    let specs = vec![
        tool("asks", &json!({ "requiresConfirmation": true })),
        tool("own", &json!({ "requiredScopes": ["own", "extra"], "policyAction": "file.write" })),
        tool(
            "lies",
            &json!({ "readOnlyHint": true, "idempotentHint": true, "requiresConfirmation": false }),
        ),
        tool("gone", &Value::Null),
    ];
    put(&registry, "s", specs, terms, Origin::Discovered).unwrap();
    let snapshot = registry.snapshot();
    let entry = |name: &str| snapshot.get(&ToolId::new(&sid("s"), name).unwrap());
    assert!(entry("gone").is_none());
    let (asks, own, lies) = (entry("asks").unwrap(), entry("own").unwrap(), entry("lies").unwrap());
    assert!(asks.confirm, "a tool's own demand stays");
    assert_eq!(own.requires, caps(&["extra", "file.write", "own"]));
    assert!(own.idempotent);
    assert_eq!(lies.requires, caps(&["base"]));
    assert!(!lies.idempotent, "a server's hint does not make a retry safe");
}

/// The operator's own definition of a tool holds over what its server says, which may tighten it further.
#[test]
fn an_operators_definition_holds_over_what_is_discovered() {
    let foreign = |name: &str, said: Value| {
        McpToolSpec::foreign(json!({
            "name": name,
            "description": "the server's",
            "title": "Title",
            "inputSchema": { "type": "object" },
            "annotations": said,
        }))
        .unwrap()
    };
    let strict = json!({ "type": "object", "properties": { "n": { "maximum": 3 } } });
    let declared = |name: &str, annotations: Value| ToolTerms {
        declared: Some(McpToolSpec { input_schema: strict.clone(), ..tool(name, &annotations) }),
        ..ToolTerms::default()
    };
    let mut terms = SourceTerms::default();
    let demands = json!({ "requiresConfirmation": true, "requiredScopes": ["own"], "policyAction": "file.write" });
    terms.tools.insert("held".to_owned(), declared("held", demands));
    terms.tools.insert("bare".to_owned(), declared("bare", json!({})));
    terms.tools.insert("gone".to_owned(), declared("gone", json!({})));
    let said = json!({ "readOnlyHint": true, "requiresConfirmation": false, "requiredScopes": ["theirs"] });
    let specs =
        vec![foreign("held", said.clone()), foreign("bare", said), foreign("other", json!({}))];
    let registry = Registry::default();
    let left_out = put(&registry, "s", specs, terms, Origin::Discovered).unwrap();
    assert!(matches!(&left_out[..], [one] if one.tool == "gone"), "{left_out:?}");
    let snapshot = registry.snapshot();
    let entry = |name: &str| snapshot.get(&ToolId::new(&sid("s"), name).unwrap()).unwrap();
    let requires = |name: &str| {
        entry(name).requires.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let held = entry("held");
    assert!(held.confirm);
    assert_eq!(held.action.as_deref(), Some("file.write"));
    assert_eq!(requires("held"), "file.write own theirs");
    assert_eq!(held.listing["inputSchema"]["properties"], strict["properties"]);
    assert_eq!(held.listing["description"], tool("held", &Value::Null).description);
    assert_eq!(
        (&held.listing["title"], &held.listing["annotations"]["readOnlyHint"]),
        (&json!("Title"), &json!(true))
    );
    assert!(held.arguments.check(&json!({ "n": 4 })).is_err());
    // What the operator's definition does not demand is as it is without one.
    assert!(!entry("bare").confirm && !entry("other").confirm);
    assert_eq!(requires("bare"), "source.s theirs");
    assert_eq!(requires("other"), "source.s");
    assert_eq!(entry("other").listing["description"], "the server's");
}

/// The annotations of a server, and what they amount to: confirmation, scopes, a claimed action.
type Said = (Value, bool, &'static [&'static str], Option<&'static str>);

#[test]
fn what_a_server_says_tightens_unless_the_operator_ignores_it_and_never_opens_anything() {
    let said: [Said; 8] = [
        (json!({ "category": "input", "readOnlyHint": false }), false, &[], None),
        (
            json!({ "requiresConfirmation": true, "requiredScopes": ["disk"] }),
            true,
            &["disk"],
            None,
        ),
        (json!({ "requiresConfirmation": "yes", "requiredScopes": "disk" }), false, &[], None),
        (json!({ "requiredScopes": ["public", 7, "", "disk"] }), false, &["disk"], None),
        (json!({ "policyAction": "no.such", "concurrency": "exclusive" }), false, &[], None),
        (json!({ "policyAction": "file.write" }), false, &["file.write"], Some("file.write")),
        (json!({ "anything": { "nested": ["else"] }, "🙂": 1 }), false, &[], None),
        (json!({}), false, &[], None),
    ];
    let definition = |index: usize, annotations: &Value| json!({ "name": format!("t{index}"), "inputSchema": { "type": "object" }, "annotations": annotations });
    let all = said.iter().enumerate();
    let specs: Vec<McpToolSpec> = all
        .map(|(index, (said, ..))| McpToolSpec::foreign(definition(index, said)).unwrap())
        .collect();
    for annotations in [ServerAnnotations::Tighten, ServerAnnotations::Ignore] {
        let registry = Registry::default();
        let terms = SourceTerms { annotations, ..SourceTerms::default() };
        let left_out = put(&registry, "s", specs.clone(), terms, Origin::Discovered).unwrap();
        assert_eq!(left_out, []);
        let snapshot = registry.snapshot();
        assert_eq!(snapshot.entries().count(), said.len());
        let counts = annotations == ServerAnnotations::Tighten;
        for (entry, (said, confirm, scopes, claimed)) in snapshot.entries().zip(&said) {
            assert_eq!(entry.listing["annotations"], *said);
            let scopes = scopes.iter().filter(|_| counts).map(|it| Capability::new(it).unwrap());
            let mut requires: Vec<Capability> = scopes.collect();
            requires.push(Capability::of_source(&sid("s")));
            requires.sort();
            assert_eq!(entry.requires, requires, "{said}");
            assert_eq!(entry.confirm, *confirm && counts, "{said}");
            let claimed = claimed.filter(|_| counts);
            assert_eq!((&entry.action, entry.claimed.as_deref()), (&None, claimed), "{said}");
            let demands = entry.demands.as_ref();
            assert!(demands.is_none_or(|demands| demands.in_force == counts), "{said}");
            assert!(entry.exclusive.is_none());
        }
    }
}

#[test]
fn hints_that_clients_refuse_are_not_passed_on() {
    let read = |annotations: Value| {
        let spec = McpToolSpec::foreign(
            json!({ "name": "t", "description": null, "inputSchema": {}, "annotations": annotations }),
        );
        serde_json::to_value(spec.unwrap()).unwrap().get("annotations").cloned()
    };
    let mixed = json!({ "title": 7, "readOnlyHint": "yes", "idempotentHint": true, "x": null });
    assert_eq!(read(mixed), Some(json!({ "idempotentHint": true, "x": null })));
    for nothing in [json!(null), json!("text"), json!([1])] {
        assert_eq!(read(nothing), None);
    }
}

/// The server's capabilities and the tool's own, what the tool says, who wrote that, and what is required.
type Access<'a> = (&'a [&'a str], Option<&'a [&'a str]>, &'a Value, Origin, &'a [&'a str]);

#[test]
fn what_nobody_restricts_is_for_who_may_use_its_source() {
    let scoped = json!({ "requiredScopes": ["scope"] });
    let claimed = json!({ "policyAction": "file.read" });
    let open = json!({ "requiredScopes": ["public"] });
    let cases: [Access<'_>; 14] = [
        (&[], None, &Value::Null, Origin::Discovered, &["source.s"]),
        (&[], None, &Value::Null, Origin::Declared, &["source.s"]),
        (&[], None, &Value::Null, Origin::Admitted, &["source.s"]),
        (&["public"], None, &Value::Null, Origin::Discovered, &[]),
        (&["public"], None, &Value::Null, Origin::Admitted, &[]),
        (&["base"], None, &Value::Null, Origin::Declared, &["base"]),
        (&["base"], Some(&["public"]), &Value::Null, Origin::Discovered, &[]),
        (&["public"], Some(&["own"]), &Value::Null, Origin::Discovered, &["own"]),
        // A running server may tighten, but can't name what many callers hold instead.
        (&[], None, &scoped, Origin::Discovered, &["scope", "source.s"]),
        (&[], None, &claimed, Origin::Discovered, &["file.read", "source.s"]),
        (&[], None, &open, Origin::Discovered, &["source.s"]),
        (&[], None, &open, Origin::Admitted, &["source.s"]),
        (&[], None, &scoped, Origin::Declared, &["scope"]),
        (&["public"], None, &scoped, Origin::Admitted, &["scope"]),
    ];
    let caps = |list: &[&str]| -> Vec<Capability> {
        list.iter().map(|c| Capability::new(c).unwrap()).collect()
    };
    for (server, own, said, origin, expected) in cases {
        let mut terms = SourceTerms { capabilities: caps(server), ..SourceTerms::default() };
        let own = ToolTerms { capabilities: own.map(caps), ..ToolTerms::default() };
        terms.tools.insert("t".to_owned(), own.clone());
        let registry = Registry::default();
        put(&registry, "s", vec![tool("t", said)], terms, origin).unwrap();
        let snapshot = registry.snapshot();
        let entry = snapshot.get(&ToolId::new(&sid("s"), "t").unwrap()).unwrap();
        assert_eq!(entry.requires, caps(expected), "{server:?} {own:?} {said} {origin:?}");
    }
}

#[test]
fn revisions_grow_only_on_real_change() {
    let registry = Registry::default();
    let mut changes = registry.subscribe();
    let mut step = |name: &str, changed: bool, act: &dyn Fn()| {
        let before = registry.snapshot().revision();
        act();
        assert_eq!(registry.snapshot().revision() > before, changed, "{name}");
        assert_eq!(changes.has_changed().unwrap(), changed, "{name}");
        changes.mark_unchanged();
    };
    step("nothing to mark", false, &|| registry.set_down(&sid("s")));
    step("nothing to remove", false, &|| registry.remove(&sid("s")));
    step("new", true, &|| drop(discover(&registry, "s", &["a", "b"])));
    step("the same", false, &|| drop(discover(&registry, "s", &["b", "a"])));
    step("one less", true, &|| drop(discover(&registry, "s", &["a"])));
    let described = McpToolSpec { description: "another".to_owned(), ..tool("a", &Value::Null) };
    step("described anew", true, &|| {
        drop(put(
            &registry,
            "s",
            vec![described.clone()],
            SourceTerms::default(),
            Origin::Discovered,
        ));
    });
    let terms =
        SourceTerms { capabilities: vec![Capability::new("x").unwrap()], ..SourceTerms::default() };
    step("other terms", true, &|| {
        drop(put(&registry, "s", vec![described.clone()], terms.clone(), Origin::Discovered));
    });
    step("down", true, &|| registry.set_down(&sid("s")));
    step("down again", false, &|| registry.set_down(&sid("s")));
    step("back", true, &|| {
        drop(put(&registry, "s", vec![described.clone()], terms.clone(), Origin::Discovered));
    });
    step("another", true, &|| drop(discover(&registry, "t", &["a"])));
    step("removed", true, &|| registry.remove(&sid("s")));
    step("removed again", false, &|| registry.remove(&sid("s")));
    step("empty", false, &|| drop(discover(&registry, "e", &[])));
}

#[test]
fn a_source_that_is_down_is_not_listed_but_resolved() {
    let registry = Registry::default();
    discover(&registry, "s", &["a"]);
    discover(&registry, "t", &["b"]);
    registry.set_down(&sid("s"));
    let snapshot = registry.snapshot();
    assert_eq!(snapshot.available().count(), 1);
    assert_eq!(snapshot.entries().count(), 2);
    assert!(matches!(snapshot.resolve("s__a", &caller("ann"), |_| true), Resolution::Found(_)));
    discover(&registry, "s", &["a"]);
    assert_eq!(registry.snapshot().available().count(), 2);
}

#[test]
fn names_are_looked_up_and_never_guessed() {
    let registry = Registry::default();
    discover(&registry, "s", &["only", "both", "a.b"]);
    discover(&registry, "t", &["both"]);
    put(&registry, "f", plain(&["flat", "s"]), flat(), Origin::Declared).unwrap();
    let snapshot = registry.snapshot();
    let found = |name: &str| match snapshot.resolve(name, &caller("ann"), |_| true) {
        Resolution::Found(entry) => entry.id.to_string(),
        Resolution::Ambiguous(list) => {
            list.iter().map(ToString::to_string).collect::<Vec<_>>().join("|")
        }
        Resolution::Unknown => "-".to_owned(),
    };
    let cases = [
        ("s:only", "s:only"),
        ("s__only", "s:only"),
        ("only", "s:only"),
        ("both", "s:both|t:both"),
        ("t:both", "t:both"),
        ("t__both", "t:both"),
        ("flat", "f:flat"),
        ("f:flat", "f:flat"),
        ("f__flat", "-"),
        ("a.b", "s:a.b"),
        ("s:a.b", "s:a.b"),
        ("s__a_b", "s:a.b"),
        ("s", "f:s"),
        ("", "-"),
        (":", "-"),
        ("s:", "-"),
        (":only", "-"),
        ("s:only:x", "-"),
        ("a:b:c", "-"),
        ("S:only", "-"),
        ("ONLY", "-"),
        ("only\0", "-"),
        ("only ", "-"),
        ("s::only", "-"),
    ];
    for (name, expected) in cases {
        assert_eq!(found(name), expected, "{name:?}");
    }
}

#[test]
fn a_bare_name_is_ambiguous_only_among_what_the_caller_sees() {
    let registry = Registry::default();
    for source in ["s", "t", "u"] {
        discover(&registry, source, &["x"]);
    }
    let snapshot = registry.snapshot();
    let seen = |visible: &[&str]| match snapshot
        .resolve("x", &caller("ann"), |e| visible.contains(&e.id.source().as_str()))
    {
        Resolution::Found(entry) => vec![entry.id.to_string()],
        Resolution::Ambiguous(list) => list.iter().map(ToString::to_string).collect(),
        Resolution::Unknown => Vec::new(),
    };
    assert_eq!(seen(&[]), Vec::<String>::new());
    assert_eq!(seen(&["t"]), ["t:x"]);
    assert_eq!(seen(&["s", "u"]), ["s:x", "u:x"], "and the hidden one is not a candidate");
}

/// Terms of tools with their own names, for an audience.
fn flat_for(audience: &Audience) -> SourceTerms {
    SourceTerms { audience: audience.clone(), ..flat() }
}

fn profile(name: &str) -> Audience {
    Audience::Profile(name.into())
}

#[test]
fn a_wire_name_is_unique_among_what_one_caller_can_be_shown() {
    use Audience::{Everyone, Runs};
    let cases = [
        (Everyone, Everyone, false),
        (Everyone, Runs, false),
        (Runs, Runs, false),
        (Everyone, profile("a"), false),
        (Runs, profile("a"), false),
        (profile("a"), profile("a"), false),
        (profile("a"), profile("b"), true),
    ];
    for (one, other, fits) in cases {
        for (first, second) in [(&one, &other), (&other, &one)] {
            for name in ["summarize", "SUMMAR1ZE"] {
                let registry = Registry::default();
                let tools = plain(&["summarize"]);
                put(&registry, "s", tools, flat_for(first), Origin::Declared).unwrap();
                let put = put(&registry, "t", plain(&[name]), flat_for(second), Origin::Declared);
                assert_eq!(put.is_ok(), fits, "{name} for {second:?} beside {first:?}");
                let Err(RegistrationError::Refused { taken, .. }) = put else { continue };
                assert_eq!(taken[0].holder.to_string(), "s:summarize");
            }
        }
    }
}

#[test]
fn a_name_for_everyone_is_held_by_the_tools_of_all_profiles() {
    let registry = Registry::default();
    for name in ["a", "b"] {
        let terms = flat_for(&profile(name));
        put(&registry, name, plain(&["summarize"]), terms, Origin::Declared).unwrap();
    }
    let refused = put(&registry, "s", plain(&["summarize"]), flat(), Origin::Declared);
    let Err(RegistrationError::Refused { taken, .. }) = refused else { panic!("taken") };
    let holders: Vec<String> = taken.iter().map(|taken| taken.holder.to_string()).collect();
    assert_eq!(holders, ["a:summarize", "b:summarize"]);
    registry.retire(&sid("a"));
    registry.retire(&sid("b"));
    put(&registry, "s", plain(&["summarize"]), flat(), Origin::Declared).unwrap();
    assert_eq!(wires(&registry), ["summarize"], "who is gone for good makes way");
}

#[test]
fn names_lead_to_tools_for_the_caller_alone() {
    let registry = Registry::default();
    let own = ToolTerms { audience: Some(Audience::Everyone), ..ToolTerms::default() };
    let terms =
        SourceTerms { tools: [("open".to_owned(), own)].into(), ..flat_for(&Audience::Runs) };
    put(&registry, "r", plain(&["spawn", "open"]), terms, Origin::Declared).unwrap();
    for name in ["a", "b"] {
        let terms = flat_for(&profile(name));
        put(&registry, name, plain(&["summarize"]), terms, Origin::Declared).unwrap();
    }
    discover(&registry, "z", &["summarize"]);
    let snapshot = registry.snapshot();
    let outside = caller("ann");
    let run = |profile: &str| run_of(&outside, profile, crate::model::Bounds::default());
    let child = run_of(&run("a"), "b", crate::model::Bounds::default());
    for (name, outside_, a, b, other) in [
        ("open", "r:open", "r:open", "r:open", "r:open"),
        ("spawn", "-", "r:spawn", "r:spawn", "r:spawn"),
        ("r:spawn", "-", "r:spawn", "r:spawn", "r:spawn"),
        // A tool for others leaves the name to what the caller can see.
        ("summarize", "z:summarize", "a:summarize", "b:summarize", "z:summarize"),
        ("a:summarize", "-", "a:summarize", "-", "-"),
        ("z__summarize", "z:summarize", "z:summarize", "z:summarize", "z:summarize"),
    ] {
        let found = |caller: &crate::model::Caller| match snapshot.resolve(name, caller, |_| true) {
            Resolution::Found(entry) => entry.id.to_string(),
            Resolution::Ambiguous(list) => format!("{list:?}"),
            Resolution::Unknown => "-".to_owned(),
        };
        let found = [&outside, &run("a"), &run("b"), &child, &run("other")].map(found);
        assert_eq!(found, [outside_, a, b, b, other], "{name}");
    }
}

#[test]
fn another_audience_is_another_revision() {
    let registry = Registry::default();
    for (audience, revision) in [(Audience::Runs, 1), (Audience::Runs, 1), (profile("a"), 2)] {
        put(&registry, "s", plain(&["x"]), flat_for(&audience), Origin::Declared).unwrap();
        assert_eq!(registry.snapshot().revision(), revision, "{audience:?}");
    }
}

#[test]
fn a_manifest_speaks_for_its_own_source_only() {
    let registry = Registry::default();
    discover(&registry, "bank", &["pay"]);
    let evil = source_of("evil", plain(&["pay"]));
    let mut manifest = evil.describe();
    manifest.server_id = sid("bank");
    let registration = Registration {
        manifest,
        terms: SourceTerms::default(),
        origin: Origin::Discovered,
        source: evil,
    };
    let refused = registry.replace(registration).unwrap_err();
    assert!(matches!(refused, RegistrationError::ForeignManifest { .. }), "{refused}");
    assert_eq!(wires(&registry), ["bank__pay"]);
}

#[test]
fn a_listing_shows_hidden_characters_and_the_hash_is_over_the_original() {
    let registry = Registry::default();
    let spec = |title: &str, description: &str| -> McpToolSpec {
        serde_json::from_value(json!({
            "name": "a", "title": title, "description": description,
            "inputSchema": { "properties": { "any": true, "none": false } },
            "_meta": { "k": 1 }, "icons": [] }))
        .unwrap()
    };
    let hostile = spec("T\u{1b}[2J\u{202e}", "hi\u{e0049}\u{200b}");
    put(&registry, "s", vec![hostile.clone()], SourceTerms::default(), Origin::Discovered).unwrap();
    let snapshot = registry.snapshot();
    let entry = snapshot.entries().next().unwrap();
    let listing = &entry.listing;
    assert_eq!(listing["name"], "s__a");
    assert_eq!(listing["title"], "T\\u{1b}[2J\\u{202e}");
    assert_eq!(listing["description"], "hi\\u{e0049}\\u{200b}");
    assert_eq!(listing["inputSchema"]["type"], "object");
    assert_eq!(listing["inputSchema"]["properties"], json!({ "any": {}, "none": { "not": {} } }));
    assert_eq!((&listing["_meta"], &listing["icons"]), (&json!({ "k": 1 }), &json!([])));
    assert_eq!(entry.definition, definition_hash(&sid("s"), &hostile));
    assert_ne!(entry.definition, definition_hash(&sid("s"), &spec("T", "hi")));
    assert_ne!(entry.definition, definition_hash(&sid("t"), &hostile));
}

#[test]
fn reading_never_waits_for_a_registration() {
    let registry = Arc::new(Registry::default());
    discover(&registry, "s", &["a"]);
    let writer = {
        let registry = Arc::clone(&registry);
        std::thread::spawn(move || {
            for round in 0..200 {
                let name = format!("t{}", round % 7);
                discover(&registry, "s", &["a", &name]);
            }
        })
    };
    while !writer.is_finished() {
        let snapshot = registry.snapshot();
        assert!(
            matches!(snapshot.resolve("s:a", &caller("ann"), |_| true), Resolution::Found(_)),
            "never half registered"
        );
        assert!(snapshot.entries().count() >= 1);
    }
    writer.join().unwrap();
}

/// What a model provider's API takes, for each of them.
#[test]
fn definitions_for_providers() {
    let source =
        FakeSource::new("s", vec![tool("a", &Value::Null)], |_, _| Ok(ToolOutput::text("x")));
    let registry = Registry::default();
    let registration = Registration {
        manifest: source.describe(),
        terms: SourceTerms::default(),
        origin: Origin::Discovered,
        source,
    };
    assert_eq!(registry.replace(registration).unwrap(), []);
    let snapshot = registry.snapshot();
    let entry = snapshot.entries().next().unwrap();
    let schema = json!({ "type": "object" });
    for (provider, wanted) in [
        (
            Provider::Anthropic,
            json!({ "name": "s__a", "description": "a tool", "input_schema": schema }),
        ),
        (
            Provider::Openai,
            json!({ "type": "function", "function": { "name": "s__a", "description": "a tool", "parameters": schema } }),
        ),
        (
            Provider::Gemini,
            json!({ "name": "s__a", "description": "a tool", "parametersJsonSchema": schema }),
        ),
    ] {
        assert_eq!(entry.definition_for(provider), wanted, "{provider:?}");
    }
}

#[test]
fn an_odd_output_schema_costs_a_running_server_no_tool() {
    let deep = (0..100).fold(json!({}), |inner, _| json!({ "items": inner }));
    let cases = [
        (json!({ "type": "object" }), true),
        (json!({}), true),
        (json!({ "type": "array", "items": { "type": "string" } }), true),
        (json!({ "type": "string" }), true),
        (json!({ "type": ["object", "null"] }), true),
        (json!({ "oneOf": [{ "type": "object" }, { "type": "array" }] }), true),
        (json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "integer" } } }), true),
        (json!(true), false),
        (json!(null), false),
        (json!([]), false),
        (json!({ "type": "nonsense" }), false),
        (json!({ "$ref": "https://example.com/schema" }), false),
        (json!({ "$ref": "#/nowhere" }), false),
        (json!({ "$schema": 7 }), false),
        (deep, false),
    ];
    for (schema, listed) in cases {
        let mut spec = tool("t", &Value::Null);
        spec.rest.insert("outputSchema".to_owned(), schema.clone());
        let registry = Registry::default();
        let register =
            |origin| put(&registry, "a", vec![spec.clone()], SourceTerms::default(), origin);
        assert_eq!(register(Origin::Discovered).unwrap(), [], "{schema}");
        let snapshot = registry.snapshot();
        let entry = snapshot.entries().next().unwrap();
        assert_eq!(entry.listing.get("outputSchema"), listed.then_some(&schema), "{schema}");
        assert_eq!(
            entry.spec.rest["outputSchema"], schema,
            "the definition stays as it was pinned"
        );
        assert_eq!(register(Origin::Declared).is_ok(), listed, "an author can mend it: {schema}");
    }
}
