use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use drawgate_core::model::Principal;
use drawgate_core::redact::Redactor;
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use tempfile::TempDir;

use super::ProfileState;
use crate::assemble::{Runtime, RuntimeOptions, StateLocation};
use crate::config::Config;
use crate::operations::{AcceptProfile, AgentError, OperationError, ShownProfile};
use crate::start::Start;

/// A folder with a configuration, profiles and the state of a gateway.
struct World {
    place: TempDir,
}

impl World {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("agents")).unwrap();
        Self { place }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join("agents").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), format!("---\ndescription: d\n---\n{text}\n")).unwrap();
    }

    async fn open(&self, start: Start) -> Runtime {
        let place = self.place.path();
        let loaded = Config::parse("", &place.join("drawgate.toml")).unwrap();
        let opening = RuntimeOptions {
            host: Host::new(Secrets::new(BTreeMap::<String, String>::new()), None).unwrap(),
            loaded: &loaded,
            state: StateLocation::Folder(place.join("data")),
            start,
            redactor: Arc::new(ArcSwap::from_pointee(Redactor::new([]))),
            embedder: None,
        };
        Runtime::open(opening).await.unwrap()
    }
}

async fn states(runtime: &Runtime) -> Vec<(String, ProfileState)> {
    let all = runtime.operations.profiles().await;
    all.into_iter().map(|shown| (shown.name, shown.state)).collect()
}

async fn accept(runtime: &Runtime, name: &str) -> Result<ShownProfile, OperationError> {
    let shown = runtime.operations.profile(name).await?;
    let hash = shown.profile.map(|profile| profile.hash).unwrap_or_default();
    let actor = Principal::new("ada").unwrap();
    runtime.operations.accept_profile(&actor, name, AcceptProfile { hash }).await
}

/// What is told to the model by a profile that counts.
fn instructions(runtime: &Runtime, name: &str) -> Option<String> {
    runtime.operations.profiles.get(name).map(|profile| profile.instructions.clone())
}

#[tokio::test]
async fn a_profile_counts_once_it_is_accepted_and_until_its_file_changes() {
    let world = World::new();
    world.write("helper.md", "One.");
    let runtime = world.open(Start::Nothing).await;
    assert_eq!(states(&runtime).await, [("helper".to_owned(), ProfileState::New)]);
    assert_eq!(instructions(&runtime, "helper"), None);

    let shown = accept(&runtime, "helper").await.unwrap();
    assert_eq!(shown.state, ProfileState::Accepted);
    assert_eq!(instructions(&runtime, "helper").as_deref(), Some("One."));

    world.write("helper.md", "Two.");
    assert_eq!(states(&runtime).await, [("helper".to_owned(), ProfileState::Changed)]);
    assert_eq!(instructions(&runtime, "helper"), None);

    // The very bytes that were accepted count again.
    world.write("helper.md", "One.");
    assert_eq!(states(&runtime).await, [("helper".to_owned(), ProfileState::Accepted)]);

    fs::remove_file(world.file("helper.md")).unwrap();
    assert_eq!(states(&runtime).await, [("helper".to_owned(), ProfileState::Gone)]);
    assert_eq!(instructions(&runtime, "helper"), None);
    runtime.close().await;
}

#[tokio::test]
async fn acceptance_outlives_the_gateway_and_ends_with_its_removal() {
    let world = World::new();
    world.write("helper.md", "One.");
    let runtime = world.open(Start::Nothing).await;
    accept(&runtime, "helper").await.unwrap();
    runtime.close().await;
    drop(runtime);

    let runtime = world.open(Start::Sources).await;
    assert_eq!(instructions(&runtime, "helper").as_deref(), Some("One."));
    let actor = Principal::new("ada").unwrap();
    runtime.operations.remove_profile(&actor, "helper").await.unwrap();
    assert_eq!(instructions(&runtime, "helper"), None);
    let again = runtime.operations.remove_profile(&actor, "helper").await;
    assert!(
        matches!(again, Err(OperationError::Agents(AgentError::ProfileNotAccepted(_)))),
        "{again:?}"
    );

    let events = runtime.audit().read(0, 1000).await.unwrap();
    let kinds: Vec<String> = events
        .iter()
        .map(|event| event.event().unwrap())
        .filter(|event| event.principal.as_deref() == Some("ada"))
        .map(|event| event.kind.as_str().to_owned())
        .collect();
    let expected = ["act_started", "profile_accepted", "act_started", "profile_removed"];
    assert_eq!(kinds, expected);
    runtime.close().await;
}

#[tokio::test]
async fn what_was_not_shown_and_what_is_broken_is_not_accepted() {
    let world = World::new();
    world.write("helper.md", "One.");
    fs::write(world.file("broken.md"), "no front matter").unwrap();
    let runtime = world.open(Start::Nothing).await;
    let shown = runtime.operations.profile("helper").await.unwrap();
    world.write("helper.md", "Two.");
    let hash = shown.profile.unwrap().hash;
    let actor = Principal::local();
    let accept_shown = AcceptProfile { hash };
    let changed = runtime.operations.accept_profile(&actor, "helper", accept_shown).await;
    assert!(
        matches!(changed, Err(OperationError::Agents(AgentError::ProfileChanged(_)))),
        "{changed:?}"
    );
    let broken = accept(&runtime, "broken").await;
    assert!(
        matches!(broken, Err(OperationError::Agents(AgentError::ProfileUnusable(_)))),
        "{broken:?}"
    );
    let unknown = accept(&runtime, "nobody").await;
    assert!(
        matches!(unknown, Err(OperationError::Agents(AgentError::UnknownProfile(_)))),
        "{unknown:?}"
    );
    assert!(runtime.operations.profiles.accepted().is_empty());
    runtime.close().await;
}

#[tokio::test]
async fn subscribers_hear_of_changes_and_of_nothing_else() {
    let world = World::new();
    world.write("helper.md", "One.");
    let runtime = world.open(Start::Nothing).await;
    let profiles = &runtime.operations.profiles;
    let mut changes = profiles.subscribe();
    profiles.refresh().await;
    assert!(!changes.has_changed().unwrap());
    accept(&runtime, "helper").await.unwrap();
    assert_eq!(changes.borrow_and_update().len(), 1);
    profiles.refresh().await;
    assert!(!changes.has_changed().unwrap());
    world.write("helper.md", "Two.");
    profiles.refresh().await;
    assert!(changes.borrow_and_update().is_empty());
    runtime.close().await;
}

#[tokio::test]
async fn edits_of_files_are_followed() {
    let world = World::new();
    world.write("helper.md", "One.");
    let runtime = world.open(Start::Sources).await;
    accept(&runtime, "helper").await.unwrap();
    let profiles = Arc::clone(&runtime.operations.profiles);
    let mut changes = profiles.subscribe();
    let follower = tokio::spawn(async move { profiles.follow().await });
    world.write("helper.md", "Longer than before.");
    changes.changed().await.unwrap();
    assert!(changes.borrow().is_empty());
    follower.abort();
    runtime.close().await;
}

#[tokio::test]
async fn another_configuration_has_other_folders() {
    let world = World::new();
    world.write("helper.md", "One.");
    let runtime = world.open(Start::Sources).await;
    let file = world.place.path().join("drawgate.toml");
    let other = Config::parse("[profiles]\nfolders = [\"others\"]", &file).unwrap();
    runtime.apply(&other).await.unwrap();
    let all = runtime.operations.profiles().await;
    let [gone] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((gone.name.as_str(), gone.state), ("others", ProfileState::Broken));
    assert!(gone.problems[0].message.starts_with("the folder can't be read"), "{gone:?}");
    runtime.close().await;
}

#[tokio::test]
async fn the_usual_folder_need_not_exist() {
    let world = World::new();
    fs::remove_dir(world.place.path().join("agents")).unwrap();
    let runtime = world.open(Start::Sources).await;
    assert_eq!(states(&runtime).await, []);
    runtime.close().await;
}

#[test]
fn the_examples_are_valid_and_say_nothing_without_effect() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agents");
    let all = super::read_folders(&[folder]);
    assert_eq!(all.len(), 4);
    for found in all {
        let path = found.path.display().to_string();
        assert_eq!(found.parsed.map(|parsed| parsed.warnings), Ok(Vec::new()), "{path}");
    }
}
