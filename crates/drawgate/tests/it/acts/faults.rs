//! Faults in the databases, put in from a second connection at every statement that changes a table,
//! files that can't be written, and a disk that is full.
#![expect(clippy::disallowed_methods, reason = "tests make files immutable with `chattr`")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::table::{Act, Case};
use super::{Fixture, at_once, for_each_act};
use crate::operations::Disk;
use crate::support::TestFolder;

const CHANGES: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

/// A fault in one of the databases: how it is put in, and how it goes away.
struct Fault {
    database: &'static str,
    put: String,
    end: String,
}

/// What makes a statement fail as soon as it touches a table.
fn trigger(database: &'static str, table: &str, change: &str, when: &str) -> Fault {
    Fault {
        database,
        put: format!(
            "CREATE TRIGGER fault BEFORE {change} ON {table} {when} \
             BEGIN SELECT RAISE(ABORT, 'an injected fault'); END"
        ),
        end: "DROP TRIGGER fault".to_owned(),
    }
}

fn lost(database: &'static str, table: &str) -> Fault {
    Fault {
        database,
        put: format!("ALTER TABLE {table} RENAME TO lost_{table}"),
        end: format!("ALTER TABLE lost_{table} RENAME TO {table}"),
    }
}

/// Every change of a table that an act makes, as it is done once with nothing wrong.
fn touched(fixture: &Fixture, act: &Act) -> BTreeSet<(&'static str, String, &'static str)> {
    let mut triggers = Vec::new();
    for database in ["drawgate.db", "audit.db"] {
        let connection = fixture.database(database);
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
        let names = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        let tables: Vec<String> = connection
            .prepare(sql)
            .unwrap()
            .query_map([], names)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        connection.execute_batch("CREATE TABLE probe (at TEXT)").unwrap();
        for table in tables {
            for change in CHANGES {
                let name = format!("probe_{table}_{change}");
                let sql = format!(
                    "CREATE TRIGGER {name} AFTER {change} ON {table} \
                     BEGIN INSERT INTO probe VALUES ('{name}'); END"
                );
                connection.execute_batch(&sql).unwrap();
                triggers.push((database, table.clone(), change, name));
            }
        }
    }
    fixture.perform(&fixture.case(act)).unwrap();
    let mut touched = BTreeSet::new();
    for (database, table, change, name) in triggers {
        let connection = fixture.database(database);
        let sql = "SELECT count(*) FROM probe WHERE at = ?1";
        let count: u32 = connection.query_row(sql, [&name], |row| row.get(0)).unwrap();
        connection.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
        if count > 0 {
            touched.insert((database, table, change));
        }
    }
    for database in ["drawgate.db", "audit.db"] {
        fixture.database(database).execute_batch("DROP TABLE probe").unwrap();
    }
    touched
}

/// A fault for each of these changes.
fn faults(fixture: &Fixture, act: &Act) -> Vec<Fault> {
    let touched = touched(fixture, act);
    let tables: BTreeSet<_> =
        touched.iter().map(|(database, table, _)| (*database, table)).collect();
    let at = touched.iter().map(|(database, table, change)| trigger(database, table, change, ""));
    let without = tables.iter().map(|(database, table)| lost(database, table));
    // The intent can be written, and what comes after it can't.
    let late = "WHEN json_extract(NEW.body, '$.kind') <> 'act_started'";
    at.chain(without).chain([trigger("audit.db", "event", "INSERT", late)]).collect()
}

/// Does an act while something is wrong; then everything agrees, also after a restart, and what was
/// not done can be done. Returns whether it was done.
fn check(
    fixture: &mut Fixture,
    act: &Act,
    what: &str,
    wrong: impl FnOnce(&Fixture, &Case, &mut dyn FnMut()),
) -> bool {
    let case = fixture.case(act);
    let before = fixture.done(act.kind);
    let mut answer = Ok(());
    wrong(fixture, &case, &mut || answer = fixture.perform(&case));
    let context = format!("{} with {what}: {answer:?}", act.kind);
    let done = (case.is_done)(fixture).unwrap_or_else(|| panic!("in part. {context}"));
    assert!(done || answer.is_err(), "the operator was told that it was done. {context}");
    // Of a pack that is enabled and can't be started, the command says so without an error. On a busy machine
    // there is a sign of life before.
    let is_waiting = |line: &str| line == "drawgate: waiting for the gateway's answer";
    let is_told = answer.as_ref().err().is_none_or(|said| said.lines().all(is_waiting));
    assert!(!done || is_told, "the operator was told that it failed. {context}");
    for token in &case.until_done {
        assert_eq!(fixture.is_known(token), !done, "tokens in memory. {context}");
    }
    let is_logged = fixture.done(act.kind) > before;
    assert!(done || !is_logged, "never logged as done. {context}");
    if done && is_logged {
        return true;
    }
    fixture.restart();
    assert_eq!((case.is_done)(fixture), Some(done), "after a restart. {context}");
    for token in &case.until_done {
        assert_eq!(fixture.is_known(token), !done, "tokens after a restart. {context}");
    }
    assert_eq!(fixture.done(act.kind) - before, usize::from(done), "the log. {context}");
    fixture.check_log();
    if !done {
        fixture.perform(&case).unwrap_or_else(|error| panic!("again: {error}. {context}"));
        assert_eq!((case.is_done)(fixture), Some(true), "done again. {context}");
        assert_eq!(fixture.done(act.kind) - before, 1, "the log at last. {context}");
    }
    done
}

#[test]
fn a_fault_at_any_statement_leaves_store_memory_and_log_agreeing() {
    for_each_act(|fixture, act| {
        let mut failed = 0;
        for Fault { database, put, end } in faults(fixture, act) {
            let done = check(fixture, act, &format!("`{put}` in {database}"), |fixture, _, act| {
                let connection = fixture.database(database);
                connection.execute_batch(&put).unwrap();
                act();
                connection.execute_batch(&end).unwrap();
            });
            failed += usize::from(!done);
        }
        assert!(failed >= 4, "hardly any fault was met by {}: {failed}", act.kind);
    });
}

#[test]
fn a_database_that_another_program_holds_leaves_store_memory_and_log_agreeing() {
    for_each_act(|fixture, act| {
        for database in ["drawgate.db", "audit.db"] {
            let done = check(fixture, act, &format!("{database} held"), |fixture, _, act| {
                let connection = fixture.database(database);
                connection.execute_batch("BEGIN IMMEDIATE").unwrap();
                act();
                connection.execute_batch("ROLLBACK").unwrap();
            });
            assert!(!done, "{}: {database} was held", act.kind);
        }
    });
}

/// Files while nothing may be written to them or put in their place, not even by who has them open.
struct ReadOnly(Vec<PathBuf>);

impl ReadOnly {
    fn database(fixture: &Fixture, name: &str) -> Option<Self> {
        let data = fixture.place.data();
        Self::make(vec![data.join(name), data.join(format!("{name}-wal"))])
    }

    /// `None` where the user or the file system can't do that.
    fn make(files: Vec<PathBuf>) -> Option<Self> {
        let guard = Self(files);
        let done = guard.mark("+i");
        if !done {
            eprintln!("skipped: files can't be made immutable here");
        }
        done.then_some(guard)
    }

    fn mark(&self, flag: &str) -> bool {
        Command::new("chattr").arg(flag).args(&self.0).status().is_ok_and(|it| it.success())
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        self.mark("-i");
    }
}

#[test]
fn a_database_that_is_read_only_leaves_store_memory_and_log_agreeing() {
    for_each_act(|fixture, act| {
        for database in ["drawgate.db", "audit.db"] {
            let mut tried = false;
            let done = check(fixture, act, &format!("{database} read-only"), |fixture, _, act| {
                let files = ReadOnly::database(fixture, database);
                tried = files.is_some();
                act();
            });
            assert!(!done || !tried, "{}: {database} was read-only", act.kind);
        }
    });
}

#[test]
fn a_full_disk_leaves_store_memory_and_log_agreeing() {
    let (tried, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    at_once(|act| {
        let place = TestFolder::new("");
        let Some(disk) = Disk::under(place.path()) else { return };
        let mut fixture = Fixture::new(place, act);
        for _ in 0..3 {
            let done = check(&mut fixture, act, "a full disk", |_, _, act| {
                disk.fill();
                act();
                disk.relieve();
            });
            tried.fetch_add(1, Ordering::Relaxed);
            failed.fetch_add(usize::from(!done), Ordering::Relaxed);
        }
        fixture.end();
        drop(disk);
    });
    let (tried, failed) = (tried.into_inner(), failed.into_inner());
    assert!(failed >= tried / 3, "the disk was hardly ever full: {failed} of {tried}");
}

/// Puts something in the place of a file while an act is tried.
fn in_the_way(fixture: &Fixture, path: &Path, act: &mut dyn FnMut()) {
    let aside = fixture.place.path().join("aside");
    let was_there = std::fs::rename(path, &aside).is_ok();
    std::fs::create_dir(path).unwrap();
    std::fs::write(path.join("file"), "").unwrap();
    act();
    std::fs::remove_dir_all(path).unwrap();
    if was_there {
        std::fs::rename(&aside, path).unwrap();
    }
}

#[test]
fn a_file_that_can_not_be_changed_leaves_store_memory_and_log_agreeing() {
    for_each_act(|fixture, act| {
        let file: fn(&Fixture, &str) -> PathBuf = match act.kind {
            "key_added" | "key_removed" => |fixture, _| {
                let next = format!(".authorized_keys.{}", fixture.gateway().child.id());
                fixture.place.data().join(next)
            },
            "artifact_removed" => {
                |fixture, hash| fixture.place.data().join("artifacts").join(&hash[..2]).join(hash)
            }
            kind if kind.starts_with("toolpack_") => {
                |fixture, _| fixture.place.path().join("drawgate.lock.new")
            }
            _ => return,
        };
        let done = check(fixture, act, "something in the way", |fixture, case, act| {
            in_the_way(fixture, &file(fixture, &case.args[2]), act);
        });
        assert!(!done, "{}", act.kind);
    });
}

/// What an act on toolpacks can't do while a file or folder can't be changed: before the lock is
/// replaced, by replacing it, and after that.
const TOOLPACK_FILES: [(&str, &[&str]); 4] = [
    (
        "drawgate.lock",
        &[
            "toolpack_installed",
            "toolpack_updated",
            "toolpack_enabled",
            "toolpack_disabled",
            "toolpack_removed",
        ],
    ),
    ("toolpacks/.staged", &["toolpack_installed", "toolpack_updated"]),
    ("toolpacks/.leaving", &["toolpack_removed"]),
    ("toolpacks/ID", &["toolpack_updated", "toolpack_removed"]),
];

#[test]
fn a_lock_or_folder_that_can_not_be_changed_leaves_folder_lock_memory_and_log_agreeing() {
    for_each_act(|fixture, act| {
        for (file, kinds) in TOOLPACK_FILES.iter().filter(|(_, kinds)| kinds.contains(&act.kind)) {
            // So that there is one.
            fixture.perform(&fixture.case(act)).unwrap();
            let mut tried = false;
            let done = check(fixture, act, &format!("`{file}` read-only"), |fixture, case, act| {
                let path = fixture.place.path().join(file.replace("ID", &case.args[2]));
                assert!(path.exists(), "{}", path.display());
                let file = ReadOnly::make(vec![path]);
                tried = file.is_some();
                act();
            });
            assert!(!done || !tried, "{} with `{file}`, {kinds:?}", act.kind);
        }
    });
}
