use std::os::unix::fs::{PermissionsExt, symlink};

use drawgate_core::model::ToolOutput;
use drawgate_host::trusted::{Kind, Trusted, TrustedPath};
use serde_json::{Value, json};

use super::files::perform;
use super::*;

struct Bench {
    folder: tempfile::TempDir,
    workspace: Workspace,
}

fn bench() -> Bench {
    bench_with(&[])
}

fn bench_with(unprotected: &[String]) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let trusted = Trusted::default();
    let (what, path) = ("the configuration file".to_owned(), folder.path().join("gate.toml"));
    trusted.replace(vec![TrustedPath { what, path, kind: Kind::Secret(&[]) }]);
    let workspace = Workspace::open(&folder.path().join("ws"), trusted, unprotected).unwrap();
    std::fs::write(folder.path().join("secret"), "outside").unwrap();
    Bench { folder, workspace }
}

impl Bench {
    fn root(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    fn call(&self, tool: &str, arguments: &Value) -> ToolOutput {
        perform(&self.workspace, tool, arguments.as_object().unwrap()).unwrap()
    }

    fn text(&self, tool: &str, arguments: &Value) -> String {
        let output = self.call(tool, arguments);
        output.content[0]["text"].as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn files_are_written_read_listed_and_deleted() {
    let bench = bench();
    assert_eq!(
        bench.text("vfs_write", &json!({ "path": "a/b.txt", "content": "grüße" })),
        "wrote 7 bytes to `a/b.txt`"
    );
    bench.call("vfs_write", &json!({ "path": "a/b.txt", "content": "two" }));
    bench.call("vfs_write", &json!({ "path": "c", "content": "AP8=", "encoding": "base64" }));
    assert_eq!(bench.text("vfs_read", &json!({ "path": "a/b.txt" })), "two");
    let binary = bench.call("vfs_read", &json!({ "path": "c" }));
    assert_eq!(binary.content[0]["resource"]["blob"], "AP8=");
    assert_eq!(bench.text("vfs_list", &json!({})), "a/b.txt (3 bytes)\nc (2 bytes)");
    assert_eq!(bench.text("vfs_delete", &json!({ "path": "a/b.txt" })), "deleted `a/b.txt`");
    let listed = bench.call("vfs_list", &json!({}));
    assert_eq!(
        listed.structured,
        Some(json!({ "files": [{ "path": "c", "size": 2 }], "truncated": false }))
    );
    assert!(
        !bench
            .call("vfs_write", &json!({ "path": "a", "content": "where an empty folder was" }))
            .is_error
    );
}

#[test]
fn lists_are_by_prefix_of_the_path() {
    let bench = bench();
    for path in ["a", "ab/x", "ab/y", "b/ab"] {
        bench.call("vfs_write", &json!({ "path": path, "content": "" }));
    }
    for (prefix, expected) in [
        ("", "a,ab/x,ab/y,b/ab"),
        ("a", "a,ab/x,ab/y"),
        ("ab/", "ab/x,ab/y"),
        ("ab/x", "ab/x"),
        ("../", ""),
    ] {
        let listed = bench.call("vfs_list", &json!({ "prefix": prefix })).structured.unwrap();
        let paths: Vec<&str> = listed["files"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|file| file["path"].as_str())
            .collect();
        assert_eq!(paths.join(","), expected, "{prefix:?}");
    }
}

#[test]
fn failures_say_what_to_do() {
    let bench = bench();
    assert_eq!(
        bench.text("vfs_read", &json!({ "path": "a/b" })),
        "no such file `a/b`; `vfs_list` shows what there is"
    );
    assert!(bench.call("vfs_delete", &json!({ "path": "a" })).is_error);
    bench.call("vfs_write", &json!({ "path": "f", "content": "" }));
    assert!(
        bench.text("vfs_write", &json!({ "path": "f/g", "content": "" })).contains("not a folder")
    );
    bench.call("vfs_write", &json!({ "path": "d/g", "content": "" }));
    for (tool, path) in [("vfs_read", "d"), ("vfs_delete", "d"), ("vfs_write", "d")] {
        assert_eq!(
            bench.text(tool, &json!({ "path": path, "content": "" })),
            "`d` is not a file",
            "{tool}"
        );
    }
    assert!(
        bench
            .text("vfs_write", &json!({ "path": "x", "content": "%", "encoding": "base64" }))
            .contains("base64")
    );
    let large = "x".repeat(8 * 1024 * 1024 + 1);
    assert!(
        bench.text("vfs_write", &json!({ "path": "x", "content": large })).contains("too large")
    );
    std::fs::write(bench.root().join("huge"), "x".repeat(16 * 1024 * 1024 + 1)).unwrap();
    assert!(bench.text("vfs_read", &json!({ "path": "huge" })).contains("too large"));
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let bench = bench();
    let outside = bench.folder.path().join("secret").display().to_string();
    for path in [
        "",
        "/etc/passwd",
        &outside,
        "../secret",
        "a/../../secret",
        "./a",
        "a//b",
        "a/",
        "a\0b",
        "a\nb",
        "..",
    ] {
        for tool in ["vfs_read", "vfs_write", "vfs_delete"] {
            let output = bench.call(tool, &json!({ "path": path, "content": "x" }));
            assert!(output.is_error, "{tool} {path:?}");
            assert!(
                output.content[0]["text"].as_str().unwrap().contains("not a path in the workspace"),
                "{tool} {path:?}"
            );
        }
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "outside");
}

#[test]
fn links_are_never_followed() {
    let bench = bench();
    symlink(bench.folder.path().join("secret"), bench.root().join("file")).unwrap();
    symlink(bench.folder.path(), bench.root().join("folder")).unwrap();
    symlink("/proc/self/root", bench.root().join("magic")).unwrap();
    for path in ["file", "folder/secret", "magic/etc/passwd", "folder/new", "magic/tmp/new"] {
        for tool in ["vfs_read", "vfs_write", "vfs_delete"] {
            assert!(
                bench.call(tool, &json!({ "path": path, "content": "x" })).is_error,
                "{tool} {path}"
            );
        }
    }
    assert_eq!(bench.text("vfs_list", &json!({})), "no files");
    assert_eq!(std::fs::read_to_string(bench.folder.path().join("secret")).unwrap(), "outside");
    assert!(!bench.folder.path().join("new").exists());
}

#[test]
fn other_things_than_files_are_refused() {
    let bench = bench();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bench.root().join("pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    for tool in ["vfs_read", "vfs_write", "vfs_delete"] {
        assert!(bench.call(tool, &json!({ "path": "pipe", "content": "" })).is_error, "{tool}");
    }
}

#[test]
fn the_folder_and_its_files_are_the_owners_alone() {
    let bench = bench();
    bench.call("vfs_write", &json!({ "path": "a/b", "content": "" }));
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(bench.root()), 0o700);
    assert_eq!(mode(bench.root().join("a")), 0o700);
    assert_eq!(mode(bench.root().join("a/b")), 0o600);
}

#[test]
fn protected_names_are_read_and_not_changed_unless_the_operator_says_so() {
    let names =
        ["AGENTS.md", "sub/CLAUDE.md", ".git/hooks/pre-commit", "x/.GITHUB/workflows/a.yml"];
    let closed = bench();
    let open = bench_with(&["AGENTS.md".to_owned()]);
    for (bench, path, expected) in names
        .iter()
        .map(|name| (&closed, *name, true))
        .chain([(&open, "AGENTS.md", false), (&open, "CLAUDE.md", true)])
    {
        let file = bench.root().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "mine").unwrap();
        assert_eq!(bench.text("vfs_read", &json!({ "path": path })), "mine", "{path}");
        for tool in ["vfs_write", "vfs_delete"] {
            let output = bench.call(tool, &json!({ "path": path, "content": "evil" }));
            assert_eq!(output.is_error, expected, "{tool} {path}: {output:?}");
        }
        assert_eq!(std::fs::read_to_string(&file).is_ok(), expected, "{path}");
    }
    let said = closed.text("vfs_write", &json!({ "path": "AGENTS.md", "content": "" }));
    assert!(said.contains("`builtin.unprotected`"), "{said}");
}

#[test]
fn another_name_of_what_is_trusted_is_not_read() {
    let bench = bench();
    let trusted = bench.folder.path().join("gate.toml");
    std::fs::write(&trusted, "secret").unwrap();
    std::fs::hard_link(&trusted, bench.root().join("notes.txt")).unwrap();
    let output = bench.call("vfs_read", &json!({ "path": "notes.txt" }));
    assert!(output.is_error && !format!("{output:?}").contains("secret"), "{output:?}");
}
