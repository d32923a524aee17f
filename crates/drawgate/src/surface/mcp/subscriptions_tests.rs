use drawgate_core::model::{CapabilityGrant, Surface};

use super::*;

fn caller(principal: &Principal, session: &str, carried: &[Value]) -> Caller {
    let grant = |grant: &Value| -> Arc<CapabilityGrant> {
        Arc::new(serde_json::from_value(grant.clone()).unwrap())
    };
    Caller {
        principal: principal.clone(),
        session: Some(session.to_owned()),
        surface: Surface::EMBEDDED,
        carried: carried.iter().map(grant).collect(),
        lineage: None,
    }
}

fn resource(source: &str, own: &str) -> Resource {
    Resource { source: SourceId::new(source).unwrap(), own: own.to_owned() }
}

#[test]
fn a_listener_hears_of_what_it_asked_for_in_its_own_terms() {
    let rows = [
        ("x://a", "x://a", "x://a", Some("x://a")),
        ("shown://s/x://a", "x://a", "x://a", Some("shown://s/x://a")),
        ("shown://s/x://a", "x://a", "x://a/b", Some("shown://s/x://a/b")),
        ("x://a/", "x://a/", "x://a/b", Some("x://a/b")),
        ("x://a", "x://a", "x://a?q", Some("x://a?q")),
        ("x://a", "x://a", "x://ab", None),
        ("x://a", "x://a", "x://", None),
        ("x://a", "x://a", "y://a", None),
    ];
    for (asked, own, changed, told) in rows {
        let subscribed = Subscribed::default();
        assert_eq!(subscribed.reserve(asked, &resource("s", own)), Reserved::New);
        assert_eq!(subscribed.name(&resource("s", changed)).as_deref(), told, "{asked} {changed}");
        assert_eq!(subscribed.name(&resource("other", changed)), None);
    }
}

#[test]
fn a_listener_is_bounded_and_ends_once() {
    let subscribed = Subscribed::default();
    for number in 0..MAX_EACH {
        let uri = format!("x://{number}");
        assert_eq!(subscribed.reserve(&uri, &resource("s", &uri)), Reserved::New);
    }
    assert_eq!(subscribed.reserve("x://0", &resource("s", "x://0")), Reserved::Already);
    assert_eq!(subscribed.reserve("x://more", &resource("s", "x://more")), Reserved::Full);
    assert!(subscribed.take("x://0").is_some());
    assert!(subscribed.take("x://0").is_none());
    let long = "x".repeat(MAX_URI + 1);
    assert_eq!(subscribed.reserve(&long, &resource("s", &long)), Reserved::Full);
    assert_eq!(subscribed.end().len(), MAX_EACH - 1);
    assert_eq!(subscribed.reserve("x://0", &resource("s", "x://0")), Reserved::Full);
}

#[test]
fn a_client_leaves_whatever_its_token_grants_by_now() {
    let interests = Interests::default();
    let ann = Principal::new("ann").unwrap();
    let grant = |id: &str| json!({ "grantId": id, "capability": "file.read", "issuedAt": 0 });
    let enter = |session: &str, grant: Value| Holder {
        caller: caller(&ann, session, &[grant]),
        _share: interests.share(&ann).unwrap(),
    };
    let mut held =
        vec![enter("one", grant("g1")), enter("one", grant("g2")), enter("other", grant("g3"))];
    assert_eq!(leave(&mut held, &caller(&ann, "third", &[])), Left::Nobody);
    assert_eq!(leave(&mut held, &caller(&ann, "one", &[grant("g4")])), Left::One);
    assert_eq!(leave(&mut held, &caller(&ann, "one", &[])), Left::Last);
    assert_eq!(leave(&mut held, &caller(&ann, "one", &[])), Left::Nobody);
    assert_eq!(interests.shares.lock().get(&ann), Some(&1));
    assert_eq!(leave(&mut held, &caller(&ann, "other", &[])), Left::Last);
    assert!(interests.shares.lock().is_empty());
}

#[test]
fn one_principal_can_not_use_up_the_room_of_all() {
    let interests = Interests::default();
    let (ann, bob) = (Principal::new("ann").unwrap(), Principal::new("bob").unwrap());
    let mut own: Vec<Share> = std::iter::from_fn(|| interests.share(&ann)).collect();
    assert_eq!(own.len(), MAX_SHARE);
    assert!(interests.share(&bob).is_some());
    own.pop();
    assert!(interests.share(&ann).is_some());
}

#[test]
fn resources_are_kept_while_somebody_listens() {
    let interests = Interests::default();
    let (first, source) = (resource("s", "x://a"), SourceId::new("s").unwrap());
    let holders = interests.holders(&first).unwrap();
    interests.tidy(&first);
    assert!(interests.concern(&source), "somebody is about to listen");
    drop(holders);
    interests.tidy(&first);
    assert!(!interests.concern(&source));
    for number in 0..MAX_ALL {
        assert!(interests.holders(&resource("s", &number.to_string())).is_some());
    }
    assert!(interests.holders(&first).is_none());
    assert!(interests.holders(&resource("s", "0")).is_some());
}
