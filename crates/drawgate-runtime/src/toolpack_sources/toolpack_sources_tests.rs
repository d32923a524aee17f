use drawgate_core::model::Principal;
use drawgate_core::registry::{Pins, Registry};
use drawgate_core::source::ToolSource as _;
use drawgate_core::testing::{TestClock, TestStore, acts};
use drawgate_host::secrets::Secrets;
use serde_json::json;
use std::collections::BTreeMap;
use tempfile::TempDir;

use super::*;
use crate::config::Config;
use crate::toolpacks::{Downgrade, Folder, Intent, PackId, Terms};

/// A place with one pack, `own`, that is installed and enabled.
fn place() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let tool = json!({ "name": "say", "type": "command", "description": "Says it.", "command_template": "sh ./run.sh" });
    let manifest = json!({ "id": "own", "name": "Own", "version": "1.0.0", "tools": [tool] });
    std::fs::write(source.join("toolpack.json"), manifest.to_string()).unwrap();
    std::fs::write(source.join("run.sh"), "echo one\n").unwrap();
    let folder = Folder::open(&place.path().join("toolpacks")).unwrap();
    let terms = Terms { intent: Intent::Install, downgrade: Downgrade::Refuse, now_ms: 0 };
    folder.commit(folder.stage_folder(&source, &terms).unwrap()).unwrap();
    folder.enable(&id(), None).unwrap();
    place
}

fn toolpacks(place: &Path) -> Arc<Toolpacks> {
    let toolpacks = unapproved(place);
    accept(place, &toolpacks, None);
    toolpacks
}

fn id() -> PackId {
    "own".parse().unwrap()
}

/// Enables the pack, with consent to what is installed or to another content.
fn accept(place: &Path, toolpacks: &Toolpacks, content_hash: Option<&str>) {
    let folder = Folder::open(&place.join("toolpacks")).unwrap();
    let mut entry = folder.lock().unwrap().remove(&id()).unwrap();
    if let Some(content_hash) = content_hash {
        content_hash.clone_into(&mut entry.content_hash);
    }
    let consent = toolpacks.consent(&Principal::local(), &id(), &entry).unwrap();
    folder.enable(&id(), Some(consent)).unwrap();
}

fn unapproved(place: &Path) -> Arc<Toolpacks> {
    let store = Arc::new(TestStore::default());
    let clock = Arc::new(TestClock::default());
    let acts = acts(store.clone(), store.clone());
    let pins = Pins { documents: store.clone(), audit: store.clone(), acts, clock };
    let supervisor = Arc::new(SourceSupervisor::new(Arc::new(Registry::default()), pins));
    let host = Arc::new(Host::new(Secrets::new(BTreeMap::new()), None).unwrap());
    let loaded = Config::parse("", &place.join("drawgate.toml")).unwrap();
    let data = place.join("data");
    let key = SealingKey::new(&[7; 32]).unwrap();
    let parts = Parts { host, supervisor, audit: store.clone(), documents: store, key };
    Toolpacks::new(parts, &data, Start::Sources, &loaded)
}

#[tokio::test]
async fn a_pack_whose_files_are_right_again_is_made_anew() {
    let place = place();
    let toolpacks = toolpacks(place.path());
    toolpacks.refresh().await;
    let id = SourceId::new("own").unwrap();
    let script = place.path().join("toolpacks/own/run.sh");

    // As long as this is held, nobody looks at the files but the pack itself.
    let running = toolpacks.running.lock().await;
    let before = Arc::clone(&running[&id].source);
    before.manifest().await.unwrap();
    std::fs::write(&script, "echo two\n").unwrap();
    assert!(before.manifest().await.is_err() && before.is_changed());
    std::fs::write(&script, "echo one\n").unwrap();
    assert!(before.manifest().await.is_err(), "it stays broken");
    drop(running);

    toolpacks.refresh().await;
    let running = toolpacks.running.lock().await;
    let after = &running[&id].source;
    assert!(!Arc::ptr_eq(after, &before) && !after.is_changed());
    after.manifest().await.unwrap();
    assert_eq!(toolpacks.complaint("own"), None);
}

#[tokio::test]
async fn a_pack_that_stays_the_same_is_left_alone() {
    let place = place();
    let toolpacks = toolpacks(place.path());
    toolpacks.refresh().await;
    let id = SourceId::new("own").unwrap();
    let before = Arc::clone(&toolpacks.running.lock().await[&id].source);
    toolpacks.refresh().await;
    assert!(Arc::ptr_eq(&before, &toolpacks.running.lock().await[&id].source));
}

#[tokio::test]
async fn a_pack_runs_only_as_it_was_enabled_with_this_data_folder() {
    let place = place();
    let toolpacks = unapproved(place.path());
    let id = SourceId::new("own").unwrap();
    let other = format!("sha256:{:0>64}", 1);
    for (accepted, runs) in [(None, false), (Some(Some(other.as_str())), false), (Some(None), true)]
    {
        if let Some(content_hash) = accepted {
            accept(place.path(), &toolpacks, content_hash);
        }
        toolpacks.refresh().await;
        assert_eq!(toolpacks.running.lock().await.contains_key(&id), runs, "{accepted:?}");
        let complaint = toolpacks.complaint("own");
        assert_eq!(complaint.is_none(), runs, "{complaint:?}");
        assert!(runs || complaint.unwrap().contains("then enable it"));
    }
    let folder = Folder::open(&place.path().join("toolpacks")).unwrap();
    folder.disable(&self::id()).unwrap();
    toolpacks.refresh().await;
    assert!(toolpacks.running.lock().await.is_empty());
    folder.enable(&self::id(), None).unwrap();
    toolpacks.refresh().await;
    assert!(toolpacks.running.lock().await.is_empty(), "consent ended with it");
}

#[tokio::test]
async fn consents_in_the_store_are_taken_over_once() {
    let place = place();
    let toolpacks = unapproved(place.path());
    let content_hash = {
        let packs = toolpacks.installed().await.unwrap();
        packs[0].entry.as_ref().unwrap().content_hash.clone()
    };
    let documents = &toolpacks.documents;
    let old = |hash: &str| json!({ "contentHashes": [hash] });
    documents.put_document("toolpack", "own", &old(&content_hash)).await.unwrap();
    documents.put_document("toolpack", "gone", &old("sha256:1")).await.unwrap();
    for _ in 0..2 {
        toolpacks.take_over().await;
        assert!(documents.documents("toolpack").await.unwrap().is_empty());
        let packs = toolpacks.installed().await.unwrap();
        let entry = packs[0].entry.as_ref().unwrap();
        assert_eq!(entry.accepted.len(), 1);
        assert!(toolpacks.is_accepted("own", entry));
    }
}
