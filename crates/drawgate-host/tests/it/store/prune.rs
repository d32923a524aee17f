//! Pruning: at call boundaries, as one step, and never of what is not there.

use drawgate_core::audit::EventDraft;
use drawgate_core::store::AuditLog;
use drawgate_host::store::AuditReader;
use rusqlite::Connection;

use super::{decision, folder, open, outcome, verify};

/// Letters are calls: the first of a kind begins it, the second ends it. The log's own start is event
/// 1, so that the first letter is event 2.
async fn check(calls: &str, before: u64, removed: u64) {
    let (_keep, dir) = folder();
    let log = open(&dir);
    let mut begun = Vec::new();
    for call in calls.chars() {
        let draft: fn(&str) -> EventDraft = if begun.contains(&call) { outcome } else { decision };
        begun.push(call);
        log.append(draft(&call.to_string())).await.unwrap();
    }
    let plan = AuditReader::open(&dir).unwrap().plan(before).unwrap();
    assert_eq!(plan.events, removed, "`{calls}` before {before}: planned {plan:?}");
    assert_eq!(plan.is_held_back, removed < before - 1, "`{calls}` before {before}: {plan:?}");
    assert_eq!(log.prune_before(before).await.unwrap(), removed, "`{calls}` before {before}");
    let report = verify(&dir);
    assert_eq!(report.exit_code(), 0, "`{calls}` before {before}: {report}");
    assert_eq!(report.first, removed + 1, "`{calls}` before {before}: {report}");
}

#[tokio::test]
async fn a_call_is_removed_as_a_whole_or_not_at_all() {
    for (calls, before, removed) in [
        ("aabb", 4, 3),
        ("aabb", 3, 1),
        ("aabb", 5, 3),
        // Calls that overlap are kept together.
        ("ababcc", 4, 1),
        ("ababcc", 6, 5),
        ("abcbca", 7, 1),
        ("aabcbcdd", 6, 3),
        // A call under way keeps itself and all later ones.
        ("aabccdd", 8, 3),
        ("abb", 4, 1),
    ] {
        check(calls, before, removed).await;
    }
}

#[tokio::test]
async fn what_is_not_a_place_in_the_log_is_refused() {
    let (_keep, dir) = folder();
    let log = open(&dir);
    for call in ["a", "b", "c"] {
        log.append(decision(call)).await.unwrap();
        log.append(outcome(call)).await.unwrap();
    }
    let refused = async |before: u64| log.prune_before(before).await.unwrap_err().to_string();
    for before in [0, 1, 8, 1000, u64::MAX] {
        let error = refused(before).await;
        assert!(error.contains("choose a sequence from 2 to 7"), "{before}: {error}");
    }
    assert_eq!(log.prune_before(4).await.unwrap(), 3);
    for before in [0, 3, 4] {
        let error = refused(before).await;
        assert!(error.contains("choose a sequence from 5 to 8"), "{before}: {error}");
    }
    assert_eq!(verify(&dir).exit_code(), 0);
}

#[tokio::test]
async fn a_pruning_that_fails_leaves_nothing_of_itself() {
    let (_keep, dir) = folder();
    let log = open(&dir);
    for call in ["a", "b"] {
        log.append(decision(call)).await.unwrap();
        log.append(outcome(call)).await.unwrap();
    }
    let other = Connection::open(dir.file("audit.db")).unwrap();
    for table in ["event", "checkpoint", "meta"] {
        log.checkpoint().await.unwrap();
        let (when, statement) =
            if table == "meta" { ("INSERT", "NEW.key = 'pruned'") } else { ("DELETE", "1") };
        other
            .execute_batch(&format!(
                "CREATE TRIGGER broken BEFORE {when} ON {table} WHEN {statement} BEGIN SELECT RAISE(ABORT, 'broken'); END"
            ))
            .unwrap();
        let head = log.head();
        log.prune_before(head).await.unwrap_err();
        other.execute_batch("DROP TRIGGER broken").unwrap();
        assert_eq!(log.head(), head, "{table}: no event tells of what was not done");
        let report = verify(&dir);
        assert_eq!((report.exit_code(), report.first), (0, 1), "{table}: {report}");
        log.append(decision(table)).await.unwrap();
        log.append(outcome(table)).await.unwrap();
    }
    assert_eq!(log.prune_before(4).await.unwrap(), 3);
    drop(log);
    let log = open(&dir);
    assert_eq!((verify(&dir).exit_code(), log.loss()), (0, None));
}
