//! Every store passes the suite, also behind what keeps events while a log can't be written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use drawgate_core::store::Storage;
use drawgate_core::testing::{TestClock, store_suite};
use drawgate_host::store::{
    self, DataDir, Durability, OnAuditFailure, StorageChoice, StorageOptions,
};

use super::folder;

fn open(choice: &StorageChoice, clock: Arc<TestClock>) -> Storage {
    let options = StorageOptions {
        durability: Durability::Process,
        checkpoint_every: store_suite::CHECKPOINT_EVERY,
        head_pause: Duration::from_hours(1),
        payload_quota: store_suite::PAYLOAD_QUOTA,
        on_audit_failure: OnAuditFailure::Memory,
        artifacts: store_suite::ARTIFACTS,
        version: "test".to_owned(),
        clock,
    };
    store::open(choice, &options).unwrap()
}

/// The same store; its log is the one that calls write to.
fn resilient(storage: Storage) -> Storage {
    Storage { log: Arc::clone(&storage.audit), ..storage }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_memory_passes() {
    let memory = StorageChoice::Memory;
    store_suite::check_store(async |clock| open(&memory, clock)).await;
    store_suite::check_store(async |clock| resilient(open(&memory, clock))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_a_folder_passes() {
    let place = tempfile::tempdir().unwrap();
    let opened = AtomicU32::new(0);
    let fresh = || {
        let number = opened.fetch_add(1, Ordering::Relaxed).to_string();
        StorageChoice::Folder(DataDir::open(place.path().join(number)).unwrap())
    };
    store_suite::check_store(async |clock| open(&fresh(), clock)).await;
    store_suite::check_store(async |clock| resilient(open(&fresh(), clock))).await;
}

#[tokio::test]
async fn a_store_in_a_folder_is_durable() {
    let (_keep, dir) = folder();
    let folder = StorageChoice::Folder(dir);
    store_suite::check_durable_store(async |clock| open(&folder, clock)).await;
}
