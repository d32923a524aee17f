//! Pruning as one step. Where it cuts is in the suite of stores.

use drawgate_core::model::Principal;
use drawgate_core::store::AuditLog;
use rusqlite::Connection;

use super::{decision, folder, open, outcome, verify};

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
        log.prune(&Principal::local(), head).await.unwrap_err();
        other.execute_batch("DROP TRIGGER broken").unwrap();
        assert_eq!(log.head(), head, "{table}: no event tells of what was not done");
        let report = verify(&dir);
        assert_eq!((report.exit_code(), report.first), (0, 1), "{table}: {report}");
        log.append(decision(table)).await.unwrap();
        log.append(outcome(table)).await.unwrap();
    }
    assert_eq!(log.prune(&Principal::local(), 4).await.unwrap(), 3);
    drop(log);
    let log = open(&dir);
    assert_eq!((verify(&dir).exit_code(), log.reader().loss().await.unwrap()), (0, None));
}
