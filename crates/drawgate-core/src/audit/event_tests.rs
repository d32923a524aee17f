use super::super::Chain;
use super::*;

#[test]
fn kinds_have_one_name_each() {
    for kind in EventKind::ALL {
        assert_eq!(EventKind::parse(kind.as_str()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
    assert_eq!(EventKind::parse("call_end"), None);
}

#[test]
fn a_sealed_event_reads_back() {
    let draft = EventDraft::new(EventKind::Decision, 17)
        .text("toolId", "demo:echo")
        .text("requestId", "r\"1\"")
        .maybe_text("callId", Some("c1"))
        .maybe_text("runId", None)
        .texts("grantIds", ["g1", "g2"])
        .flag("started", true)
        .number("durationMs", 3)
        .canonical(
            "decision",
            r#"{"decision":"allow","reason":"","requiresConfirmation":false,"riskTags":[]}"#,
        );
    let sealed = Chain::default().seal(&draft);
    let event = StoredEvent { sequence: sealed.sequence, body: sealed.body }.event().unwrap();
    assert_eq!((event.sequence, event.kind, event.created_at), (1, EventKind::Decision, 17));
    assert_eq!(event.request_id.as_deref(), Some("r\"1\""));
    assert_eq!(event.grant_ids, Some(vec!["g1".to_owned(), "g2".to_owned()]));
    assert_eq!(event.duration_ms, Some(3));
    assert!(event.decision.is_some());
    assert_eq!(event.rest.get("started"), Some(&Value::Bool(true)));
    assert_eq!(event.rest.get("runId"), None);
}

#[test]
fn a_body_that_is_no_event_is_corrupt() {
    for body in ["", "{}", "[]", r#"{"sequence":1,"sequence":1}"#] {
        let stored = StoredEvent { sequence: 1, body: body.to_owned() };
        assert!(matches!(stored.event(), Err(StoreError::Corrupt { .. })), "{body}");
    }
}
