//! Every row of the table, in the box, by everybody.

use super::attempt::attack;
use super::caller::Caller;
use super::lab::Lab;
use super::table::{Row, rows};

/// The classes of each test below. They run side by side.
const GROUPS: &[&[&str]] = &[
    &["fs-write"],
    &["fs-persist"],
    &["fs-read"],
    &["secret", "ipc"],
    &["process"],
    &["priv", "ns"],
    &["syscall"],
    &["net"],
    &["resource"],
    &["life"],
];

/// Tried through the tools on the same folder; see `files`.
const BY_TOOLS: &str = "broker";

#[test]
fn every_class_has_its_test() {
    let mut tested: Vec<&str> = GROUPS.iter().copied().flatten().copied().collect();
    tested.push(BY_TOOLS);
    for row in rows() {
        assert!(tested.contains(&row.class), "{row:?}");
    }
    assert!(rows().len() > 140);
}

/// Tries all rows of these classes with these options, as everybody.
async fn holds(classes: &[&str], options: &[&str]) {
    holds_for(&Caller::all(), classes, options).await;
}

async fn holds_for(callers: &[Caller], classes: &[&str], options: &[&str]) {
    assert!(GROUPS.contains(&classes));
    let chosen = rows().into_iter().filter(|row| classes.contains(&row.class));
    let chosen: Vec<Row> = chosen.filter(|row| !row.is("gateway")).collect();
    assert!(!chosen.is_empty());
    let mut evidence = Vec::new();
    for caller in callers {
        let mut lab = Lab::new(*caller);
        for row in &chosen {
            evidence.extend(attack(&mut lab, row, options).await);
        }
    }
    assert!(evidence.is_empty(), "{} escapes:\n{}", evidence.len(), evidence.join("\n"));
}

#[tokio::test]
async fn nothing_is_written_outside_the_workspace() {
    holds(&["fs-write"], &[]).await;
}

#[tokio::test]
async fn nothing_stays_that_others_would_run() {
    holds(&["fs-persist"], &[]).await;
}

#[tokio::test]
async fn nothing_is_read_that_was_not_given() {
    holds(&["fs-read"], &[]).await;
}

#[tokio::test]
async fn no_secret_is_inherited_or_found() {
    holds(&["secret", "ipc"], &[]).await;
}

#[tokio::test]
async fn no_process_outside_is_touched() {
    holds(&["process"], &[]).await;
}

#[tokio::test]
async fn no_privilege_is_gained() {
    holds(&["priv", "ns"], &[]).await;
}

#[tokio::test]
async fn no_dangerous_system_call_is_answered() {
    holds(&["syscall"], &[]).await;
}

#[tokio::test]
async fn nobody_is_reached() {
    holds(&["net"], &[]).await;
}

#[tokio::test]
async fn nobody_is_reached_by_the_network_profile_either() {
    holds(&["net"], &["--profile", "network"]).await;
}

#[tokio::test]
async fn the_strict_profile_gains_nothing() {
    holds(&["priv", "ns"], &["--profile", "strict"]).await;
}

// The longest of all, so the two halves run side by side.
#[tokio::test]
async fn no_resource_is_exhausted_by_root() {
    let root = Caller::all().into_iter().filter(|caller| caller.is_root());
    holds_for(&root.collect::<Vec<_>>(), &["resource"], &[]).await;
}

#[tokio::test]
async fn no_resource_is_exhausted_by_an_ordinary_user() {
    let ordinary = Caller::all().into_iter().filter(|caller| !caller.is_root());
    holds_for(&ordinary.collect::<Vec<_>>(), &["resource"], &[]).await;
}

#[tokio::test]
async fn nothing_outlives_its_call() {
    holds(&["life"], &[]).await;
}
