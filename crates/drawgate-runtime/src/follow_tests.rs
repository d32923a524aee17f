use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;

use drawgate_core::model::{ErrorCode, ToolInvocation};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::redact::Redactor;
use drawgate_core::testing::caller;
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use tempfile::TempDir;

use super::*;
use crate::assemble::{RuntimeOptions, Start, StateLocation};
use crate::config::{Config, ConfigSource};
use crate::edits::{Edits, InForce};

/// Every call is denied, by what stands at the end.
const BEFORE: &str = r#"
[limits]
max_timeout_seconds = 600
[policy.defaults]
fallback = "deny"
"#;

/// Longer than the follower takes to look, and no longer than an editor may take to save.
const SAVING: Duration = Duration::from_millis(1200);

/// Rules of a file of their own.
fn rules(fallback: &str) -> String {
    format!("{{\n\"version\": \"1.0\",\n\"defaults\": {{ \"fallback\": \"{fallback}\" }}\n}}\n")
}

/// A gateway that follows a file which need not be there.
struct Followed {
    place: TempDir,
    runtime: Arc<Runtime>,
}

impl Followed {
    async fn start(text: Option<&str>) -> Self {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("drawgate.toml");
        fs::write(place.path().join("policy.json"), rules("deny")).unwrap();
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
        }
        let loaded = Config::load(ConfigSource::Optional(file)).unwrap();
        let options = RuntimeOptions {
            host: Host::new(Secrets::new(BTreeMap::<String, String>::new()), None).unwrap(),
            loaded: &loaded,
            state: StateLocation::Folder(place.path().join("data")),
            start: Start::Sources,
            redactor: Arc::new(arc_swap::ArcSwap::from_pointee(Redactor::new([]))),
            embedder: None,
        };
        let runtime = Arc::new(Runtime::open(options).await.unwrap());
        runtime.start_upkeep();
        Self { place, runtime }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn in_force(&self) -> InForce {
        self.runtime.edits.status().in_force
    }

    async fn is_denied(&self) -> bool {
        let call =
            ToolInvocation { tool_id: "builtin:vfs_list".to_owned(), ..ToolInvocation::default() };
        let gateway = self.runtime.gateway();
        let result = gateway.call(&caller("local"), call, CallOptions::default()).await;
        result.error.is_some_and(|error| error.code == ErrorCode::PermissionDenied)
    }

    /// Calls until something is in force; every call must be denied meanwhile.
    async fn denied_until(&self, what: &str, is_there: impl Fn(&InForce) -> bool) {
        loop {
            assert!(self.is_denied().await, "{what}: a call passed");
            if is_there(&self.in_force()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// How programs save a file.
#[derive(Debug, Clone, Copy)]
enum Saving {
    /// Emptied, and written later.
    Emptied,
    /// In place, in two parts; between them the file is valid.
    InParts,
    /// In place, byte by byte.
    ByBytes,
    /// The old one is set aside, and a new one is filled.
    SetAside,
    /// Another file is put in its place.
    Renamed,
    /// By `sed -i`.
    Sed,
}

impl Saving {
    const ALL: [Self; 6] =
        [Self::Emptied, Self::InParts, Self::ByBytes, Self::SetAside, Self::Renamed, Self::Sed];

    async fn save(self, path: &Path, text: &str) {
        let (first, last) = text.split_at(text.find("[policy").unwrap());
        let in_parts = async || {
            let mut file = File::create(path).unwrap();
            file.write_all(first.as_bytes()).unwrap();
            tokio::time::sleep(SAVING).await;
            file.write_all(last.as_bytes()).unwrap();
        };
        let beside = path.with_extension("toml~");
        match self {
            Self::Emptied => {
                let mut file = File::create(path).unwrap();
                tokio::time::sleep(SAVING).await;
                file.write_all(text.as_bytes()).unwrap();
            }
            Self::InParts => in_parts().await,
            Self::ByBytes => {
                let mut file = File::create(path).unwrap();
                for byte in text.as_bytes() {
                    file.write_all(&[*byte]).unwrap();
                    tokio::time::sleep(SAVING / 100).await;
                }
            }
            Self::SetAside => {
                fs::rename(path, &beside).unwrap();
                in_parts().await;
                fs::remove_file(beside).unwrap();
            }
            Self::Renamed => {
                fs::write(&beside, text).unwrap();
                fs::rename(beside, path).unwrap();
            }
            Self::Sed => {
                let arguments = ["-i", "s/600/599/"].map(std::ffi::OsStr::new);
                #[expect(clippy::disallowed_methods, reason = "an editor of the test's own")]
                let done = std::process::Command::new("sed").args(arguments).arg(path).status();
                assert!(done.unwrap().success());
            }
        }
    }
}

#[tokio::test]
async fn a_configuration_that_is_being_saved_is_not_in_force_half() {
    let after = BEFORE.replace("600", "599");
    let hash = hex::encode(Sha256::digest(&after));
    let mut rows = tokio::task::JoinSet::new();
    for saving in Saving::ALL {
        let (after, hash) = (after.clone(), hash.clone());
        rows.spawn(async move {
            let followed = Followed::start(Some(BEFORE)).await;
            let file = followed.file("drawgate.toml");
            let name = format!("{saving:?}");
            tokio::join!(
                saving.save(&file, &after),
                followed.denied_until(&name, |in_force| in_force.config_hash == hash),
            );
            followed.runtime.close().await;
        });
    }
    while let Some(row) = rows.join_next().await {
        row.unwrap();
    }
}

#[tokio::test]
async fn an_edit_that_is_called_finished_counts() {
    let after = "[limits]\nmax_timeout_seconds = 600\n";
    let words: [&dyn Fn(&Edits); 2] =
        [&Edits::finish_all, &|edits: &Edits| edits.finish(hex::encode(Sha256::digest(after)))];
    for word in words {
        let followed = Followed::start(Some(BEFORE)).await;
        fs::write(followed.file("drawgate.toml"), after).unwrap();
        word(&followed.runtime.edits);
        while followed.is_denied().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        followed.runtime.close().await;
    }
}

#[tokio::test]
async fn what_a_command_calls_finished_says_nothing_about_other_files() {
    let before = "[policy]\nfile = \"policy.json\"\n[limits]\nmax_timeout_seconds = 600\n";
    let after = before.replace("600", "599");
    let hash = hex::encode(Sha256::digest(&after));
    let words: [&dyn Fn(&Edits); 2] = [&|edits: &Edits| edits.finish(hash.clone()), &Edits::look];
    for word in words {
        let followed = Followed::start(Some(before)).await;
        let saving = async {
            fs::write(followed.file("policy.json"), rules("allow")).unwrap();
            fs::write(followed.file("drawgate.toml"), &after).unwrap();
            word(&followed.runtime.edits);
            tokio::time::sleep(SAVING).await;
            fs::write(followed.file("policy.json"), rules("deny")).unwrap();
        };
        let in_force = |in_force: &InForce| in_force.config_hash == hash;
        tokio::join!(saving, followed.denied_until("policy.json", in_force));
        followed.runtime.close().await;
    }
}

#[tokio::test]
async fn the_packages_of_a_gateway_without_a_configuration_are_followed() {
    let followed = Followed::start(None).await;
    let package = serde_json::json!({
        "request": { "ecosystem": "npm", "packages": ["server"] },
        "pins": { "npm": { "manifest": {}, "lock": {} } },
        "tree": "t1", "program": "server", "contentHash": "sha256:0",
    });
    let package = serde_json::from_value(package).unwrap();
    let hash = PackageLock::edit(&followed.file("drawgate.lock"), |servers| {
        servers.insert(drawgate_core::model::SourceId::new("far").unwrap(), package);
    });
    let hash = hash.unwrap();
    while followed.in_force().packages_hash != hash {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(followed.in_force().file, None);
    followed.runtime.close().await;
}
