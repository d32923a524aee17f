use std::collections::BTreeMap;
use std::path::Path;

use arc_swap::ArcSwap;
use drawgate_core::model::{CapabilityGrant, GrantScope};
use drawgate_core::policy::{ApprovalState, Expose};
use drawgate_core::redact::Redactor;
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use serde_json::json;

use super::*;
use crate::assemble::{Runtime, RuntimeOptions, Start, StateLocation};
use crate::config::Config;

async fn open(place: &Path) -> Runtime {
    let loaded = Config::parse("", &place.join("drawgate.toml")).unwrap();
    let options = RuntimeOptions {
        host: Host::new(Secrets::new(BTreeMap::<String, String>::new()), None).unwrap(),
        loaded: &loaded,
        state: StateLocation::Folder(place.join("data")),
        start: Start::Nothing,
        redactor: Arc::new(ArcSwap::from_pointee(Redactor::new([]))),
        embedder: None,
    };
    Runtime::open(options).await.unwrap()
}

fn new_agent(name: &str) -> NewAgent {
    let (capabilities, tools) = (Vec::new(), Vec::new());
    NewAgent { name: name.to_owned(), capabilities, tools, expose: Expose::default() }
}

fn new_grant(scope: &str) -> NewGrant {
    let (capability, scope) = ("file.read".to_owned(), scope.to_owned());
    NewGrant { capability, scope, lifetime_ms: Some(1000), expires_at: None, approval_id: None }
}

fn approved_grant(approval: &str) -> NewGrant {
    NewGrant { approval_id: Some(approval.to_owned()), ..new_grant("workspace") }
}

/// The kinds and principals of all events of acts.
async fn acts(runtime: &Runtime) -> Vec<(String, String)> {
    let events = runtime.audit().read(0, 1000).await.unwrap();
    let events = events.iter().map(|event| event.event().unwrap());
    let named = events.filter_map(|event| Some((event.kind.as_str().to_owned(), event.principal?)));
    named.collect()
}

#[tokio::test]
async fn the_audit_log_names_who_acted() {
    let place = tempfile::tempdir().unwrap();
    let runtime = open(place.path()).await;
    let operations = &runtime.operations;
    let actor = Principal::new("ada").unwrap();
    operations.add_agent(&actor, new_agent("bot")).await.unwrap();
    operations.rotate_agent(&actor, "bot").await.unwrap();
    let grant = operations.issue_grant(&actor, new_grant("user:bot")).await.unwrap();
    assert_eq!(grant.scope, Some(GrantScope::User(Principal::new("bot").unwrap())));
    operations.revoke_grant(&actor, &grant.grant_id).await.unwrap();
    operations.remove_agent(&actor, "bot").await.unwrap();
    let acts = acts(&runtime).await;
    let done: Vec<&str> =
        acts.iter().map(|(kind, _)| kind.as_str()).filter(|kind| *kind != "act_started").collect();
    assert_eq!(
        done,
        ["agent_added", "agent_rotated", "grant_issued", "grant_revoked", "agent_removed"]
    );
    assert!(acts.iter().all(|(_, principal)| principal == "ada"), "{acts:?}");

    let before = runtime.audit().head();
    assert!(operations.prune(&actor, Prune { before }).await.unwrap().removed > 0);
    assert!(self::acts(&runtime).await.contains(&("pruned".to_owned(), "ada".to_owned())));
    runtime.close().await;
}

#[tokio::test]
async fn errors_say_what_is_wrong_and_name_no_command() {
    let place = tempfile::tempdir().unwrap();
    let runtime = open(place.path()).await;
    let operations = &runtime.operations;
    let local = Principal::local();
    operations.add_agent(&local, new_agent("bot")).await.unwrap();
    let no_key = RemoveKeys { whose: None, fingerprint: Some("SHA256:none".to_owned()) };
    let none = RemoveKeys { whose: None, fingerprint: None };
    let errors = [
        operations.add_agent(&local, new_agent("bot")).await.err(),
        operations.add_agent(&local, new_agent("local")).await.err(),
        operations.add_agent(&local, new_agent("a b")).await.err(),
        operations.rotate_agent(&local, "nobody").await.err(),
        operations.remove_agent(&local, "nobody").await.err(),
        operations.issue_grant(&local, new_grant("user:nobody")).await.err(),
        operations.issue_grant(&local, new_grant("all")).await.err(),
        operations.issue_grant(&local, approved_grant("")).await.err(),
        operations.issue_grant(&local, approved_grant("a\nb")).await.err(),
        operations.revoke_grant(&local, "g_none").await.err(),
        operations.decide(&local, "none", ApprovalState::Denied).await.err(),
        operations.check_operator("guess").err(),
        operations.remove_keys(&local, no_key).await.err(),
        operations.remove_keys(&local, none).await.err(),
        operations.kick_pack(&local, "none").await.err(),
        operations.remove_artifact(&local, "abc").await.err(),
        operations.review("none").await.err(),
        operations.log_out(&local, "none").await.err(),
        operations.toolpack("None").await.err(),
    ];
    let texts: Vec<String> = errors.into_iter().map(|error| error.unwrap().to_string()).collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    there is an agent `bot` already
    `local` is the owner of the data folder; choose another name
    `a b` is not a valid agent name; use 1 to 64 of `a-z A-Z 0-9 _ - .`
    there is no agent `nobody`
    there is no agent `nobody`
    there is no agent `nobody`
    `all` is not a scope; use `workspace`, `user:NAME` or `session:ID`
    `` is not the id of an approval; use 1 to 128 visible ASCII characters without spaces
    `a\nb` is not the id of an approval; use 1 to 128 visible ASCII characters without spaces
    there is no grant `g_none`
    there is no approval `none`
    this is not the operator's token; it is in `admin.token` in the data folder
    there is no such key
    say which key: its fingerprint, or whose it is
    no pack `none` is connected
    there is no artifact `abc`
    there is no server `none`
    there is no login at `none`; it takes an MCP server with a `url` and without an `Authorization` header
    `None` is not the id of a toolpack; use up to 64 lower-case letters, digits, `-` and `_`, such as `github-cli`
    ");
    runtime.close().await;
}

#[test]
fn a_report_is_the_same_after_it_was_read() {
    let reports = [
        json!({
            "id": "a", "state": "ready", "since": 7, "server": "A 1", "tools": 2, "failures": 0,
            "diagnostics": { "z": 1, "a": [1.5, null] }, "fault": "gone", "requires": [[], ["file.read"]],
            "login": { "state": "lacking", "server": "a", "issuer": "https://i", "clientId": "c",
                "scopes": ["s"], "expiresAt": null, "renewable": true },
        }),
        json!({
            "id": "b", "state": "refused", "since": 7, "tools": 0,
            "leftOut": [{ "source_id": "b", "tool": "t", "reason": "r" }],
            "quarantined": [{ "kind": "tool", "name": "u", "reason": "changed" }],
            "problem": "p", "failures": 3, "diagnostics": null, "requires": [],
            "login": { "state": "needed" },
        }),
    ];
    for report in reports {
        let read: ServerReport = serde_json::from_value(report.clone()).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), report.to_string());
    }
}

#[tokio::test]
async fn plugins_get_grants_and_nobody_else_gets_their_names() {
    let place = tempfile::tempdir().unwrap();
    let runtime = open(place.path()).await;
    let operations = &runtime.operations;
    let local = Principal::local();
    let error = operations.add_agent(&local, new_agent("plugin.notes")).await.err().unwrap();
    assert!(error.to_string().contains("kept for plugins"), "{error}");
    let unknown = operations.issue_grant(&local, new_grant("user:plugin.notes")).await.unwrap_err();
    assert!(unknown.to_string().contains("there is no agent `plugin.notes`"), "{unknown}");
    let grant = operations.issue_grant(&local, new_grant("user:plugin.delegation")).await.unwrap();
    assert_eq!(grant.scope, Some(GrantScope::User(Principal::new("plugin.delegation").unwrap())));
    runtime.close().await;
}

#[tokio::test]
async fn a_grant_ends_at_the_earlier_of_two_times() {
    let place = tempfile::tempdir().unwrap();
    let runtime = open(place.path()).await;
    let far = 9_999_999_999_999;
    let ends = async |lifetime_ms, expires_at| {
        let new = NewGrant { lifetime_ms, expires_at, ..new_grant("workspace") };
        let grant = runtime.operations.issue_grant(&Principal::local(), new).await.unwrap();
        grant.expires_at
    };
    assert_eq!(ends(None, None).await, None);
    assert_eq!(ends(None, Some(far)).await, Some(far), "to the millisecond");
    assert!(ends(Some(1000), Some(far)).await.is_some_and(|end| end < far));
    assert_eq!(ends(Some(1000), Some(1)).await, Some(1));
    runtime.close().await;
}

#[tokio::test]
async fn a_grant_is_given_back_under_its_own_id_once() {
    let place = tempfile::tempdir().unwrap();
    let runtime = open(place.path()).await;
    let (operations, local) = (&runtime.operations, Principal::local());
    let lasting = NewGrant { lifetime_ms: None, ..approved_grant("a1") };
    let issued = operations.issue_grant(&local, lasting).await.unwrap();
    operations.revoke_grant(&local, &issued.grant_id).await.unwrap();
    let back = operations.restore_grant(&local, issued.clone()).await.unwrap();
    assert_eq!((&back, operations.grants().contains(&issued)), (&issued, true));
    let events = acts(&runtime).await.len();
    operations.restore_grant(&local, issued.clone()).await.unwrap();
    assert_eq!(acts(&runtime).await.len(), events, "it is there already");
    let other = CapabilityGrant { expires_at: Some(u64::MAX), ..issued.clone() };
    let taken = operations.restore_grant(&local, other).await.unwrap_err();
    assert!(taken.to_string().contains("another grant"), "{taken}");
    // Those of registrations come with them.
    for standing in operations.grants().into_iter().filter(|it| it.grant_id.contains(':')) {
        operations.restore_grant(&local, standing.clone()).await.unwrap();
        let elsewhere = CapabilityGrant { grant_id: "standing:eve:*".into(), ..standing };
        let refused = operations.restore_grant(&local, elsewhere).await.unwrap_err();
        assert!(refused.to_string().contains("not the id of a grant"), "{refused}");
    }
    runtime.close().await;
    drop(runtime);
    let again = open(place.path()).await;
    assert!(again.operations.grants().contains(&issued), "it is stored");
    again.close().await;
}
