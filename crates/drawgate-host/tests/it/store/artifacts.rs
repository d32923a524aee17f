use std::path::PathBuf;
use std::sync::Arc;

use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::clock::Clock as _;
use drawgate_core::model::{ArtifactRef, Principal};
use drawgate_core::store::{
    ArtifactLimits, Artifacts, AuditLog, NewArtifact, StoreError, VerifyOptions,
};
use drawgate_core::testing::TestClock;
use drawgate_host::store::sqlite::{FileArtifacts, Reader};
use drawgate_host::store::{DataDir, Durability};

use super::{decision, folder, open};

/// The time that a new [`TestClock`] shows; the times of artifacts below count from it.
const START: u64 = 1_700_000_000_000;

fn artifact(owner: &str, bytes: &[u8], at: u64) -> NewArtifact {
    NewArtifact {
        bytes: bytes.to_vec(),
        mime_type: "text/plain".to_owned(),
        owner: Principal::new(owner).unwrap(),
        tool_id: "demo:echo".to_owned(),
        created_at: START + at,
    }
}

fn limited(dir: &DataDir, quota: u64, max_age_ms: u64) -> FileArtifacts {
    clocked(dir, quota, max_age_ms, Arc::default())
}

fn clocked(dir: &DataDir, quota: u64, max_age_ms: u64, clock: Arc<TestClock>) -> FileArtifacts {
    let limits = ArtifactLimits { quota, max_age_ms };
    FileArtifacts::open(dir, Durability::Process, limits, clock).unwrap()
}

fn file(dir: &DataDir, kept: &ArtifactRef) -> PathBuf {
    dir.file("artifacts").join(&kept.sha256[..2]).join(&kept.sha256)
}

async fn names(store: &FileArtifacts) -> Vec<u64> {
    let all = store.list(&Principal::local()).await.unwrap();
    all.iter().map(|info| info.created_at - START).collect()
}

#[tokio::test]
async fn bytes_come_back_to_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_keep, dir) = folder();
    let store = limited(&dir, 1000, 1000);
    let kept = store.put(artifact("ada", b"hello", 1)).await.unwrap();
    assert_eq!(std::fs::metadata(file(&dir, &kept)).unwrap().permissions().mode() & 0o777, 0o600);
    let read =
        async |name: &str| store.get(&kept.sha256, &Principal::new(name).unwrap()).await.unwrap();
    let (info, bytes) = read("ada").await.unwrap();
    assert_eq!((info.reference, bytes.as_slice()), (kept.clone(), &b"hello"[..]));
    assert!(read("local").await.is_some());
    assert!(read("bob").await.is_none());
    store.put(artifact("bob", b"hello", 2)).await.unwrap();
    assert!(read("bob").await.is_some());
    assert!(store.remove(&kept.sha256).await.unwrap());
    assert!(!store.remove(&kept.sha256).await.unwrap());
    assert!(read("ada").await.is_none() && !file(&dir, &kept).exists());
    assert!(store.get("../../audit.key", &Principal::local()).await.unwrap().is_none());
}

#[tokio::test]
async fn the_oldest_make_room() {
    let (_keep, dir) = folder();
    let store = limited(&dir, 10, 1000);
    for at in 1..=3 {
        store.put(artifact("ada", format!("{at}aaa").as_bytes(), at)).await.unwrap();
    }
    assert_eq!(names(&store).await, [3, 2]);
    assert!(matches!(
        store.put(artifact("ada", &[0; 11], 4)).await,
        Err(StoreError::Quota { quota: 10, .. })
    ));
    store.put(artifact("ada", b"x", 2000)).await.unwrap();
    assert_eq!(names(&store).await, [2000], "the others were too old");
}

#[tokio::test]
async fn a_changed_file_is_never_served() {
    let (_keep, dir) = folder();
    let store = limited(&dir, 1000, 1000);
    let kept = store.put(artifact("ada", b"hello", 1)).await.unwrap();
    std::fs::write(file(&dir, &kept), b"hellO").unwrap();
    let result = store.get(&kept.sha256, &Principal::local()).await;
    assert!(matches!(result, Err(StoreError::Corrupt { .. })), "{result:?}");
}

#[tokio::test]
async fn leftovers_of_a_crash_are_removed() {
    let (_keep, dir) = folder();
    drop(limited(&dir, 1000, 1000).put(artifact("ada", b"a", 1)).await);
    let leftover = dir.file("artifacts").join("abc.tmp");
    std::fs::write(&leftover, b"half").unwrap();
    let store = limited(&dir, 1000, 1000);
    assert!(!leftover.exists());
    assert_eq!(names(&store).await, [1]);
}

#[tokio::test]
async fn verification_compares_artifacts_with_events() {
    let (_keep, dir) = folder();
    let store = limited(&dir, 1000, u64::MAX);
    let log = open(&dir);
    let mut kept = Vec::new();
    for call in ["a", "b"] {
        let reference = store.put(artifact("ada", call.as_bytes(), 1)).await.unwrap();
        log.append(decision(call)).await.unwrap();
        // As young as the log's own events, so that age does not explain that an artifact is gone.
        let draft = EventDraft::new(EventKind::Outcome, TestClock::default().now_ms());
        let draft =
            draft.text("callId", call).flag("started", true).text("artifact", &reference.sha256);
        log.append(draft).await.unwrap();
        kept.push(reference);
    }
    let check = || {
        let options = VerifyOptions { artifacts: true, ..VerifyOptions::default() };
        Reader::open(&dir).unwrap().verify(options).unwrap()
    };
    assert_eq!(check().exit_code(), 0, "{}", check());
    std::fs::write(file(&dir, &kept[1]), b"B").unwrap();
    assert_eq!(check().first_bad.map(|bad| bad.0), Some(5));
    std::fs::remove_file(file(&dir, &kept[1])).unwrap();
    let report = check();
    assert!(report.to_string().contains(&kept[1].sha256), "the artifact is named: {report}");
    assert_eq!(report.first_bad.map(|bad| bad.0), Some(5));
    std::fs::write(file(&dir, &kept[1]), b"b").unwrap();
    store.remove(&kept[0].sha256).await.unwrap();
    assert_eq!(check().exit_code(), 0, "its removal is on record");
}

#[tokio::test]
async fn the_old_are_not_served_and_go_without_a_new_one() {
    let (_keep, dir) = folder();
    let clock = Arc::new(TestClock::default());
    let store = clocked(&dir, 1000, 100, Arc::clone(&clock));
    let old = store.put(artifact("ada", b"old", 0)).await.unwrap();
    store.put(artifact("ada", b"young", 50)).await.unwrap();
    clock.advance(100);
    assert_eq!(store.expire(clock.now_ms()).await.unwrap(), 0);
    assert_eq!(names(&store).await, [50, 0]);
    clock.advance(1);
    assert_eq!(names(&store).await, [50]);
    assert!(store.get(&old.sha256, &Principal::local()).await.unwrap().is_none());
    assert!(file(&dir, &old).exists());
    assert_eq!(store.expire(clock.now_ms()).await.unwrap(), 1);
    assert!(!file(&dir, &old).exists());
}

#[tokio::test]
async fn what_retention_removed_is_no_loss() {
    let (_keep, dir) = folder();
    let clock = Arc::new(TestClock::default());
    let store = clocked(&dir, 1000, 100, Arc::clone(&clock));
    let old = store.put(artifact("ada", b"old", 0)).await.unwrap();
    let log = open(&dir);
    log.append(decision("a")).await.unwrap();
    let draft = EventDraft::new(EventKind::Outcome, clock.now_ms());
    let draft = draft.text("callId", "a").flag("started", true).text("artifact", &old.sha256);
    log.append(draft).await.unwrap();
    let code = |artifact_max_age_ms| {
        let options =
            VerifyOptions { artifacts: true, artifact_max_age_ms, ..VerifyOptions::default() };
        Reader::open(&dir).unwrap().verify(options).unwrap().exit_code()
    };
    clock.advance(1000);
    store.put(artifact("ada", b"new", 1000)).await.unwrap();
    assert!(!file(&dir, &old).exists());
    assert_eq!(code(100), 0, "the put that removed it has kept the record");
    store.put(artifact("bob", b"old", 1000)).await.unwrap();
    std::fs::remove_file(file(&dir, &old)).unwrap();
    assert_eq!(code(100), 2, "it was stored again, so that its absence is a loss");
    // A later event makes the artifact older than the configured age, which then explains it.
    log.append(EventDraft::new(EventKind::AgentAdded, START + 200)).await.unwrap();
    assert_eq!((code(100), code(300)), (0, 2));
}
