use drawgate_core::model::{CapabilityGrant, Surface};
use serde_json::{Value, json};

use super::*;

fn caller(principal: &Principal, session: &str, carried: &[Value]) -> Caller {
    let grant = |grant: &Value| -> Arc<CapabilityGrant> {
        Arc::new(serde_json::from_value(grant.clone()).unwrap())
    };
    Caller {
        principal: principal.clone(),
        session: Some(session.into()),
        surface: Surface::EMBEDDED,
        carried: carried.iter().map(grant).collect(),
        lineage: None,
    }
}

fn resource(source: &str, own: &str) -> Resource {
    Resource { source: SourceId::new(source).unwrap(), own: own.to_owned() }
}

#[test]
fn a_client_leaves_whatever_its_token_grants_by_now() {
    let subscription_table = SubscriptionTable::default();
    let ann = Principal::new("ann").unwrap();
    let grant = |id: &str| json!({ "grantId": id, "capability": "file.read", "issuedAt": 0 });
    let enter = |session: &str, grant: Value| {
        Listener::new(caller(&ann, session, &[grant]), subscription_table.share(&ann).unwrap())
    };
    let mut held =
        vec![enter("one", grant("g1")), enter("one", grant("g2")), enter("other", grant("g3"))];
    assert_eq!(leave(&mut held, &caller(&ann, "third", &[])), Remaining::Absent);
    assert_eq!(leave(&mut held, &caller(&ann, "one", &[grant("g4")])), Remaining::One);
    assert_eq!(leave(&mut held, &caller(&ann, "one", &[])), Remaining::Last);
    assert_eq!(leave(&mut held, &caller(&ann, "one", &[])), Remaining::Absent);
    assert_eq!(subscription_table.shares.lock().get(&ann), Some(&1));
    assert_eq!(leave(&mut held, &caller(&ann, "other", &[])), Remaining::Last);
    assert!(subscription_table.shares.lock().is_empty());
}

#[test]
fn one_principal_can_not_use_up_the_room_of_all() {
    let subscription_table = SubscriptionTable::default();
    let (ann, bob) = (Principal::new("ann").unwrap(), Principal::new("bob").unwrap());
    let mut own: Vec<Share> = std::iter::from_fn(|| subscription_table.share(&ann)).collect();
    assert_eq!(own.len(), MAX_SHARE);
    assert!(subscription_table.share(&bob).is_some());
    own.pop();
    assert!(subscription_table.share(&ann).is_some());
}

#[test]
fn resources_are_kept_while_somebody_listens() {
    let subscription_table = SubscriptionTable::default();
    let (first, source) = (resource("s", "x://a"), SourceId::new("s").unwrap());
    let listeners = subscription_table.listeners(&first).unwrap();
    subscription_table.tidy(&first);
    assert!(subscription_table.is_heard(&source), "somebody is about to listen");
    drop(listeners);
    subscription_table.tidy(&first);
    assert!(!subscription_table.is_heard(&source));
    for number in 0..MAX_ALL {
        assert!(subscription_table.listeners(&resource("s", &number.to_string())).is_some());
    }
    assert!(subscription_table.listeners(&first).is_none());
    assert!(subscription_table.listeners(&resource("s", "0")).is_some());
}
