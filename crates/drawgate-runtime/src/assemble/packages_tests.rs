use drawgate_host::secrets::Secrets;
use serde_json::json;

use super::*;
use crate::config::Config;
use crate::packages::{PackageRequest, Pins, content_hash};

fn load(text: &str) -> Loaded {
    Config::parse(&format!("[servers.a]\n{text}"), Path::new("/x/d.toml")).unwrap()
}

fn pinned(tree: &str, content_hash: &str) -> PinnedPackage {
    PinnedPackage {
        request: PackageRequest {
            ecosystem: Ecosystem::Npm,
            packages: vec!["x".to_owned()],
            program: None,
            python: None,
            options: Vec::new(),
        },
        pins: Pins::Npm { manifest: json!({}), lock: json!({}) },
        tree: tree.to_owned(),
        program: "node_modules/.bin/x".to_owned(),
        content_hash: content_hash.to_owned(),
    }
}

fn id() -> SourceId {
    SourceId::new("a").unwrap()
}

fn of(loaded: &Loaded) -> Result<Option<InstalledPackage>, String> {
    InstalledPackage::of(loaded, &id(), &loaded.config.servers[&id()])
}

#[test]
fn a_runner_without_a_package_and_without_a_way_to_one_is_refused() {
    let npx = "command = \"npx\"\nargs = [\"-y\", \"x\"]\n";
    let fetch = "its package has not been fetched";
    let hosts = "sandbox = \"network\"\npermissions = { hosts = [\"*\"] }\n";
    for (text, expected) in [
        (npx.to_owned(), Some(fetch)),
        (format!("{npx}sandbox = \"strict\"\n"), Some(fetch)),
        (format!("{npx}sandbox = \"network\"\n"), Some(fetch)),
        (
            "command = \"npx\"\nargs = [\"./x\"]\n".to_owned(),
            Some("is not a package of a registry"),
        ),
        (format!("{npx}{hosts}"), None),
        (format!("{npx}sandbox = \"none\"\n"), None),
        (format!("{npx}working_dir = \"/tmp\"\n"), None),
        ("command = \"node\"\n".to_owned(), None),
        ("url = \"https://a.example\"\n".to_owned(), None),
    ] {
        match (of(&load(&text)), expected) {
            (Err(reason), Some(expected)) => assert!(reason.contains(expected), "{text}: {reason}"),
            (Ok(None), None) => {}
            (other, _) => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_fetched_package_runs_in_the_runner_s_place() {
    let mut loaded = load("command = \"npx\"\nargs = [\"-y\", \"x\", \"--flag\"]\n");
    loaded.packages.servers.insert(id(), pinned("t1", "sha256:0"));
    let installed = of(&loaded).unwrap().unwrap();
    let data = tempfile::tempdir().unwrap();
    let server = installed.installed(data.path(), &id(), &loaded.config.servers[&id()]).unwrap();
    let tree = data.path().canonicalize().unwrap().join("packages/a/t1");
    let program = tree.join("node_modules/.bin/x");
    assert_eq!(server.connection.command.as_deref(), program.to_str());
    assert_eq!(server.connection.args, ["--flag"]);
    assert_eq!(server.permissions.read, [tree]);
    // Something else is asked for now.
    let mut other = load("command = \"npx\"\nargs = [\"-y\", \"y\"]\n");
    other.packages = loaded.packages.clone();
    assert!(of(&other).unwrap_err().contains("another one was"), "{:?}", of(&other));
    other.packages.servers.clear();
    other.packages.problem = Some("it is empty".to_owned());
    assert!(of(&other).unwrap_err().contains("it is empty"), "{:?}", of(&other));
    // A lock that leads out of the folder pins nothing.
    loaded.packages.servers.insert(id(), pinned("..", "sha256:0"));
    assert!(of(&loaded).is_err());
}

#[test]
fn what_is_not_what_was_pinned_is_not_started() {
    let data = tempfile::tempdir().unwrap();
    let tree = data.path().join("packages/a/t1");
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::write(tree.join("x"), "good").unwrap();
    let mut loaded = load("command = \"npx\"\nargs = [\"x\"]\n");
    loaded.packages.servers.insert(id(), pinned("t1", &content_hash(&tree).unwrap()));
    let host = Host::new(Secrets::new(std::collections::BTreeMap::new()), None).unwrap();
    let host = of(&loaded).unwrap().unwrap().checking(data.path(), &id(), &host);
    let check = host.start_check.clone().unwrap();
    assert!(check().is_ok());
    std::fs::write(tree.join("x"), "evil").unwrap();
    let refused = check().unwrap_err().to_string();
    assert!(refused.contains("its package is not what was pinned"), "{refused}");
    std::fs::remove_dir_all(&tree).unwrap();
    assert!(check().unwrap_err().to_string().contains("its files are gone"));
}
