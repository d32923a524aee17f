//! The catalogue of ways to tamper with a log, each against the verifier.

use super::super::{Chain, EventDraft, SignedHead, Signer};
use super::*;

const EVENTS: u64 = 200;
const EVERY: u64 = 20;
const TARGET: usize = 76;
const INSTALL: &str = "here";

/// A log as somebody with write access to the file has it: bodies, checkpoints, the head record.
#[derive(Clone)]
struct Log {
    events: Vec<String>,
    checkpoints: Vec<String>,
    head: Option<HeadRecord>,
}

fn signer() -> Signer {
    Signer::new(&[1; 32])
}

fn draft(place: u64) -> EventDraft {
    let (kind, call) = match place {
        1 => return EventDraft::new(EventKind::LogOpened, 1).text("install", INSTALL),
        place if place % 2 == 0 => (EventKind::Decision, place),
        place => (EventKind::Outcome, place - 1),
    };
    EventDraft::new(kind, 1000 + place)
        .text("callId", format!("c{call}"))
        .text("principal", "caf\u{e9}")
        .text("outputHash", "aa")
        .number("durationMs", 1)
        .flag("started", kind == EventKind::Outcome)
}

fn seal(drafts: impl Iterator<Item = EventDraft>, signer: &Signer) -> Log {
    let mut chain = Chain::default();
    let mut log = Log { events: Vec::new(), checkpoints: Vec::new(), head: None };
    for draft in drafts {
        log.events.push(chain.seal(&draft).body);
        if chain.sequence() % EVERY == 0 {
            log.checkpoints.push(sign(&log, &chain, signer).to_json());
        }
    }
    log.head = Some(signer.head_record(INSTALL, chain.sequence(), chain.head(), &last_hash(&log)));
    log
}

fn last_hash(log: &Log) -> String {
    log.checkpoints
        .last()
        .map_or_else(|| ZERO_HASH.to_owned(), |body| Checkpoint::parse(body).unwrap().hash())
}

fn sign(log: &Log, chain: &Chain, signer: &Signer) -> Checkpoint {
    signer.checkpoint(Checkpoint {
        sequence: chain.sequence(),
        head: chain.head().to_owned(),
        at: 1,
        install: INSTALL.to_owned(),
        oldest_open: None,
        times: None,
        previous: last_hash(log),
        key: String::new(),
        signature: String::new(),
    })
}

fn intact() -> Log {
    seal((1..=EVENTS).map(draft), &signer())
}

fn anchor() -> Anchor {
    Anchor::new(EVENTS, hash_of(intact().events.last().unwrap()))
}

fn hash_of(body: &str) -> String {
    json::parse(body.as_bytes()).unwrap()["hash"].as_str().unwrap().to_owned()
}

fn verify(log: &Log, anchor: Option<Anchor>) -> Report {
    let keys = Some(signer().keys().clone());
    let anchors = anchor.into_iter().collect();
    let mut verifier = Verifier::new(Pins { install: Some(INSTALL.to_owned()), keys, anchors });
    let mut checkpoints = log.checkpoints.iter().peekable();
    for (place, body) in (1..).zip(&log.events) {
        verifier.push(body);
        if place % EVERY == 0
            && let Some(checkpoint) = checkpoints.next()
        {
            verifier.checkpoint(checkpoint);
        }
    }
    checkpoints.for_each(|checkpoint| verifier.checkpoint(checkpoint));
    verifier.finish(log.head.as_ref())
}

/// Recomputes the public chain over changed events, as anybody can.
fn reseal(log: &mut Log) {
    let mut prev = ZERO_HASH.to_owned();
    for (sequence, body) in (1_u64..).zip(&mut log.events) {
        let Value::Object(mut event) = json::parse(body.as_bytes()).unwrap() else {
            panic!("{body}")
        };
        event.shift_remove("hash");
        event.insert("sequence".to_owned(), sequence.into());
        event.insert("prev".to_owned(), prev.into());
        prev = canonical::hash(&Value::Object(event.clone()));
        event.insert("hash".to_owned(), prev.clone().into());
        *body = canonical::to_string(&Value::Object(event));
    }
}

fn replace(log: &mut Log, from: &str, to: &str) {
    let body = &mut log.events[TARGET];
    assert!(body.contains(from), "{body}");
    *body = body.replacen(from, to, 1);
}

/// What an attacker does, whether the chain and checkpoints alone tell, and where it is found.
type Row = (&'static str, fn(&mut Log), u64, &'static str);

const DETECTED: &[Row] = &[
    ("edit_principal", |log| replace(log, "caf\u{e9}", "mallory"), 77, "match its hash"),
    (
        "edit_ts",
        |log| replace(log, "\"createdAt\":1077", "\"createdAt\":1078"),
        77,
        "match its hash",
    ),
    ("edit_output_hash", |log| replace(log, "\"aa\"", "\"ab\""), 77, "match its hash"),
    (
        "add_field",
        |log| replace(log, "\"started\"", "\"extra\":1,\"started\""),
        77,
        "match its hash",
    ),
    ("unicode_nfd", |log| replace(log, "caf\u{e9}", "cafe\u{301}"), 77, "match its hash"),
    (
        "dup_key",
        |log| replace(log, "\"started\"", "\"kind\":\"outcome\",\"started\""),
        77,
        "duplicate key",
    ),
    ("delete_middle", |log| drop(log.events.remove(TARGET)), 77, "the sequence is 78"),
    (
        "delete_middle_renumber",
        |log| {
            log.events.remove(TARGET);
            replace(log, "\"sequence\":78", "\"sequence\":77");
        },
        77,
        "does not follow",
    ),
    ("swap_two", |log| log.events.swap(TARGET, TARGET + 1), 77, "the sequence is 78"),
    (
        "edit_and_reseal",
        |log| {
            replace(log, "caf\u{e9}", "mallory");
            reseal(log);
        },
        80,
        "not on the chain",
    ),
    (
        "edit_after_last_checkpoint_and_reseal",
        |log| {
            log.checkpoints.clear();
            let place = log.events.len() - 1;
            log.events[place] = log.events[place].replace("caf\u{e9}", "mallory");
            reseal(log);
        },
        EVENTS,
        "head record",
    ),
    (
        "rewrite_all_reseal",
        |log| {
            log.events.iter_mut().for_each(|body| *body = body.replace("caf\u{e9}", "mallory"));
            reseal(log);
        },
        20,
        "not on the chain",
    ),
    (
        "truncate_to_checkpoint",
        |log| {
            log.events.truncate(100);
            log.checkpoints.truncate(5);
        },
        100,
        "head record says 200",
    ),
    (
        "truncate_to_zero",
        |log| {
            log.events.clear();
            log.checkpoints.clear();
        },
        0,
        "head record says 200",
    ),
    (
        "drop_last_checkpoint",
        |log| drop(log.checkpoints.pop()),
        EVENTS,
        "newest checkpoint is missing",
    ),
    ("drop_middle_checkpoint", |log| drop(log.checkpoints.remove(4)), 120, "not on the chain"),
    ("reorder_checkpoints", |log| log.checkpoints.swap(3, 4), 100, "not on the chain"),
    (
        "old_checkpoint_as_new",
        |log| {
            log.checkpoints[9] = log.checkpoints[0].replace("\"sequence\":20", "\"sequence\":200");
        },
        200,
        "signature",
    ),
    (
        "old_checkpoint_again",
        |log| log.checkpoints[9] = log.checkpoints[0].clone(),
        20,
        "out of order",
    ),
    (
        "resign_unknown_key",
        |log| {
            let forged = seal((1..=EVENTS).map(draft), &Signer::new(&[9; 32]));
            log.checkpoints = forged.checkpoints;
        },
        20,
        "unknown key",
    ),
    (
        "transplant_other_install",
        |log| {
            let other = (1..=EVENTS).map(|place| match place {
                1 => EventDraft::new(EventKind::LogOpened, 1).text("install", "there"),
                place => draft(place),
            });
            *log = seal(other, &Signer::new(&[9; 32]));
        },
        1,
        "another installation",
    ),
    (
        "end_without_start",
        |log| {
            log.events[TARGET] = log.events[TARGET].replace("\"c76\"", "\"c9999\"");
            reseal(log);
        },
        77,
        "end without a start",
    ),
];

#[test]
fn the_untouched_log_is_intact() {
    let report = verify(&intact(), Some(anchor()));
    assert_eq!((report.exit_code(), report.events, report.checkpoints), (0, 200, 10), "{report}");
    assert_eq!(report.head, (anchor().sequence, anchor().hash));
}

#[test]
fn tampering_is_detected_and_placed() {
    for (name, tamper, place, reason) in DETECTED {
        let mut log = intact();
        tamper(&mut log);
        let report = verify(&log, None);
        let (found, why) =
            report.first_bad.clone().unwrap_or_else(|| panic!("{name}: not detected"));
        assert_eq!(found, *place, "{name}: {why}");
        assert!(why.contains(reason), "{name}: {why}");
        assert_eq!(report.exit_code(), 2, "{name}");
    }
}

#[test]
fn the_whole_file_set_back_is_found_by_an_anchor_alone() {
    let old = seal((1..=100).map(draft), &signer());
    assert_eq!(verify(&old, None).exit_code(), 0);
    let report = verify(&old, Some(anchor()));
    let why = "the log ends at event 100, but the anchor is of event 200: events were removed";
    assert_eq!(report.first_bad, Some((200, why.to_owned())));
}

#[test]
fn a_rewrite_with_the_stolen_key_is_found_by_an_anchor_alone() {
    let forged =
        seal((1..=EVENTS).map(|place| draft(place).text("forged", "yes")).skip(1), &signer());
    assert_eq!(verify(&forged, Some(anchor())).exit_code(), 2);
    let first =
        std::iter::once(draft(1)).chain((2..=EVENTS).map(|place| draft(place).text("x", "y")));
    let forged = seal(first, &signer());
    assert_eq!(verify(&forged, None).exit_code(), 0, "nothing in the file tells");
    assert_eq!(verify(&forged, Some(anchor())).first_bad.map(|bad| bad.0), Some(200));
}

#[test]
fn float_same_value_is_no_change() {
    let mut log = intact();
    replace(&mut log, "\"durationMs\":1,", "\"durationMs\":1.0,");
    replace(&mut log, "\"sequence\":77", "\"sequence\":77.0");
    assert_eq!(verify(&log, None).exit_code(), 0);
}

#[test]
fn clock_back_is_no_change() {
    let log = seal(
        (1..=EVENTS).map(|place| match place {
            50 => EventDraft::new(EventKind::AgentAdded, 3),
            51 => EventDraft::new(EventKind::AgentAdded, 2),
            _ => draft(place),
        }),
        &signer(),
    );
    assert_eq!(verify(&log, None).exit_code(), 0);
}

#[test]
fn a_refused_call_has_an_outcome_alone() {
    let refused = EventDraft::new(EventKind::Outcome, 1).text("callId", "x").flag("started", false);
    let log = seal([draft(1), refused].into_iter(), &signer());
    assert_eq!(verify(&log, None).exit_code(), 0);
}

#[test]
fn a_second_outcome_of_a_call_is_an_end_without_a_start() {
    let outcome = || draft(3);
    let log = seal([draft(1), draft(2), outcome(), outcome()].into_iter(), &signer());
    assert_eq!(verify(&log, None).first_bad.map(|bad| bad.0), Some(4));
}

#[test]
fn calls_under_way_are_a_warning() {
    let report = verify(&seal([draft(1), draft(2)].into_iter(), &signer()), None);
    assert_eq!(report.exit_code(), 0);
    assert!(report.to_string().contains("1 calls have no outcome yet"), "{report}");
}

#[test]
fn a_torn_tail_is_not_tampering() {
    let mut verifier = Verifier::new(Pins::default());
    intact().events.iter().take(3).for_each(|body| verifier.push(body));
    verifier.torn();
    let report = verifier.finish(None);
    assert_eq!((report.exit_code(), report.head.0), (3, 3));
}

#[test]
fn a_pruned_log_verifies_from_its_signed_record_alone() {
    let log = intact();
    let checkpoint = Checkpoint::parse(&log.checkpoints[4]).unwrap();
    let record = PruneRecord {
        sequence: 101,
        head: hash_of(&log.events[100]),
        checkpoint: checkpoint.hash(),
        install: INSTALL.to_owned(),
        at: 1,
    };
    let run = |record: Option<String>| {
        let keys = Some(signer().keys().clone());
        let mut verifier =
            Verifier::new(Pins { install: Some(INSTALL.to_owned()), keys, anchors: Vec::new() });
        if let Some(record) = record {
            verifier.pruned(&record);
        }
        for (place, body) in (1_u64..).zip(&log.events).skip(101) {
            verifier.push(body);
            if place % EVERY == 0 {
                verifier.checkpoint(&log.checkpoints[usize::try_from(place / EVERY).unwrap() - 1]);
            }
        }
        verifier.finish(log.head.as_ref())
    };
    let report = run(Some(record.to_signed_json(&signer())));
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.to_string().contains("removed by retention"), "{report}");
    assert_eq!(run(None).exit_code(), 2);
    assert_eq!(run(Some(record.to_signed_json(&Signer::new(&[9; 32])))).exit_code(), 2);
    assert_eq!(
        run(Some(log.checkpoints[4].clone())).exit_code(),
        2,
        "a checkpoint is no prune record"
    );
}

/// A log without its head record, as an export has it.
fn verify_exported(log: &Log, keys: Option<VerifyKeys>, anchors: Vec<Anchor>) -> Report {
    let mut verifier = Verifier::new(Pins { install: None, keys, anchors });
    for (place, body) in (1..).zip(&log.events) {
        verifier.push(body);
        if place % EVERY == 0
            && let Some(checkpoint) = log.checkpoints.get(place_of(place))
        {
            verifier.checkpoint(checkpoint);
        }
    }
    verifier.finish(None)
}

fn place_of(place: u64) -> usize {
    usize::try_from(place / EVERY).unwrap() - 1
}

#[test]
fn what_no_signature_covers_is_not_proved() {
    let keys = || Some(signer().keys().clone());
    let key = signer().keys().public_hex();
    let bare = Log { checkpoints: Vec::new(), ..intact() };
    let gap = Log { checkpoints: intact().checkpoints[..9].to_vec(), ..intact() };
    let head = SignedHead {
        sequence: EVENTS,
        hash: anchor().hash,
        at: 1,
        install: INSTALL.to_owned(),
        boot: None,
        key: String::new(),
        signature: String::new(),
    };
    let (signed, other) = (head.clone().sign(&signer()), head.sign(&Signer::new(&[9; 32])));
    let rows = [
        (&intact(), keys(), vec![], 0, format!("intact: events 1\u{2013}200 are signed by key {key}")),
        (&bare, keys(), vec![], 4, "not proved: events 1\u{2013}200 follow one another, but no signature covers any of them: anyone could have written them".to_owned()),
        (&gap, keys(), vec![], 4, format!("not proved: events 1\u{2013}180 are signed by key {key}; events 181\u{2013}200 follow in the chain but no signature covers them")),
        (&intact(), None, vec![], 4, "not proved: events 1\u{2013}200 follow one another, but without a public key no signature was checked: anyone could have written them".to_owned()),
        (&bare, keys(), vec![anchor()], 0, "intact: events 1\u{2013}200 are those that the anchor fixes".to_owned()),
        (&bare, keys(), vec![Anchor::signed(&signed, "the anchor")], 0, format!("intact: events 1\u{2013}200 are signed by key {key}")),
        (&bare, keys(), vec![Anchor::signed(&other, "the anchor")], 2, format!("tampered: event 200: the anchor is signed by key {}, but the log by key {key}: one of them was replaced", other.key)),
        (&Log { events: Vec::new(), ..intact() }, keys(), vec![], 4, "not proved: there are no events".to_owned()),
    ];
    for (log, keys, anchors, code, words) in rows {
        let report = verify_exported(log, keys, anchors);
        assert_eq!((report.exit_code(), report.finding()), (code, words));
    }
}

#[test]
fn a_start_that_found_events_missing_is_a_fault_and_one_without_heads_proves_nothing() {
    let opened = |flag: &'static str| draft(1).flag(flag, true);
    let rows = [
        (opened("logMissing"), 2, "the log was missing, though"),
        (opened("logMissing").number("lostHead", 77), 2, "says that there were 77 events"),
        (
            draft(1).number("lostHead", 77),
            2,
            "ended at event 0, but a signed head outside it is of event 77",
        ),
        (opened("headMissing"), 4, "the signed heads outside the log were gone"),
    ];
    for (opened, code, words) in rows {
        let report = verify(&seal([opened, draft(2), draft(3)].into_iter(), &signer()), None);
        assert_eq!((report.exit_code(), report.events), (code, 3), "{report}");
        assert!(report.finding().contains(words), "{report}");
    }
}

#[test]
fn a_prune_record_in_the_middle_excuses_no_gap() {
    let log = intact();
    let record = PruneRecord {
        sequence: 101,
        head: hash_of(&log.events[100]),
        checkpoint: Checkpoint::parse(&log.checkpoints[4]).unwrap().hash(),
        install: INSTALL.to_owned(),
        at: 1,
    };
    let mut verifier =
        Verifier::new(Pins { keys: Some(signer().keys().clone()), ..Pins::default() });
    log.events.iter().take(10).for_each(|body| verifier.push(body));
    verifier.pruned(&record.to_signed_json(&signer()));
    log.events.iter().skip(101).for_each(|body| verifier.push(body));
    let report = verifier.finish(None);
    assert_eq!(report.first_bad.as_ref().map(|bad| bad.0), Some(10), "{report}");
}
