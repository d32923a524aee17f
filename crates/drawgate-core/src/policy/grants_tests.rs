//! Who holds what, when.

use super::*;
use crate::model::Surface;
use crate::store::Write;
use crate::testing::TestStore;

const NOW: u64 = 1_000;

fn cap(text: &str) -> Capability {
    Capability::new(text).unwrap()
}

fn caps(list: &[&str]) -> Vec<Capability> {
    list.iter().map(|text| cap(text)).collect()
}

fn name(text: &str) -> Principal {
    Principal::new(text).unwrap()
}

fn who(text: &str, session: Option<&str>) -> Caller {
    Caller {
        principal: name(text),
        session: session.map(Into::into),
        surface: Surface::EMBEDDED,
        carried: Arc::default(),
        lineage: None,
    }
}

fn grant(id: &str, capability: &str) -> CapabilityGrant {
    CapabilityGrant {
        grant_id: id.into(),
        capability: cap(capability),
        issued_at: 0,
        expires_at: None,
        scope: None,
        approval_id: None,
    }
}

fn scoped(id: &str, capability: &str, scope: &str) -> CapabilityGrant {
    CapabilityGrant { scope: Some(scope.to_owned().try_into().unwrap()), ..grant(id, capability) }
}

async fn book(grants: Vec<CapabilityGrant>) -> Grants {
    let store = Arc::new(TestStore::default());
    for grant in &grants {
        store.commit(vec![Write::PutGrant(grant.clone())]).await.unwrap();
    }
    Grants::load(store, Vec::new()).await.unwrap()
}

fn ids(cover: &Cover) -> Vec<&str> {
    cover.grants.iter().map(AsRef::as_ref).collect()
}

#[tokio::test]
async fn scopes_decide_who_holds_a_grant() {
    let cases = [
        ("workspace", who("ann", None), true),
        ("workspace", who("bob", Some("s1")), true),
        ("user:ann", who("ann", None), true),
        ("user:ann", who("Ann", None), false),
        ("user:ann", who("ann2", None), false),
        ("session:s1", who("ann", Some("s1")), true),
        ("session:s1", who("bob", Some("s1")), true),
        ("session:s1", who("ann", Some("s2")), false),
        ("session:s1", who("ann", None), false),
    ];
    for (scope, caller, covered) in cases {
        let grants = book(vec![scoped("g", "file.read", scope)]).await;
        let found = grants.cover(&caller, &caps(&["file.read"]), None, NOW);
        assert_eq!(found.is_ok(), covered, "{scope} {caller:?}");
        assert_eq!(!grants.held(&caller, NOW).is_empty(), covered, "{scope} {caller:?}");
    }
    let grants = book(vec![grant("g", "file.read")]).await;
    assert!(
        grants.cover(&who("ann", None), &caps(&["file.read"]), None, NOW).is_ok(),
        "absent is everybody"
    );
}

#[test]
fn scopes_and_capabilities_are_parsed_strictly() {
    for bad in ["", "all", "user:", "user:a b", "session:", "Workspace", "user", "tenant:x"] {
        assert!(GrantScope::try_from(bad.to_owned()).is_err(), "{bad}");
    }
    for text in ["workspace", "user:ann", "session:s:1"] {
        let scope = GrantScope::try_from(text.to_owned()).unwrap();
        assert_eq!(String::from(scope), text);
    }
    for bad in ["", "a b", "é", "a\n", &"x".repeat(129)] {
        assert!(Capability::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn wildcards_cover_what_is_below_them_and_nothing_else() {
    let cases = [
        ("file.read", "file.read", true),
        ("file.read", "file.write", false),
        ("file.read", "file.read.all", false),
        ("*", "anything", true),
        ("*", "file.*", true),
        ("file.*", "file.read", true),
        ("file.*", "file.read.all", true),
        ("file.*", "file.*", true),
        ("file.*", "file", false),
        ("file.*", "files.read", false),
        ("file*", "file.read", false),
        ("file*", "file*", true),
        ("*.read", "file.read", false),
        ("file.re*", "file.read", false),
        ("file.read", "*", false),
        ("file.read", "file.*", false),
        ("FILE.*", "file.read", false),
    ];
    for (held, required, covers) in cases {
        assert_eq!(cap(held).covers(&cap(required)), covers, "{held} for {required}");
    }
}

#[tokio::test]
async fn a_grant_ends_at_its_expiry_not_after_it() {
    let grants = book(vec![CapabilityGrant { expires_at: Some(NOW), ..grant("g", "x") }]).await;
    for (now, live) in
        [(0, true), (NOW - 1, true), (NOW, false), (NOW + 1, false), (u64::MAX, false)]
    {
        let caller = who("ann", None);
        assert_eq!(grants.cover(&caller, &caps(&["x"]), None, now).is_ok(), live, "{now}");
        assert_eq!(grants.live(now).len() == 1, live, "{now}");
        assert_eq!(!grants.held(&caller, now).is_empty(), live, "{now}");
    }
}

type Names = &'static [&'static str];

#[tokio::test]
async fn all_that_is_required_must_be_covered() {
    let grants = book(vec![grant("a", "file.*"), grant("b", "demo")]).await;
    let caller = who("ann", None);
    let cases: [(Names, Result<Names, Names>); 6] = [
        (&[], Ok(&[])),
        (&["demo"], Ok(&["b"])),
        (&["file.read", "file.write"], Ok(&["a"])),
        (&["file.read", "demo"], Ok(&["a", "b"])),
        (&["demo", "net"], Err(&["net"])),
        (&["net", "demo", "other"], Err(&["net", "other"])),
    ];
    for (requires, expected) in cases {
        match (grants.cover(&caller, &caps(requires), None, NOW), expected) {
            (Ok(cover), Ok(expected)) => assert_eq!(ids(&cover), expected, "{requires:?}"),
            (Err(Missing(missing)), Err(expected)) => {
                assert_eq!(missing, caps(expected), "{requires:?}");
            }
            (found, _) => panic!("{requires:?}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn a_list_of_grants_restricts_all_of_them_and_adds_none() {
    let agent = Agent {
        name: name("ann"),
        token_hash: String::new(),
        capabilities: caps(&["stand"]),
        created_at: 5,
        expose: crate::policy::Expose::All,
    };
    let grants =
        book(vec![grant("a", "x"), grant("b", "y"), scoped("bobs", "z", "user:bob")]).await;
    grants.set_standing(&agent.name, standing_grants(&agent)).await;
    let carried = Arc::new(grant("oauth:carry", "carry"));
    let caller = Caller { carried: [carried].into(), ..who("ann", None) };
    let all: &[&str] = &["x", "y", "stand", "carry"];
    let cases: &[(Option<&[&str]>, &[&str])] = &[
        (None, all),
        (Some(&[]), &[]),
        (Some(&["a"]), &["x"]),
        (Some(&["b"]), &["y"]),
        (Some(&["a", "b"]), &["x", "y"]),
        (Some(&["a", "a"]), &["x"]),
        (Some(&["standing:ann:stand"]), &["stand"]),
        (Some(&["oauth:carry"]), &["carry"]),
        (Some(&["a", "b", "standing:ann:stand", "oauth:carry"]), all),
        (Some(&["no-such-grant"]), &[]),
        (Some(&["bobs"]), &[]),
        (Some(&["bobs", "a"]), &["x"]),
    ];
    for (only, covered) in cases {
        let only: Option<Vec<GrantId>> =
            only.map(|only| only.iter().map(|id| (*id).into()).collect());
        for required in ["x", "y", "z", "stand", "carry"] {
            let found = grants.cover(&caller, &caps(&[required]), only.as_deref(), NOW);
            assert_eq!(found.is_ok(), covered.contains(&required), "{only:?}: {required}");
        }
        assert!(grants.cover(&caller, &[], only.as_deref(), NOW).is_ok(), "{only:?}: nothing");
    }
}

#[tokio::test]
async fn naming_a_grant_of_another_does_not_help() {
    let grants = book(vec![scoped("bobs", "x", "user:bob")]).await;
    assert!(grants.cover(&who("ann", None), &caps(&["x"]), Some(&["bobs".into()]), NOW).is_err());
}

#[tokio::test]
async fn standing_grants_follow_the_registration() {
    let agent = |capabilities: &[&str]| Agent {
        name: name("ann"),
        token_hash: String::new(),
        capabilities: caps(capabilities),
        created_at: 5,
        expose: crate::policy::Expose::All,
    };
    let store = Arc::new(TestStore::default());
    let grants = Grants::load(store, standing_grants(&agent(&["a", "b"]))).await.unwrap();
    grants.issue(scoped("issued", "c", "user:ann")).await;
    let held = |who_: &str| -> Vec<String> {
        grants.held(&who(who_, None), NOW).iter().map(ToString::to_string).collect()
    };
    assert_eq!(held("ann"), ["a", "b", "c"]);
    assert!(held("bob").is_empty());
    grants.set_standing(&name("ann"), standing_grants(&agent(&["b", "d"]))).await;
    assert_eq!(held("ann"), ["b", "c", "d"], "what was issued stays");
    grants.set_standing(&name("ann"), Vec::new()).await;
    assert_eq!(held("ann"), ["c"]);
    assert_eq!(grants.issued_to(&name("ann")), ["issued".into()]);
}

#[tokio::test]
async fn only_what_was_issued_can_be_revoked() {
    let standing = vec![scoped("standing:ann:a", "a", "user:ann")];
    let grants = Grants::load(Arc::new(TestStore::default()), standing).await.unwrap();
    grants.issue(grant("g", "x")).await;
    assert!(matches!(grants.revocable("standing:ann:a"), Err(GrantError::Standing(_))));
    assert!(matches!(grants.revocable("nothing"), Err(GrantError::Unknown(_))));
    grants.revoke(&[grants.revocable("g").unwrap()]).await;
    assert!(grants.cover(&who("ann", None), &caps(&["x"]), None, NOW).is_err());
    assert!(matches!(grants.revocable("g"), Err(GrantError::Unknown(_))));
}

#[tokio::test]
async fn an_approval_stands_behind_a_cover_if_one_stands_behind_each_of_its_grants() {
    let approved = |id: &str, capability: &str, approval: &str| CapabilityGrant {
        approval_id: Some(approval.to_owned()),
        ..grant(id, capability)
    };
    let ended = CapabilityGrant { expires_at: Some(NOW), ..approved("ended", "w", "ap0") };
    let bobs = CapabilityGrant {
        scope: Some(GrantScope::User(name("bob"))),
        ..approved("bobs", "w", "ap0")
    };
    let grants = book(vec![
        grant("a", "x"),
        approved("b", "x", "ap1"),
        grant("c", "x"),
        approved("d", "y.*", "ap2"),
        grant("e", "w"),
        ended,
        bobs,
    ])
    .await;
    let caller = who("ann", None);
    let check = |requires: &[&str], only: Option<&[&str]>, covering: &[&str], approval| {
        let only: Option<Vec<GrantId>> =
            only.map(|only| only.iter().map(|id| (*id).into()).collect());
        let cover = grants.cover(&caller, &caps(requires), only.as_deref(), NOW).unwrap();
        let found = (ids(&cover), cover.approval.as_deref());
        assert_eq!(found, (covering.to_vec(), approval), "{requires:?} {only:?}");
    };
    check(&["x"], None, &["b"], Some("ap1"));
    check(&["x"], Some(&["a"]), &["a"], None);
    check(&["x"], Some(&["a", "b"]), &["b"], Some("ap1"));
    check(&["y.z"], None, &["d"], Some("ap2"));
    check(&["x", "y.z"], None, &["b", "d"], Some("ap1"));
    check(&["x", "y.z"], Some(&["a", "d"]), &["a", "d"], None);
    check(&["x", "w"], None, &["b", "e"], None);
    check(&["w", "x"], None, &["e", "b"], None);
    check(&["w"], None, &["e"], None);
    check(&[], None, &[], None);
}

#[tokio::test]
async fn what_came_with_a_request_counts_for_it_alone_and_until_its_end() {
    let grants = book(vec![grant("g1", "file.write")]).await;
    let ending = CapabilityGrant { expires_at: Some(100), ..grant("oauth:files", "file.read") };
    let plain = who("oauth-a", None);
    let bearer = Caller { carried: [Arc::new(ending)].into(), ..plain.clone() };
    let both = caps(&["file.read", "file.write"]);
    assert_eq!(grants.held(&bearer, 99).into_iter().collect::<Vec<_>>(), both);
    assert_eq!(grants.held(&bearer, 100).into_iter().collect::<Vec<_>>(), caps(&["file.write"]));
    assert_eq!(grants.held(&plain, 99).into_iter().collect::<Vec<_>>(), caps(&["file.write"]));
    let read = caps(&["file.read"]);
    let covered = grants.cover(&bearer, &read, None, 99).unwrap();
    assert_eq!(covered.grants, ["oauth:files".into()]);
    assert_eq!(grants.cover(&bearer, &read, None, 100), Err(Missing(read.clone())));
    assert_eq!(grants.cover(&plain, &read, None, 99), Err(Missing(read)));
    assert!(grants.live(0).iter().all(|grant| &*grant.grant_id != "oauth:files"));
}
