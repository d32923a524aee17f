use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use drawgate_core::audit::{Chain, EventDraft, EventKind};
use drawgate_core::model::{Capability, CapabilityGrant, Principal};
use drawgate_core::store::{Agent, Owed, Stage, Store, StoreError, Write};
use drawgate_host::store::sqlite::SqliteStore;
use drawgate_host::store::{DataDir, DataDirError, Durability};

use super::folder;

fn agent(name: &str) -> Agent {
    Agent {
        name: Principal::new(name).unwrap(),
        token_hash: "ab".repeat(32),
        capabilities: vec![Capability::new("demo").unwrap()],
        created_at: 5,
        expose: drawgate_core::policy::Expose::Search,
    }
}

fn grant(id: &str) -> CapabilityGrant {
    CapabilityGrant {
        grant_id: id.into(),
        capability: Capability::new("file.read").unwrap(),
        issued_at: 1,
        expires_at: Some(9),
        scope: None,
        approval_id: None,
    }
}

#[tokio::test]
async fn agents_and_grants_outlive_the_store() {
    let (_keep, dir) = folder();
    let store = SqliteStore::open(&dir, Durability::Power).unwrap();
    let writes = vec![
        Write::PutAgent(agent("bob")),
        Write::PutAgent(agent("ada")),
        Write::PutAgent(Agent { created_at: 6, ..agent("bob") }),
        Write::PutGrant(grant("g2")),
        Write::PutGrant(grant("g1")),
    ];
    store.commit(writes).await.unwrap();
    drop(store);
    let store = SqliteStore::open(&dir, Durability::Process).unwrap();
    let agents = store.agents().await.unwrap();
    assert_eq!(
        agents,
        [agent("ada"), Agent { created_at: 6, ..agent("bob") }],
        "with their tokens' hashes"
    );
    assert_eq!(store.grants().await.unwrap(), [grant("g1"), grant("g2")]);
    let ada = Principal::new("ada").unwrap();
    store.commit(vec![Write::RemoveGrant("g1".into()), Write::RemoveAgent(ada)]).await.unwrap();
    assert_eq!(store.agents().await.unwrap().len(), 1);
    assert_eq!(store.grants().await.unwrap(), [grant("g2")]);
}

#[tokio::test]
async fn of_several_writes_all_or_none_are_made_and_an_owed_event_comes_back_as_it_was() {
    let (_keep, dir) = folder();
    let store = SqliteStore::open(&dir, Durability::Process).unwrap();
    let outcome = EventDraft::new(EventKind::GrantIssued, 7)
        .texts("grantIds", ["g1"])
        .text("capability", "file.read")
        .number("expiresAt", 9)
        .flag("approved", true);
    let owed = Owed { act_id: "a1".to_owned(), intent: 3, stage: Stage::Done, outcome };
    let writes = vec![Write::PutGrant(grant("g1")), Write::Owe(owed.clone())];
    let other = rusqlite::Connection::open(dir.file("drawgate.db")).unwrap();
    other.execute_batch("ALTER TABLE owed RENAME TO lost").unwrap();
    store.commit(writes.clone()).await.unwrap_err();
    assert_eq!(store.grants().await.unwrap(), [], "the first write is undone");
    other.execute_batch("ALTER TABLE lost RENAME TO owed").unwrap();
    store.commit(writes).await.unwrap();
    let read = store.owed().await.unwrap();
    let chained = |owed: &Owed| Chain::default().seal(&owed.outcome).body;
    assert_eq!(read.iter().map(chained).collect::<Vec<_>>(), [chained(&owed)]);
    assert_eq!((read[0].intent, read[0].stage), (3, Stage::Done));
    store.commit(vec![Write::Settle("a1".to_owned())]).await.unwrap();
    assert_eq!(store.owed().await.unwrap(), []);
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let (_keep, dir) = folder();
    drop(SqliteStore::open(&dir, Durability::Process).unwrap());
    let connection = rusqlite::Connection::open(dir.file("drawgate.db")).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let Err(StoreError::Corrupt { reason, .. }) = SqliteStore::open(&dir, Durability::Process)
    else {
        panic!("opened")
    };
    assert!(
        reason.contains("newer version (schema 99") && reason.contains("drawgate.db"),
        "{reason}"
    );
}

#[test]
fn one_process_writes_in_a_folder() {
    let (_keep, dir) = folder();
    let lock = dir.exclusive().unwrap();
    let Err(DataDirError::Locked { pid, .. }) = DataDir::open(dir.path()).unwrap().exclusive()
    else {
        panic!("locked twice")
    };
    assert_eq!(pid, std::process::id().to_string());
    drop(lock);
    dir.exclusive().unwrap();
}

#[test]
fn a_folder_is_for_its_owner_alone_and_named_in_errors() {
    let (keep, dir) = folder();
    assert_eq!(std::fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
    let file = keep.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = DataDir::open(file.join("data")).unwrap_err();
    assert!(error.to_string().contains("file/data"), "{error}");
    let error = DataDir::existing(keep.path().join("absent")).unwrap_err();
    assert!(error.to_string().contains("absent"), "{error}");
}

fn modes(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_folder_that_others_may_open_is_refused_with_what_repairs_it() {
    let (keep, dir) = folder();
    let inner = dir.path().join("artifacts/ab");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::create_dir_all(dir.path().join("workspace/open")).unwrap();
    for path in ["own.key", "artifacts/ab/cd", "workspace/open/file"] {
        std::fs::write(dir.path().join(path), "").unwrap();
    }
    let at = |name: &str| dir.path().join(name);
    // Its own, those in it, what is not its own, those above it.
    let rows = [
        (at(""), 0o700, None),
        (at(""), 0o755, Some("chmod -R go-rwx")),
        (at(""), 0o777, Some("chmod -R go-rwx")),
        (at(""), 0o710, Some("chmod -R go-rwx")),
        (at("own.key"), 0o600, None),
        (at("own.key"), 0o644, None),
        (at("own.key"), 0o664, Some("chmod -R go-rwx")),
        (at("artifacts/ab/cd"), 0o666, Some("chmod -R go-rwx")),
        (at("artifacts/ab"), 0o777, Some("chmod -R go-rwx")),
        (at("workspace/open/file"), 0o666, None),
        (at("workspace/open"), 0o777, None),
        (at("workspace"), 0o777, None),
        (keep.path().to_owned(), 0o755, None),
        (keep.path().to_owned(), 0o777, Some("chmod go-w")),
        (keep.path().to_owned(), 0o1777, None),
    ];
    for (path, mode, repaired_by) in rows {
        let before = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        modes(&path, mode);
        let opened = DataDir::open(dir.path()).map_err(|error| error.to_string());
        modes(&path, before);
        match (opened, repaired_by) {
            (Ok(_), None) => {}
            (Err(said), Some(command)) => {
                assert!(said.contains(command), "{} {mode:o}: {said}", path.display());
            }
            (opened, _) => panic!("{} {mode:o}: {opened:?}", path.display()),
        }
    }
    // A reader believes nothing of it either.
    modes(dir.path(), 0o755);
    assert!(matches!(DataDir::existing(dir.path()), Err(DataDirError::Open { .. })));
}

#[test]
fn a_file_of_somebody_elses_is_refused() {
    let (_keep, dir) = folder();
    let file = dir.path().join("own.key");
    std::fs::write(&file, "").unwrap();
    if std::os::unix::fs::chown(&file, Some(12_345), None).is_err() {
        eprintln!("skipped: it needs root");
        return;
    }
    let error = DataDir::open(dir.path()).unwrap_err();
    assert!(matches!(&error, DataDirError::Foreign { path, .. } if *path == file), "{error}");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::chown(dir.path(), Some(12_345), None).unwrap();
    assert!(matches!(DataDir::open(dir.path()), Err(DataDirError::Foreign { .. })));
    // Root looks after the gateways of others.
    DataDir::existing(dir.path()).unwrap();
}

#[tokio::test]
async fn all_files_are_the_owners_alone_and_out_of_git_whatever_the_umask() {
    let keep = tempfile::tempdir().unwrap();
    rustix::process::umask(rustix::fs::Mode::empty());
    let dir = DataDir::open(keep.path().join("data")).unwrap();
    let audit = super::open(&dir);
    let store = SqliteStore::open(&dir, Durability::Process).unwrap();
    let _lock = dir.exclusive().unwrap();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir.path()).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        let name = entry.file_name().into_string().unwrap();
        assert_eq!(mode, 0o600, "{name}");
        names.push(name);
    }
    for name in ["drawgate.db", "drawgate.db-wal", "audit.db", "audit.db-shm", "audit.pub", "lock"]
    {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    assert_eq!(std::fs::read_to_string(dir.path().join(".gitignore")).unwrap(), "*\n");
    drop((audit, store));
}
