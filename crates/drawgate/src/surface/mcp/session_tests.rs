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
    let (sessions, clock) = sessions(3);
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
fn the_longest_idle_gives_way_but_not_at_once() {
    let (sessions, clock) = sessions(2);
    let ann = principal("ann");
    let first = sessions.open(&ann).unwrap();
    clock.advance(1000);
    let second = sessions.open(&ann).unwrap();
    assert!(sessions.open(&ann).is_none());
    clock.advance(60_000);
    let cancel = CancellationToken::new();
    let _open = first.open(&RequestId::Text("1".to_owned()), &cancel);
    assert!(sessions.open(&ann).is_some());
    assert!(first.closed.is_cancelled() && cancel.is_cancelled());
    assert!(!second.closed.is_cancelled());
    assert_eq!(sessions.len(), 2);
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
