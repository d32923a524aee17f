//! Packages of strangers: whatever is in them, nothing of it runs while they are fetched, and nothing outside of
//! the folder that they are fetched into is read, written or reached. What would run leaves a file, named by its
//! absolute path.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::Digest as _;

use super::said;
use crate::support::{TestFolder, text};
use End::{Installed, Refused};

/// How a fetch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The package is installed; what it would have run was not.
    Installed,
    /// It is refused.
    Refused,
}

/// A package, and what becomes of it.
#[derive(Clone)]
struct Case {
    name: &'static str,
    end: End,
    /// What is added to its manifest (npm) or its metadata (Python).
    more: Value,
    /// Entries of its archive beside those that every package has.
    entries: Vec<Value>,
}

fn case(name: &'static str, end: End, more: Value, entries: Vec<Value>) -> Case {
    Case { name, end, more, entries }
}

fn entry(name: &str, text: &str) -> Value {
    json!({ "name": name, "text": text })
}

/// A file in more folders than a package may have.
fn deep(top: &str) -> Value {
    entry(&format!("{top}{}x", "d/".repeat(800)), "x")
}

/// A name that no file system takes.
fn long_name(top: &str) -> String {
    format!("{top}{}", "n".repeat(300))
}

/// A registry that answers with what was put under an address, and notes what it is asked for.
#[derive(Default)]
struct Shelf {
    pages: Mutex<BTreeMap<String, (&'static str, Vec<u8>)>>,
    asked: Mutex<Vec<String>>,
    /// The `Authorization` that it wants.
    login: Mutex<Option<&'static str>>,
}

impl Shelf {
    async fn serve() -> (Arc<Self>, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shelf = Arc::<Self>::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shelf));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (shelf, address)
    }

    fn put(&self, path: &str, kind: &'static str, content: Vec<u8>) {
        self.pages.lock().insert(path.to_owned(), (kind, content));
    }
}

async fn answer(State(shelf): State<Arc<Shelf>>, headers: HeaderMap, uri: Uri) -> Response {
    shelf.asked.lock().push(uri.path().to_owned());
    let login = *shelf.login.lock();
    if login.is_some_and(|login| headers.get(header::AUTHORIZATION).is_none_or(|it| it != login)) {
        let basic = [(header::WWW_AUTHENTICATE, "Basic realm=\"a\"")];
        return (StatusCode::UNAUTHORIZED, basic).into_response();
    }
    match shelf.pages.lock().get(uri.path()) {
        Some((kind, content)) => ([(header::CONTENT_TYPE, *kind)], content.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The operator's folder, the registry that the operator has set, and a server that only packages name.
struct Lab {
    place: TestFolder,
    shelf: Arc<Shelf>,
    registry: String,
    elsewhere: (Arc<Shelf>, String),
}

impl Lab {
    async fn new() -> Self {
        let (shelf, registry) = Shelf::serve().await;
        let place = TestFolder::new("");
        for folder in ["bin", "archives", "canaries"] {
            std::fs::create_dir(place.path().join(folder)).unwrap();
        }
        Self { place, shelf, registry, elsewhere: Shelf::serve().await }
    }

    /// A file that is there if something ran that should not.
    fn canary(&self, name: &str) -> PathBuf {
        self.place.path().join("canaries").join(name)
    }

    fn canaries(&self) -> Vec<String> {
        let left = std::fs::read_dir(self.place.path().join("canaries")).unwrap().flatten();
        left.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// A repository whose settings name a program as git.
    fn repository(&self) -> PathBuf {
        let folder = self.place.path().join("repository");
        std::fs::create_dir(&folder).unwrap();
        let inner = format!("git+file://{}", self.place.path().join("none").display());
        let manifest = json!({ "name": "repository", "version": "1.0.0", "scripts": { "prepare": "true" }, "devDependencies": { "inner": inner } });
        let evil = format!("#!/bin/sh\ntouch {}\n", self.canary("git").display());
        for (name, text) in [
            ("package.json", manifest.to_string()),
            (".npmrc", format!("git={}/evil\n", folder.display())),
            ("evil", evil),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        shell(
            &folder,
            "chmod +x evil && git init -q && git add -A && git -c user.name=a -c user.email=a@example.com commit -q -m a",
        );
        folder
    }

    /// Adds a server with a command line, as a user does whose registry this is.
    #[expect(clippy::disallowed_methods, reason = "tests give the program its environment")]
    fn add(&self, name: &str, words: &[&str]) -> std::process::Output {
        let args: Vec<&str> = ["servers", "add", name, "--"].iter().chain(words).copied().collect();
        let own = self.place.command(&args);
        let mut command = Command::new("sh");
        // What is to be too large need not be as large as a package may be: 64 MiB, in units of 512 bytes.
        command.args(["-c", "ulimit -f 131072; exec \"$@\"", "sh"]);
        command.arg(own.get_program()).args(own.get_args()).current_dir(self.place.path());
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let path = std::env::var("PATH").unwrap();
        command
            .env("PATH", format!("{}:{path}", self.place.path().join("bin").display()))
            .env("HOME", self.place.path())
            .env("npm_config_registry", format!("http://{}/", self.registry))
            .env("npm_config_fetch_retries", "0")
            .env("PIP_INDEX_URL", format!("http://{}/simple/", self.registry))
            .env("UV_DEFAULT_INDEX", format!("http://{}/simple/", self.registry))
            .env_remove("PIP_FIND_LINKS");
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn check(&self, case: &Case, words: &[&str]) {
        let output = self.add(case.name, words);
        let (name, said) = (case.name, said(&output));
        assert_eq!(self.canaries(), Vec::<String>::new(), "{name}: {said}");
        let end = if output.status.success() { End::Installed } else { End::Refused };
        assert_eq!(end, case.end, "{name}: {said}");
        let is_stopped =
            said.contains("a file of more than 64 MiB") || said.contains("File too large");
        assert_eq!(name == "bomb", is_stopped, "{name}: {said}");
        assert_eq!(*self.elsewhere.0.asked.lock(), Vec::<String>::new(), "{name}: {said}");
        let folder = self.place.data().join("packages").join(name);
        let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
        assert_eq!(left.len(), usize::from(end == End::Installed), "{name}: {left:?}");
        // Nor did it run in the sandbox.
        for tree in left {
            assert!(!tree.path().join("ran").exists(), "{name}");
        }
    }

    /// Commands that leave a canary, and a file in the folder that they run in.
    fn traces(&self, name: &str) -> String {
        format!("touch {} ran", self.canary(name).display())
    }
}

#[expect(clippy::disallowed_methods, reason = "tests start programs")]
fn shell(folder: &Path, line: &str) {
    let done = Command::new("sh").args(["-c", line]).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{line}: {}", text(&done.stderr));
}

/// Makes archives, whatever is to be in them.
#[expect(clippy::disallowed_methods, reason = "tests start programs")]
fn make_archives(wanted: &[Value]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/archives.py");
    let mut child = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(json!(wanted).to_string().as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn npm_cases(lab: &Lab) -> Vec<Case> {
    let runs = |name: &str| lab.traces(name);
    let all = |name: &str| {
        let steps = ["preinstall", "install", "postinstall", "prepare", "prepublish", "prepack"];
        json!(steps.map(|step| (step, runs(name))).into_iter().collect::<BTreeMap<_, _>>())
    };
    let away = lab.canary("traversal").display().to_string();
    let up =
        |depth: usize| format!("package/{}{}", "../".repeat(depth), away.trim_start_matches('/'));
    let stranger = format!("http://{}/dependency.tgz", lab.elsewhere.1);
    let repository = lab.repository();
    let git = format!("git+file://{}", repository.display());
    vec![
        case("scripts", Installed, json!({ "scripts": all("scripts") }), vec![]),
        case(
            "gyp",
            Installed,
            json!({ "gypfile": true }),
            vec![entry(
                "package/binding.gyp",
                &format!(
                    "{{'targets': [{{'target_name': 'a', 'actions': [], 'x': '<!({})'}}]}}",
                    runs("gyp")
                ),
            )],
        ),
        case(
            "settings",
            Installed,
            json!({ "scripts": all("settings") }),
            vec![entry(
                "package/.npmrc",
                &format!(
                    "ignore-scripts=false\nscript-shell={}\n",
                    lab.place.path().join("repository/evil").display()
                ),
            )],
        ),
        case(
            "bundled",
            Installed,
            json!({ "dependencies": { "inner": "1.0.0" }, "bundleDependencies": ["inner"] }),
            vec![entry(
                "package/node_modules/inner/package.json",
                &json!({ "name": "inner", "version": "1.0.0", "scripts": all("bundled") })
                    .to_string(),
            )],
        ),
        case("git-dependency", Refused, json!({ "dependencies": { "repository": git } }), vec![]),
        case(
            "file-dependency",
            Refused,
            json!({ "dependencies": { "repository": format!("file:{}", repository.display()) } }),
            vec![],
        ),
        case(
            "remote-dependency",
            Refused,
            json!({ "dependencies": { "dependency": stranger } }),
            vec![],
        ),
        case("archive-elsewhere", Refused, json!({ "dist": { "tarball": stranger } }), vec![]),
        case(
            "bin-links",
            Installed,
            json!({ "bin": { "bin-links": "index.js", "../../../../../../canary": "index.js", "sh": "../../../../../../../bin/sh" } }),
            vec![],
        ),
        case(
            "archive-links",
            Installed,
            json!({}),
            vec![
                json!({ "name": "package/out", "link": lab.place.path().join("canaries") }),
                entry("package/out/links", "x"),
                json!({ "name": "package/hosts", "link": "/etc/hosts" }),
                json!({ "name": "package/fifo", "fifo": true }),
            ],
        ),
        case("traversal", Installed, json!({}), vec![entry(&up(20), "x"), entry(&away, "x")]),
        case("bomb", Refused, json!({}), vec![json!({ "name": "package/bomb", "bomb": 8 })]),
        case("deep", Refused, json!({}), vec![deep("package/")]),
        // npm leaves out what the file system does not take.
        case("long-name", Installed, json!({}), vec![entry(&long_name("package/"), "x")]),
        case("huge-manifest", Refused, json!({ "more": "x".repeat(33 << 20) }), vec![]),
    ]
}

fn publish_npm(lab: &Lab, cases: &[Case]) {
    let archive = |name: &str| lab.place.path().join("archives").join(format!("{name}.tgz"));
    let manifest = |case: &Case| {
        let mut manifest = json!({ "name": case.name, "version": "1.0.0", "bin": "index.js" });
        manifest.as_object_mut().unwrap().extend(case.more.as_object().unwrap().clone());
        manifest
    };
    let archives = cases.iter().map(|case| {
        let mut entries = vec![entry("package/package.json", &manifest(case).to_string())];
        entries.push(entry("package/index.js", "#!/usr/bin/env node\n"));
        entries.extend(case.entries.iter().cloned());
        json!({ "path": archive(case.name), "entries": entries })
    });
    make_archives(&archives.collect::<Vec<_>>());
    for case in cases {
        let bytes = std::fs::read(archive(case.name)).unwrap();
        let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha512::digest(&bytes));
        let tarball = format!("http://{}/{}.tgz", lab.registry, case.name);
        let mut manifest = manifest(case);
        let given = manifest["dist"].take();
        let mut dist = json!({ "tarball": tarball, "integrity": format!("sha512-{hash}") });
        dist.as_object_mut().unwrap().extend(given.as_object().cloned().unwrap_or_default());
        manifest["dist"] = dist;
        let (tags, versions) = (json!({ "latest": "1.0.0" }), json!({ "1.0.0": manifest }));
        let page = json!({ "name": case.name, "dist-tags": tags, "versions": versions });
        let page = page.to_string().into_bytes();
        lab.shelf.put(&format!("/{}", case.name), "application/json", page);
        lab.shelf.put(&format!("/{}.tgz", case.name), "application/octet-stream", bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_package_of_npm_runs_while_it_is_fetched() {
    let lab = Lab::new().await;
    let cases = npm_cases(&lab);
    publish_npm(&lab, &cases);
    for case in &cases {
        lab.check(case, &["npx", "-y", case.name]);
    }
}

/// Python that leaves traces.
fn python(lab: &Lab, name: &str) -> String {
    format!("import os; os.system({:?})\n", lab.traces(name))
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn python_cases(lab: &Lab) -> Vec<Case> {
    let runs = |name: &str| python(lab, name);
    let away = lab.canary("traversal").display().to_string();
    let stranger = format!("http://{}/dependency-1.0-py3-none-any.whl", lab.elsewhere.1);
    let needs = |what: &str| json!(format!("Requires-Dist: dependency @ {what}"));
    let script = format!("#!/bin/sh\n{}\n", lab.traces("scripts"));
    let shadows = [
        "json/__init__.py",
        "compileall.py",
        "os.py",
        "pip/__main__.py",
        "pip/__init__.py",
        "uv/__init__.py",
    ];
    vec![
        // Whatever Python loads by itself when it starts, and what it would take for its own.
        case(
            "startup",
            Installed,
            Value::Null,
            ["hostile.pth", "distutils-precedence.pth", "sitecustomize.py", "usercustomize.py"]
                .into_iter()
                .chain(shadows)
                .map(|name| entry(name, &runs("startup")))
                .collect(),
        ),
        case(
            "scripts",
            Installed,
            Value::Null,
            vec![
                entry("scripts-1.0.data/scripts/pip3", &script),
                entry("scripts-1.0.data/scripts/pip", &script),
                entry("scripts-1.0.data/scripts/uv", &script),
                entry("scripts-1.0.data/data/sitecustomize.py", &runs("scripts")),
            ],
        ),
        case(
            "interpreter",
            Refused,
            Value::Null,
            vec![
                json!({ "name": "interpreter-1.0.data/scripts/python", "text": script }),
                json!({ "name": "interpreter-1.0.data/data/pyvenv.cfg", "text": "home = /tmp\n" }),
            ],
        ),
        case(
            "archive-links",
            Installed,
            Value::Null,
            vec![json!({ "name": "out", "link": lab.place.path().join("canaries") })],
        ),
        // What leads out of the folder is left out.
        case(
            "traversal",
            Installed,
            Value::Null,
            vec![entry(&format!("{}{}", "../".repeat(20), away.trim_start_matches('/')), "x")],
        ),
        case(
            "git-dependency",
            Refused,
            needs(&format!("git+file://{}", lab.repository().display())),
            vec![],
        ),
        case(
            "file-dependency",
            Refused,
            needs(&format!("file://{}", lab.place.path().join("repository").display())),
            vec![],
        ),
        case("remote-dependency", Refused, needs(&stranger), vec![]),
        case("other-python", Refused, json!("Requires-Python: >=99"), vec![]),
        case(
            "entry-points",
            Refused,
            Value::Null,
            vec![
                json!({ "name": "out", "link": lab.place.path().join("canaries") }),
                entry(
                    "entry_points-1.0.dist-info/entry_points.txt",
                    &format!(
                        "[console_scripts]\nentry-points = entry_points:main\n{away} = entry_points:main\n"
                    ),
                ),
            ],
        ),
        case("bomb", Refused, Value::Null, vec![json!({ "name": "bomb.bin", "bomb": 8 })]),
        case("deep", Refused, Value::Null, vec![deep("")]),
        case("long-name", Refused, Value::Null, vec![entry(&long_name(""), "x")]),
        // There is only its source.
        case("source", Refused, json!("source"), vec![]),
    ]
}

fn publish_python(lab: &Lab, cases: &[Case]) {
    let archives = lab.place.path().join("archives");
    let mut wanted = Vec::new();
    for case in cases {
        let module = case.name.replace('-', "_");
        let info = format!("{module}-1.0.dist-info");
        let more = case.more.as_str().unwrap_or_default();
        let mut entries = case.entries.clone();
        entries.extend([
            entry(&format!("{module}.py"), "def main(): pass\n"),
            entry(
                &format!("{info}/METADATA"),
                &format!("Metadata-Version: 2.1\nName: {}\nVersion: 1.0\n{more}\n", case.name),
            ),
            entry(
                &format!("{info}/WHEEL"),
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            ),
        ]);
        let programs = format!("{info}/entry_points.txt");
        if !entries.iter().any(|entry| entry["name"] == programs) {
            let text = format!("[console_scripts]\n{} = {module}:main\n", case.name);
            entries.push(entry(&programs, &text));
        }
        let record = entries.iter().map(|entry| format!("{},,\n", entry["name"].as_str().unwrap()));
        let record = record.collect::<Vec<_>>().concat();
        entries.push(entry(&format!("{info}/RECORD"), &record));
        let source = [
            ("setup.py", python(lab, case.name)),
            ("backend.py", python(lab, case.name)),
            ("pyproject.toml", "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n".to_owned()),
            ("PKG-INFO", format!("Metadata-Version: 2.1\nName: {}\nVersion: 1.0\n", case.name)),
        ];
        let source: Vec<Value> = source
            .iter()
            .map(|(name, text)| entry(&format!("{module}-1.0/{name}"), text))
            .collect();
        let mut links = String::new();
        let mut add = |file: String, entries: Vec<Value>| {
            links.extend([format!("<a href=\"/files/{file}\">{file}</a>\n")]);
            wanted.push(json!({ "path": archives.join(&file), "entries": entries }));
        };
        add(format!("{module}-1.0.tar.gz"), source);
        if more != "source" {
            add(format!("{module}-1.0-py3-none-any.whl"), entries);
        }
        lab.shelf.put(&format!("/simple/{}/", case.name), "text/html", links.into_bytes());
    }
    make_archives(&wanted);
    for file in wanted {
        let path = PathBuf::from(file["path"].as_str().unwrap());
        let name = format!("/files/{}", path.file_name().unwrap().to_str().unwrap());
        lab.shelf.put(&name, "application/octet-stream", std::fs::read(path).unwrap());
    }
}

/// Has uv found in the operator's `PATH`.
fn install_uv(lab: &Lab) {
    let uv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/.venv/bin/uv");
    let uv =
        uv.canonicalize().unwrap_or_else(|error| panic!("`./test packages` installs uv: {error}"));
    std::os::unix::fs::symlink(uv, lab.place.path().join("bin/uv")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_of_the_operator_reach_their_registry() {
    let lab = Lab::new().await;
    install_uv(&lab);
    publish_npm(&lab, &[case("ordinary", End::Installed, json!({}), vec![])]);
    publish_python(&lab, &[case("usual", End::Installed, Value::Null, vec![])]);
    let port = lab.registry.rsplit(':').next().unwrap();
    for (file, text, login, words) in [
        (
            ".npmrc",
            format!("//127.0.0.1:{port}/:_authToken=one\n"),
            "Bearer one",
            ["npx", "ordinary"],
        ),
        (
            ".netrc",
            "machine 127.0.0.1 login ada password two\n".to_owned(),
            "Basic YWRhOnR3bw==",
            ["uvx", "usual"],
        ),
    ] {
        *lab.shelf.login.lock() = Some(login);
        assert!(!lab.add(words[1], &words).status.success(), "{file}");
        std::fs::write(lab.place.path().join(file), text).unwrap();
        let output = lab.add(words[1], &words);
        assert!(output.status.success(), "{file}: {}", said(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_python_package_runs_while_uv_fetches_it() {
    let lab = Lab::new().await;
    install_uv(&lab);
    let cases = python_cases(&lab);
    publish_python(&lab, &cases);
    for case in &cases {
        lab.check(case, &["uvx", case.name]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_python_package_runs_while_pip_fetches_it() {
    let lab = Lab::new().await;
    let cases = python_cases(&lab);
    publish_python(&lab, &cases);
    // An environment with pip takes seconds to make: one row for each way in which a package is treated.
    let rows = [
        ("startup", Installed),
        // A program outside of the environment is made, in the sandbox alone.
        ("entry-points", Installed),
        ("git-dependency", Refused),
        ("file-dependency", Refused),
        ("source", Refused),
        ("bomb", Refused),
        ("deep", Refused),
    ];
    let of = |(name, end)| {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        lab.check(&Case { end, ..case.clone() }, &["pipx", "run", name]);
    };
    std::thread::scope(|scope| {
        for part in rows.chunks(rows.len() / 2) {
            scope.spawn(move || part.iter().copied().for_each(of));
        }
    });
}
