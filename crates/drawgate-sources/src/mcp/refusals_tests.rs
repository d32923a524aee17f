use std::collections::BTreeMap;

use drawgate_host::egress::Reach;
use drawgate_host::sandbox::{ArgumentPaths, ResourceLimits};
use drawgate_host::secrets::Secrets;
use drawgate_host::trusted::{Kind, TrustedPath};
use serde_json::json;

use super::*;

/// A machine with some folders, and a server that may see some of them.
struct Lab {
    folder: tempfile::TempDir,
    refusals: Arc<Refusals>,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in ["ws", "notes/deep", "other", "home/.ssh", "data", "db", "packages/s/t/bin"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        for name in ["notes/a.txt", "other/b c.txt", "home/.ssh/id", "data/token"] {
            std::fs::write(path(name), "").unwrap();
        }
        let variables = [("HOME", path("home").to_str().unwrap().to_owned())];
        let more =
            [("API_KEY", "k".to_owned()), ("GIVEN_KEY", "k".to_owned()), ("DEBUG", "1".to_owned())];
        let variables = variables.into_iter().chain(more);
        let environment: BTreeMap<String, String> =
            variables.map(|(name, value)| (name.to_owned(), value)).collect();
        let mut host = Host::new(Secrets::new(environment), None).unwrap();
        host.allow_command = Some("gate allow");
        let kind = Kind::Secret(&[]);
        host.processes.trusted().replace(vec![TrustedPath {
            what: "data".to_owned(),
            path: path("data"),
            kind,
        }]);
        let spawn = Spawn {
            program: path("packages/s/t/bin/x").to_str().unwrap().to_owned(),
            args: vec![
                path("notes").to_str().unwrap().to_owned(),
                format!("--db={}", path("db/x.db").display()),
            ],
            env: BTreeMap::from([("GIVEN_KEY".to_owned(), "k".to_owned())]),
            confinement: Some(Confinement {
                profile: Profile::Workspace,
                workspace: path("ws"),
                read: Vec::new(),
                write: Vec::new(),
                arguments: ArgumentPaths::Opened,
                reach: Reach::nobody(),
                internal: None,
                unprotected: Vec::new(),
                limits: ResourceLimits::default(),
            }),
            ..Spawn::default()
        };
        let refusals = Refusals::of(&SourceId::new("s").unwrap(), &spawn, &Arc::new(host)).unwrap();
        Self { folder, refusals }
    }

    /// What is noted after a text, in which `ROOT` stands for the folder.
    fn after(&self, text: &str) -> Vec<String> {
        let root = self.folder.path().canonicalize().unwrap();
        let root = root.to_str().unwrap();
        self.refusals.known.lock().clear();
        self.refusals.hear(&text.replace("ROOT", root));
        self.refusals.list().iter().map(|it| it.to_string().replace(root, "ROOT")).collect()
    }
}

#[test]
fn files_that_are_there_and_closed_are_named() {
    let lab = Lab::new();
    for (text, expected) in [
        (
            "EROFS: read-only file system, open 'ROOT/notes/new.txt'",
            Some("writing in `ROOT/notes`"),
        ),
        (
            "OSError: [Errno 30] Read-only file system: 'ROOT/notes/deep/x'",
            Some("writing in `ROOT/notes`"),
        ),
        ("open ROOT/notes/a.txt: permission denied", Some("writing in `ROOT/notes`")),
        (
            "Error: ENOENT: no such file or directory, open 'ROOT/other/b c.txt'",
            Some("reading `ROOT/other/b c.txt`"),
        ),
        ("No such file or directory (os error 2): ROOT/other.", Some("reading `ROOT/other`")),
        // What is not shown is missing, and what was to be made there is to be written.
        (
            "ENOENT: no such file or directory, mkdir 'ROOT/other/new'",
            Some("writing in `ROOT/other`"),
        ),
        // What is shown and refused was to be written, wherever it is.
        (
            "EROFS: read-only file system, open 'ROOT/other/b c.txt'",
            Some("writing in `ROOT/other`"),
        ),
        (
            "fatal: Unable to create 'ROOT/notes/.git/index.lock': Read-only file system",
            Some("writing in `ROOT/notes`"),
        ),
        ("attempt to write a readonly database", Some("writing in `ROOT/db`")),
        ("sqlite3.OperationalError: unable to open database file", Some("writing in `ROOT/db`")),
        (
            "EROFS: read-only file system, open 'ROOT/packages/s/t/lib/memory.json'",
            Some("writing in its own package, `ROOT/packages/s/t/lib`"),
        ),
        (
            "npm error ENOENT: no such file or directory, mkdir 'ROOT/packages/s/t/lib/node_modules'",
            Some("writing in its own package, `ROOT/packages/s/t/lib`"),
        ),
        // A file that its package lacks was not to be written.
        ("ENOENT: no such file or directory, open 'ROOT/packages/s/t/lib/none'", None),
        // A folder that could only be given as a whole machine's.
        ("EROFS: read-only file system, open '/nowhere'", None),
        // It is not there for anybody.
        ("ENOENT: no such file or directory, open 'ROOT/other/none'", None),
        // It may write there.
        ("EROFS: read-only file system, open 'ROOT/ws/x'", None),
        // No failure of the system is named.
        ("`ROOT/other` is not a good place", None),
        ("Access denied: ROOT/other is not in ROOT/notes", None),
        // What decides about programs, the user's secrets, and what every sandbox has of its own.
        ("ENOENT: no such file or directory, open 'ROOT/data/token'", None),
        ("ENOENT: no such file or directory, open 'ROOT/home/.ssh/id'", None),
        ("EACCES: permission denied, open '/etc/passwd'", None),
        ("EROFS: read-only file system, open '/usr/bin/x'", None),
        ("EACCES: permission denied, open 'ROOT/ws/../other'", None),
    ] {
        assert_eq!(lab.after(text), Vec::from_iter(expected), "{text}");
    }
}

#[test]
fn what_is_missing_of_the_machine_s_settings_can_be_read_and_not_written() {
    let lab = Lab::new();
    let folders = std::fs::read_dir("/etc").unwrap().map(|entry| entry.unwrap().path());
    let folder = folders.filter(|path| path.is_dir() && is_public(path)).min().unwrap();
    let folder = folder.to_str().unwrap();
    let read = format!("reading `{folder}`");
    for (text, expected) in [
        (format!("/usr/bin/x: 36: .: cannot open {folder}/*: No such file"), Some(&read)),
        (format!("mkdir '{folder}': No such file or directory"), None),
        (format!("EROFS: read-only file system, open '{folder}/x'"), None),
    ] {
        assert_eq!(lab.after(&text), Vec::from_iter(expected.cloned()), "{text}");
    }
}

#[test]
fn callers_are_told_with_the_line_that_allows_it() {
    let lab = Lab::new();
    let root = lab.folder.path().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    let found = lab.refusals.hear(&format!("EROFS: read-only file system, open '{root}/notes/x'"));
    assert_eq!(
        lab.refusals.told(&found).unwrap().replace(root, "ROOT"),
        "the sandbox refused writing in `ROOT/notes`; an operator can allow it by `gate allow s --write ROOT/notes`"
    );
    // The same again is told again.
    assert_eq!(lab.refusals.hear(&format!("EROFS: open '{root}/notes/x'")), found);
    let own = lab.refusals.hear(&format!("EROFS: open '{root}/packages/s/t/memory.json'"));
    let told = lab.refusals.told(&own).unwrap();
    assert!(told.contains(&format!("another place, such as `{root}/ws`")), "{told}");
    assert_eq!(lab.refusals.told(&lab.refusals.hear("all is well")), None);
    let mark = lab.refusals.mark();
    assert!(lab.refusals.hosts_since(mark).is_empty());
    lab.refusals.refused("api.example.com", 443);
    let host = BTreeSet::from([Refusal::Host("api.example.com".to_owned())]);
    assert_eq!(lab.refusals.hosts_since(mark), host);
    assert!(lab.refusals.hosts_since(lab.refusals.mark()).is_empty());
}

/// `*` opens public hosts alone: a name that was refused all the same leads inside.
#[test]
fn a_host_that_leads_inside_is_advised_with_a_word_about_it() {
    let mut lab = Lab::new();
    let told = |lab: &Lab, host: &str| {
        let host = BTreeSet::from([Refusal::Host(host.to_owned())]);
        lab.refusals.told(&host).unwrap()
    };
    assert!(!told(&lab, "intra.example").contains("its address"));
    let mut spawn = lab.refusals.spawn.clone();
    spawn.confinement.as_mut().unwrap().reach = Reach::only(["*".parse().unwrap()]);
    let host = Arc::clone(&lab.refusals.host);
    lab.refusals = Refusals::of(&SourceId::new("s").unwrap(), &spawn, &host).unwrap();
    for (host, inside) in
        [("intra.example", true), ("intra.example:8080", false), ("10.0.0.1", true)]
    {
        assert_eq!(
            told(&lab, host).contains("its address is one of this machine"),
            inside,
            "{host}"
        );
    }
}

#[test]
fn variables_that_are_set_and_not_given_are_named() {
    let lab = Lab::new();
    for (text, expected) in [
        ("API_KEY is required", Some("the variable `API_KEY`")),
        ("set the environment variable `DEBUG`", Some("the variable `DEBUG`")),
        ("DEBUG nothing to see", None),
        ("GIVEN_KEY is bad", None),
        ("UNKNOWN_KEY is required", None),
        ("my_API_KEY", None),
    ] {
        assert_eq!(lab.after(text), Vec::from_iter(expected), "{text}");
    }
}

#[test]
fn hosts_are_named_as_the_configuration_takes_them() {
    let lab = Lab::new();
    for (host, port) in
        [("api.example.com", 443), ("api.example.com", 80), ("10.0.0.7", 8080), ("::1", 443)]
    {
        lab.refusals.refused(host, port);
    }
    lab.refusals.refused("not a host`", 443);
    lab.refusals.refused("*", 443);
    let told: Vec<String> = lab.refusals.list().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["the host `10.0.0.7:8080`", "the host `[::1]`", "the host `api.example.com`"]
    );
    let host = Refusal::Host("a.example".to_owned());
    assert_eq!(host.option().as_deref(), Some("--host a.example"));
    assert_eq!(serde_json::to_value(host).unwrap(), json!({ "kind": "host", "what": "a.example" }));
    for number in 0..100 {
        lab.refusals.refused(&format!("{number}.example"), 443);
    }
    assert_eq!(lab.refusals.list().len(), MAX_REFUSALS);
}
