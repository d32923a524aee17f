use drawgate_core::testing::{TestClock, TestIds};

use super::*;

const IDLE_MS: u64 = 100_000;

fn sessions(max: usize) -> (Sessions, Arc<TestClock>) {
    let clock = Arc::new(TestClock::default());
    let sessions = Sessions::new(
        max,
        IDLE_MS,
        Arc::clone(&clock) as Arc<dyn Clock>,
        Arc::new(TestIds::default()),
    );
    (sessions, clock)
}

fn principal(name: &str) -> Principal {
    Principal::new(name).unwrap()
}

#[test]
fn a_session_belongs_to_who_opened_it() {
    let (sessions, _) = sessions(2);
    let (ann, bob) = (principal("ann"), principal("bob"));
    let id = sessions.open(&ann).unwrap().id.clone();
    assert!(sessions.find(&id, &bob).is_none());
    assert!(!sessions.close(&id, &bob));
    assert!(sessions.is_foreign(&id, &bob));
    assert!(!sessions.is_foreign(&id, &ann));
    assert!(!sessions.is_foreign("x", &bob));
    assert!(sessions.find(&id, &ann).is_some());
    assert!(sessions.close(&id, &ann));
    assert!(sessions.find(&id, &ann).is_none());
}

#[test]
fn an_idle_session_ends_unless_somebody_listens() {
    let (sessions, clock) = sessions(12);
    let ann = principal("ann");
    let idle = sessions.open(&ann).unwrap().id.clone();
    let used = sessions.open(&ann).unwrap().id.clone();
    let listening = sessions.open(&ann).unwrap();
    clock.advance(IDLE_MS);
    assert!(sessions.find(&used, &ann).is_some());
    clock.advance(1);
    assert!(sessions.find(&idle, &ann).is_none());
    assert!(sessions.find(&used, &ann).is_some());
    sessions.sweep();
    assert_eq!(sessions.len(), 2);
    assert!(!listening.closed.is_cancelled());
    assert!(sessions.find(&listening.id, &ann).is_some());
}

#[test]
fn who_has_its_share_gives_up_its_own_longest_idle() {
    let (sessions, clock) = sessions(8);
    let (ann, bob) = (principal("ann"), principal("bob"));
    let bobs = sessions.open(&bob).unwrap().id.clone();
    clock.advance(1000);
    let first = sessions.open(&ann).unwrap().id.clone();
    clock.advance(1000);
    let second = sessions.open(&ann).unwrap().id.clone();
    let third = sessions.open(&ann).unwrap().id.clone();
    assert!(sessions.find(&first, &ann).is_none());
    for (id, owner) in [(&second, &ann), (&third, &ann), (&bobs, &bob)] {
        assert!(sessions.find(id, owner).is_some());
    }
}

#[test]
fn what_is_in_use_never_gives_way() {
    let (sessions, clock) = sessions(8);
    let (ann, bob) = (principal("ann"), principal("bob"));
    let listening = sessions.open(&ann).unwrap();
    let calling = sessions.open(&ann).unwrap();
    let cancel = CancellationToken::new();
    let call = calling.open(&RequestId::Text("1".to_owned()), &cancel).unwrap();
    let id = calling.id.clone();
    drop(calling);
    clock.advance(IDLE_MS + 1);
    assert!(sessions.open(&ann).is_none());
    assert!(sessions.open(&bob).is_some());
    assert!(!listening.closed.is_cancelled() && !cancel.is_cancelled());
    drop(call);
    assert!(sessions.open(&ann).is_some());
    assert!(sessions.find(&id, &ann).is_none());
    assert!(!listening.closed.is_cancelled());
}

#[test]
fn when_all_is_full_those_who_hold_more_give_way_but_not_at_once() {
    let (sessions, clock) = sessions(8);
    let names = ["ann", "bob", "cid", "dan"].map(principal);
    let ids: Vec<_> = names
        .iter()
        .flat_map(|who| [who, who].map(|who| sessions.open(who).unwrap().id.clone()))
        .collect();
    let eve = principal("eve");
    assert!(sessions.open(&eve).is_none());
    clock.advance(MAY_GIVE_WAY_MS);
    assert!(
        names
            .iter()
            .zip(ids.chunks(2))
            .skip(1)
            .all(|(who, ids)| { ids.iter().all(|id| sessions.find(id, who).is_some()) })
    );
    assert!(sessions.open(&eve).is_some());
    let anns = ids[..2].iter().filter(|id| sessions.find(id, &names[0]).is_some()).count();
    assert_eq!((anns, sessions.len()), (1, 8));
    // Eve holds as many as Ann now, and the others' are in use.
    assert!(sessions.open(&eve).is_none());
    clock.advance(MAY_GIVE_WAY_MS);
    assert!(sessions.open(&eve).is_some());
    assert_eq!(sessions.len(), 8);
    assert!(ids[..2].iter().any(|id| sessions.find(id, &names[0]).is_some()));
}

#[test]
fn ids_of_open_requests_are_unique_and_bounded() {
    let (sessions, _) = sessions(1);
    let session = sessions.open(&principal("ann")).unwrap();
    let id = |number: usize| RequestId::Number(number.into());
    let cancel = CancellationToken::new();
    let mut open: Vec<_> =
        (0..MAX_IN_FLIGHT).map(|number| session.open(&id(number), &cancel).unwrap()).collect();
    assert!(session.open(&id(MAX_IN_FLIGHT), &cancel).is_none());
    open.pop();
    assert!(session.open(&id(0), &cancel).is_none());
    assert!(session.open(&id(MAX_IN_FLIGHT), &cancel).is_some());
    session.cancel(&id(0));
    assert!(cancel.is_cancelled());
}
