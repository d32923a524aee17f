use std::collections::BTreeMap;

use super::*;
use crate::audit::{Chain, EventDraft, EventKind};

/// A log in memory.
#[derive(Default)]
struct Bodies {
    events: BTreeMap<u64, String>,
    payloads: BTreeMap<String, String>,
    chain: Chain,
}

impl Bodies {
    fn add(&mut self, draft: &EventDraft) {
        let sealed = self.chain.seal(draft);
        self.events.insert(sealed.sequence, sealed.body);
    }
}

impl EventSource for Bodies {
    fn ranges(
        &self,
        _since: Option<u64>,
        _until: Option<u64>,
    ) -> Result<Vec<RangeInclusive<u64>>, StoreError> {
        Ok(vec![1..=self.events.len() as u64])
    }

    fn newest_first(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let _ = self.events.range(range).rev().try_for_each(|(at, body)| visit(*at, body));
        Ok(())
    }

    fn oldest_first(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let _ = self.events.range(range).try_for_each(|(at, body)| visit(*at, body));
        Ok(())
    }

    fn payload(&self, hash: &str) -> Result<Option<String>, StoreError> {
        Ok(self.payloads.get(hash).cloned())
    }
}

fn event(kind: EventKind, at: u64, call: &str, who: &str, tool: &str) -> EventDraft {
    EventDraft::new(kind, at)
        .text("callId", call)
        .text("requestId", format!("r-{call}"))
        .text("principal", who)
        .text("toolId", tool)
}

fn begun(at: u64, call: &str, who: &str, tool: &str, input: &str) -> EventDraft {
    let draft = event(EventKind::Decision, at, call, who, tool);
    draft.canonical("input", input).text("inputHash", "beef")
}

fn ended(at: u64, call: &str, who: &str, tool: &str, code: Option<&str>) -> EventDraft {
    let started = code != Some("PERMISSION_DENIED");
    event(EventKind::Outcome, at, call, who, tool)
        .flag("success", code.is_none())
        .flag("started", started)
        .maybe_text("code", code)
}

/// Two agents, an approval, a refusal, a long call and one under way.
fn example() -> Bodies {
    let mut log = Bodies::default();
    let (files, slow) = ("files:delete_file", "time:wait");
    let asked = event(EventKind::ApprovalRequired, 20, "c2", "ada", files);
    let decided = EventDraft::new(EventKind::ApprovalDecided, 30)
        .text("principal", "local")
        .text("toolId", files)
        .text("requestedBy", "ada")
        .text("approvalId", "a1")
        .flag("approved", true);
    for draft in [
        EventDraft::new(EventKind::AgentAdded, 1).text("principal", "local").text("agent", "ada"),
        begun(10, "c1", "ada", slow, r#"{"until":"noon"}"#),
        asked.text("approvalId", "a1").text("reason", "a rule asks"),
        decided,
        begun(40, "c2", "ada", files, r#"{"path":"say \"Notes\".txt"}"#).text("approvalId", "a1"),
        ended(50, "c2", "ada", files, None),
        ended(60, "c3", "bob", files, Some("PERMISSION_DENIED")),
        begun(70, "c4", "bob", "files:read_file", r#"{"path":"b.txt"}"#).text("agent", "helper"),
        ended(80, "c1", "ada", slow, Some("TIMEOUT")),
        event(EventKind::Decision, 90, "c5", "bob", "files:write_file")
            .text("inputHash", "kept")
            .flag("inputKept", true),
        ended(95, "c5", "bob", "files:write_file", None),
    ] {
        log.add(&draft);
    }
    log.payloads.insert("kept".to_owned(), r#"{"content":"needle"}"#.to_owned());
    log
}

fn asked(query: AuditQuery) -> AuditQuery {
    AuditQuery { limit: if query.limit == 0 { 100 } else { query.limit }, ..query }
}

/// All pages; each call as its id, or an event's kind.
#[track_caller]
fn names(log: &Bodies, query: AuditQuery) -> Vec<String> {
    let mut query = asked(query);
    let mut names = Vec::new();
    loop {
        let page = AuditSearch::new(query.clone()).unwrap().run(log).unwrap();
        for entry in &page.entries {
            let last = entry.events.last().unwrap();
            let name = last["callId"].as_str().or(last["kind"].as_str()).unwrap();
            names.push(name.to_owned());
        }
        query.before = page.next;
        if page.next.is_none() {
            return names;
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the form of what a query asks")]
fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

#[test]
fn all_that_is_asked_must_hold_of_a_call() {
    let log = example();
    let none = AuditQuery::default;
    let rows: Vec<(AuditQuery, &[&str])> = vec![
        (none(), &["c5", "c1", "c4", "c3", "c2", "agent_added"]),
        (AuditQuery { agent: text("ada"), ..none() }, &["c1", "c2", "agent_added"]),
        (AuditQuery { agent: text("helper"), ..none() }, &["c4"]),
        (AuditQuery { agent: text("ad"), ..none() }, &[]),
        (AuditQuery { tool: text("delete_file"), ..none() }, &["c3", "c2"]),
        (AuditQuery { tool: text("*DELETE*"), ..none() }, &["c3", "c2"]),
        (AuditQuery { tool: text("files__*"), ..none() }, &["c5", "c4", "c3", "c2"]),
        (AuditQuery { tool: text("files:delete_file"), ..none() }, &["c3", "c2"]),
        (AuditQuery { tool: text("file"), ..none() }, &[]),
        (AuditQuery { code: text("ok"), ..none() }, &["c5", "c2"]),
        (AuditQuery { code: text("TIMEOUT"), text: text("NOON"), ..none() }, &["c1"]),
        (AuditQuery { code: text("TIMEOUT"), text: text("b.txt"), ..none() }, &[]),
        (AuditQuery { text: text("say \"notes\""), ..none() }, &["c2"]),
        (AuditQuery { text: text("rule asks"), ..none() }, &["c2"]),
        (AuditQuery { text: text("needle"), ..none() }, &["c5"]),
        // A text is not found in hashes.
        (AuditQuery { text: text("beef"), ..none() }, &[]),
        // A call that ended later, or began earlier, was there.
        (AuditQuery { since: Some(10), until: Some(11), ..none() }, &["c1"]),
        (AuditQuery { since: Some(50), until: Some(61), ..none() }, &["c3", "c2"]),
        (AuditQuery { since: Some(80), until: Some(81), text: text("noon"), ..none() }, &["c1"]),
        (AuditQuery { since: Some(96), ..none() }, &[]),
        (AuditQuery { after: Some(9), ..none() }, &["c5"]),
    ];
    for (query, expected) in rows {
        let shown = format!("{query:?}");
        assert_eq!(names(&log, query.clone()), expected, "{shown}");
        let mut small = names(&log, AuditQuery { limit: 1, ..query });
        small.retain(|name| name != "approval_decided");
        assert_eq!(small, expected, "the same page by page: {shown}");
    }
}

#[test]
fn a_call_has_its_arguments_and_its_approval_beside_it() {
    let log = example();
    let query = asked(AuditQuery { tool: text("*delete*"), ..AuditQuery::default() });
    let page = AuditSearch::new(query).unwrap().run(&log).unwrap();
    let shown = |entry: &AuditEntry| {
        let kinds = entry.events.iter().map(|event| event["kind"].as_str().unwrap().to_owned());
        let by = entry.approval.as_ref().map(|event| event["principal"].as_str().unwrap());
        (kinds.collect::<Vec<_>>().join(" "), entry.arguments.clone(), by.map(str::to_owned))
    };
    let found: Vec<_> = page.entries.iter().map(shown).collect();
    let whole = "approval_required decision outcome".to_owned();
    let arguments = text(r#"{"path":"say \"Notes\".txt"}"#);
    assert_eq!(
        found,
        [("outcome".to_owned(), None, None), (whole, arguments, text("local"))],
        "the decision about the approval is no entry of its own"
    );
}

#[test]
fn events_by_themselves_hold_what_is_asked() {
    let log = example();
    let view = AuditView::Events;
    let sequences = |query: AuditQuery| -> Vec<u64> {
        let query = asked(AuditQuery { view, ..query });
        let page = AuditSearch::new(query).unwrap().run(&log).unwrap();
        page.entries.iter().map(|entry| entry.sequence).collect()
    };
    let none = AuditQuery::default;
    assert_eq!(sequences(AuditQuery { limit: 3, ..none() }), [11, 10, 9]);
    assert_eq!(
        sequences(AuditQuery { agent: text("ada"), after: Some(3), ..none() }),
        [9, 6, 5, 4]
    );
    assert_eq!(sequences(AuditQuery { code: text("TIMEOUT"), ..none() }), [9]);
    assert_eq!(sequences(AuditQuery { text: text("noon"), ..none() }), [2]);
}

#[test]
fn a_page_looks_at_a_bounded_number_of_events() {
    let mut log = Bodies::default();
    log.add(&begun(1, "first", "ada", "a:b", r#"{"x":"needle"}"#));
    let other = r#"{"createdAt":1,"kind":"source_changed"}"#;
    log.events.extend((2..2 + 2 * MAX_SCANNED).map(|at| (at, other.to_owned())));
    log.chain = Chain::after(2 * MAX_SCANNED + 1, "0".repeat(64));
    log.add(&ended(9, "first", "ada", "a:b", None));
    let query = asked(AuditQuery { agent: text("ada"), ..AuditQuery::default() });
    let page = AuditSearch::new(query.clone()).unwrap().run(&log).unwrap();
    assert_eq!(page.next, Some(log.events.len() as u64 + 1 - MAX_SCANNED));
    assert_eq!(names(&log, query.clone()), ["first", "first"], "too far apart to be one entry");
    let query = AuditQuery { text: text("needle"), ..query };
    assert_eq!(names(&log, query), ["first"], "what has the text is found");
}

#[test]
fn an_id_is_found_whatever_it_is_of() {
    let mut log = example();
    log.add(&ended(99, "7", "bob", "a:b", None));
    let rows: [(&str, &[(IdKind, u64)]); 9] = [
        ("c2", &[(IdKind::Call, 3), (IdKind::Call, 5), (IdKind::Call, 6)]),
        ("r-c3", &[(IdKind::Request, 7)]),
        // The call's outcome does not name the approval.
        (
            "a1",
            &[
                (IdKind::Approval, 3),
                (IdKind::Approval, 4),
                (IdKind::Approval, 5),
                (IdKind::Approval, 6),
            ],
        ),
        ("7", &[(IdKind::Event, 7), (IdKind::Call, 12)]),
        ("event:7", &[(IdKind::Event, 7)]),
        ("call:7", &[(IdKind::Call, 12)]),
        ("request:7", &[]),
        ("ada", &[]),
        ("", &[]),
    ];
    for (id, expected) in rows {
        let found = find(&IdQuery::parse(id), &log).unwrap();
        let found: Vec<_> = found.events.iter().map(|found| (found.by, found.sequence)).collect();
        assert_eq!(found, expected, "{id}");
    }
}

#[test]
fn what_can_not_be_asked_is_refused() {
    let none = AuditQuery::default;
    let rows = [
        (AuditQuery { since: Some(5), until: Some(5), ..none() }, QueryError::Time),
        (AuditQuery { text: text(""), ..none() }, QueryError::Text),
        (AuditQuery { text: text(&"x".repeat(1025)), ..none() }, QueryError::Text),
        (AuditQuery { tool: text(""), ..none() }, QueryError::Tool(String::new())),
    ];
    for (query, expected) in rows {
        assert_eq!(AuditSearch::new(query).err(), Some(expected));
    }
}
