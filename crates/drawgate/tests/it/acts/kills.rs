//! `kill -9` at every step of every act. The steps are held up by locks on the two databases, which
//! the gateway waits for: the store between intent and change, the log between change and outcome,
//! the store again before the outcome is struck from what is owed.

use std::time::Duration;

use rusqlite::Connection;

use super::table::{Act, Case};
use super::{Fixture, for_each_act, until};

/// Kills at moments of no choice.
const ROUNDS: u64 = 4;

/// Where an act is when its gateway is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The intent is in the log.
    Intent,
    /// What is owed is in the store, and with it the change, unless it is one of files.
    Owed,
    /// The change is in force.
    Changed,
    /// The outcome is in the log, and still noted as owed.
    Outcome,
}

const STEPS: [Step; 4] = [Step::Intent, Step::Owed, Step::Changed, Step::Outcome];

fn hold(fixture: &Fixture, database: &str) -> Connection {
    let connection = fixture.database(database);
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

fn owed(fixture: &Fixture) -> u32 {
    let sql = "SELECT count(*) FROM owed";
    fixture.reading("drawgate.db").query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Begins an act and kills the gateway at a step of it.
fn kill_at(fixture: &mut Fixture, act: &Act, case: &Case, step: Step) {
    let (begun, done) = (fixture.begun(act.kind), fixture.done(act.kind));
    let store = hold(fixture, "drawgate.db");
    let mut command = fixture.begin(case);
    until("the intent is in the log", || fixture.begun(act.kind) > begun);
    // What is held stays held until the gateway is dead.
    let mut held = vec![store];
    if step != Step::Intent {
        let log = hold(fixture, "audit.db");
        held.clear();
        held.push(log);
        until("the outcome is owed", || owed(fixture) > 0);
    }
    if matches!(step, Step::Changed | Step::Outcome) {
        until("the change is in force", || (case.is_done)(fixture) == Some(true));
    }
    if step == Step::Outcome {
        let store = hold(fixture, "drawgate.db");
        held.clear();
        held.push(store);
        until("the outcome is in the log", || fixture.done(act.kind) > done);
    }
    fixture.kill();
    drop(held);
    command.wait().unwrap();
}

/// The act is wholly there or not at all, the log says which, and what was not done can be done.
/// Returns whether it was.
fn check(fixture: &Fixture, act: &Act, case: &Case, before: usize, when: &str) -> bool {
    let context = format!("{} killed {when}", act.kind);
    let done = (case.is_done)(fixture).unwrap_or_else(|| panic!("in part. {context}"));
    assert_eq!(fixture.done(act.kind) - before, usize::from(done), "the log. {context}");
    for token in &case.until_done {
        assert_eq!(fixture.is_known(token), !done, "tokens. {context}");
    }
    fixture.check_log();
    if !done {
        fixture.perform(case).unwrap_or_else(|error| panic!("again: {error}. {context}"));
        assert_eq!((case.is_done)(fixture), Some(true), "done again. {context}");
    }
    done
}

#[test]
fn killed_at_any_step_an_act_is_wholly_done_or_not_at_all() {
    for_each_act(|fixture, act| {
        for step in STEPS {
            let case = fixture.case(act);
            let before = fixture.done(act.kind);
            kill_at(fixture, act, &case, step);
            fixture.start();
            let done = check(fixture, act, &case, before, &format!("at {step:?}"));
            match step {
                Step::Intent => assert!(!done, "{} killed at {step:?}", act.kind),
                // Files are changed after that, so that both may be.
                Step::Owed => {}
                Step::Changed | Step::Outcome => assert!(done, "{} killed at {step:?}", act.kind),
            }
        }
    });
}

#[test]
fn killed_at_any_moment_an_act_is_wholly_done_or_not_at_all() {
    for_each_act(|fixture, act| {
        for round in 0..ROUNDS {
            let case = fixture.case(act);
            let before = fixture.done(act.kind);
            let mut command = fixture.begin(&case);
            // Spread over the time that a command takes.
            std::thread::sleep(Duration::from_millis(10 + 35 * round));
            fixture.kill();
            // It may have found no gateway, and do the act itself.
            command.wait().unwrap();
            fixture.start();
            check(fixture, act, &case, before, &format!("in round {round}"));
        }
    });
}
