use super::*;
use crate::json;
use serde_json::Value;

fn parsed(sealed: &Sealed) -> serde_json::Map<String, Value> {
    match json::parse(sealed.body.as_bytes()) {
        Ok(Value::Object(map)) => map,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_body_is_canonical_and_carries_the_hash_of_the_rest() {
    let mut chain = Chain::default();
    let draft = EventDraft::new(EventKind::Outcome, 9)
        .text("zeta", "z")
        .text("alpha", "\u{1}")
        .number("gram", 4)
        .text("i", "");
    let sealed = chain.seal(&draft);
    let mut event = parsed(&sealed);
    assert_eq!(canonical::to_string(&Value::Object(event.clone())), sealed.body);
    let hash = event.shift_remove("hash").unwrap();
    assert_eq!(canonical::hash(&Value::Object(event)), hash.as_str().unwrap());
    assert_eq!(chain.head(), hash.as_str().unwrap());
}

#[test]
fn events_follow_each_other() {
    let mut chain = Chain::default();
    let first = chain.seal(&EventDraft::new(EventKind::LogOpened, 1));
    let second = chain.seal(&EventDraft::new(EventKind::LogClosed, 2));
    assert_eq!((first.sequence, second.sequence, chain.sequence()), (1, 2, 2));
    assert_eq!(parsed(&first).get("prev").unwrap(), ZERO_HASH);
    assert_eq!(parsed(&second).get("prev"), parsed(&first).get("hash"));
    let mut resumed = Chain::after(1, parsed(&first).get("hash").unwrap().as_str().unwrap());
    assert_eq!(resumed.seal(&EventDraft::new(EventKind::LogClosed, 2)), second);
}

#[test]
fn the_chains_own_keys_can_not_be_set_and_the_last_value_wins() {
    let draft = EventDraft::new(EventKind::Decision, 1)
        .number("sequence", 99)
        .text("hash", "x")
        .text("prev", "y")
        .text("toolId", "first")
        .text("toolId", "second");
    let event = parsed(&Chain::default().seal(&draft));
    assert_eq!(event.get("sequence").unwrap(), 1);
    assert_eq!(event.get("prev").unwrap(), ZERO_HASH);
    assert_eq!(event.get("toolId").unwrap(), "second");
}

#[test]
fn open_calls_are_those_without_an_outcome() {
    let call = |kind, id: &str| EventDraft::new(kind, 1).text("callId", id);
    let mut open = OpenCalls::default();
    open.note(1, &call(EventKind::Decision, "a"));
    open.note(2, &call(EventKind::Decision, "b"));
    open.note(3, &call(EventKind::ApprovalRequired, "c"));
    assert_eq!(open.oldest(), Some(1));
    open.note(4, &call(EventKind::Outcome, "a"));
    assert_eq!(open.oldest(), Some(2));
    open.note(5, &call(EventKind::Outcome, "b"));
    assert_eq!(open.oldest(), None);
}
