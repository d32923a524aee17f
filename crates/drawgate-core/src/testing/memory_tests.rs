use super::*;
use crate::audit::{EventKind, HeadRecord, Pins, Verifier, VerifyKeys};

fn artifact(owner: &str, bytes: &[u8]) -> NewArtifact {
    NewArtifact {
        bytes: bytes.to_vec(),
        mime_type: "text/plain".to_owned(),
        owner: Principal::new(owner).unwrap(),
        tool_id: "demo:echo".to_owned(),
        created_at: 1,
    }
}

#[tokio::test]
async fn the_log_verifies() {
    let store = MemoryStore::new();
    for kind in [EventKind::Decision, EventKind::Outcome] {
        store
            .append(EventDraft::new(kind, 5).text("callId", "c").flag("started", true))
            .await
            .unwrap();
    }
    let checkpoint = store.checkpoint().await.unwrap().unwrap();
    assert_eq!(store.checkpoint().await.unwrap(), None, "nothing was appended since");
    let keys = Some(VerifyKeys::public(&checkpoint.key).unwrap());
    let mut verifier = Verifier::new(Pins { keys, ..Pins::default() });
    store.events().iter().for_each(|event| verifier.push(&event.body));
    verifier.checkpoint(&checkpoint.to_json());
    let report = verifier.finish(None::<&HeadRecord>);
    assert_eq!((report.exit_code(), report.events, report.checkpoints), (0, 2, 1), "{report}");
    assert_eq!(store.read(1, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_artifact_is_read_by_its_owners_and_the_local_principal() {
    let store = MemoryStore::new();
    let kept = store.put(artifact("ada", b"x")).await.unwrap();
    let can = async |name: &str| {
        store.get(&kept.sha256, &Principal::new(name).unwrap()).await.unwrap().is_some()
    };
    assert!(can("ada").await);
    assert!(can("local").await);
    assert!(!can("bob").await);
    store.put(artifact("bob", b"x")).await.unwrap();
    assert!(can("bob").await);
    assert_eq!(store.list(&Principal::local()).await.unwrap().len(), 2);
    assert!(store.remove(&kept.sha256).await.unwrap());
    assert!(!can("ada").await);
}
