//! What a program in the box leaves in its workspace, met by the gateway's own tools afterwards.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{CWD, Mode, OFlags, openat};
use serde_json::Value;

use super::attempt::attack;
use super::caller::Caller;
use super::lab::{Lab, PATH, VICTIM};
use super::outcome::{Outcome, run};
use super::table::{named, rows};

/// Rows of the class `broker` and what the tools are asked afterwards.
const FOLLOW_UPS: &[(&str, &[&[&str]])] = &[
    ("broker_read_symlink", &[&["vfs_read", "path=result.txt"], &["vfs_list"]]),
    ("broker_write_symlink", &[&["vfs_write", "path=out.txt", "content=pwned"]]),
    (
        "broker_fifo_output",
        &[&["vfs_read", "path=out.bin"], &["vfs_write", "path=out.bin", "content=x"]],
    ),
    ("broker_devzero_symlink", &[&["vfs_read", "path=big.out"], &["vfs_read", "path=env.out"]]),
];

/// Rows that have a test of their own below.
const OTHERS: &[&str] = &[
    "broker_hostile_names",
    "broker_deep_tree",
    "broker_path_shadow",
    "broker_ansi_output",
    "broker_fake_jsonrpc",
];

/// Runs a row in the box, which must succeed as far as it goes.
async fn leave(lab: &mut Lab, name: &str) {
    let row = named(name);
    let evidence = attack(lab, &row, &[]).await;
    assert!(evidence.is_empty(), "{evidence:?}");
}

/// Calls a built-in tool on the same workspace.
async fn call(lab: &Lab, args: &[&str]) -> Outcome {
    let args = tool_args(lab, args);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    run(lab.program(&args).stdin(Stdio::null())).await
}

/// The program's arguments for the same.
pub(super) fn tool_args(lab: &Lab, args: &[&str]) -> Vec<String> {
    let config = lab.path().join("gateway.toml");
    let workspace = lab.workspace();
    let text = format!("[builtin]\nworkspace = {:?}\n", workspace.to_str().unwrap());
    std::fs::write(&config, text).unwrap();
    let data = lab.path().join("data");
    if !data.exists() {
        std::fs::DirBuilder::new().mode(0o700).create(&data).unwrap();
        lab.caller.own(&data);
    }
    let (config, data) = (config.to_str().unwrap(), data.to_str().unwrap());
    let args = [&["--config", config, "--data", data, "tools", "call"], args].concat();
    args.into_iter().map(str::to_owned).collect()
}

#[test]
fn every_row_has_its_follow_up() {
    for row in rows().iter().filter(|row| row.class == "broker") {
        let known = FOLLOW_UPS.iter().any(|(name, _)| *name == row.name);
        assert!(known || OTHERS.contains(&row.name), "{row:?}");
    }
}

#[tokio::test]
async fn links_pipes_and_devices_are_refused() {
    for caller in Caller::all() {
        let mut lab = Lab::new(caller);
        for (name, calls) in FOLLOW_UPS {
            leave(&mut lab, name).await;
            for args in *calls {
                let outcome = call(&lab, args).await;
                assert!(!outcome.stdout.contains(&lab.canary()), "{name}: {outcome:?}");
                assert!(!outcome.stderr.contains(&lab.canary()), "{name}: {outcome:?}");
                assert!(args[0] == "vfs_list" || outcome.code != 0, "{name}: {outcome:?}");
            }
            let victim = std::fs::read_to_string(lab.path().join("out/victim.txt")).unwrap();
            assert_eq!(victim, VICTIM, "{name}");
        }
        // The tools work, so what was refused above was refused for what it is.
        let outcome = call(&lab, &["vfs_write", "path=fine.txt", "content=fine"]).await;
        assert_eq!(outcome.code, 0, "{outcome:?}");
    }
}

#[tokio::test]
async fn names_are_borne() {
    for caller in Caller::all() {
        let mut lab = Lab::new(caller);
        leave(&mut lab, "broker_hostile_names").await;
        let outcome = call(&lab, &["vfs_list", "--json"]).await;
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let listed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert!(listed.to_string().contains("$(id)"), "{listed}");
        assert!(!outcome.stdout.contains('\u{1b}'), "{outcome:?}");
    }
}

/// How many folders named `d` lie in each other here, whatever their modes.
fn depth(folder: &Path) -> usize {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut handle = openat(CWD, folder, flags, Mode::empty()).unwrap();
    let mut depth = 0;
    while let Ok(next) = openat(&handle, "d", flags, Mode::empty()) {
        (handle, depth) = (next, depth + 1);
    }
    depth
}

/// A tree far deeper than any path may be long, which nobody may enter.
#[tokio::test]
async fn a_tree_without_a_bottom_is_borne() {
    for caller in Caller::all() {
        let mut lab = Lab::new(caller);
        leave(&mut lab, "broker_deep_tree").await;
        assert!(lab.workspace().join("d").is_dir(), "{caller:?}");
        if caller.is_root() {
            assert_eq!(depth(&lab.workspace()), 3000);
        }
        let outcome = call(&lab, &["vfs_list"]).await;
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "no files\n"), "{outcome:?}");
        // Within what a path may be, and beyond what the system takes.
        for levels in [500, 2500] {
            let folder = "d/".repeat(levels);
            let (path, prefix) = (format!("path={folder}f"), format!("prefix={folder}"));
            for args in [
                &["vfs_read", &path][..],
                &["vfs_write", &path, "content=x"],
                &["vfs_list", &prefix],
                &["vfs_delete", &path],
            ] {
                let outcome = call(&lab, args).await;
                // A refusal in words, or what was asked for; no crash, and nobody is kept waiting.
                assert!(matches!(outcome.code, 0 | 1), "{}: {outcome:?}", args[0]);
                assert!(!outcome.stderr.contains("panicked"), "{}: {outcome:?}", args[0]);
            }
        }
        // What is left there keeps nobody from working beside it.
        let outcome = call(&lab, &["vfs_write", "path=fine.txt", "content=fine"]).await;
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let outcome = call(&lab, &["vfs_list"]).await;
        assert!(outcome.stdout.contains("fine.txt"), "{outcome:?}");
        let outcome = run(&mut lab.exec(&[], "cat fine.txt; mkdir d2 && echo x > d2/f")).await;
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "fine"), "{outcome:?}");
        // The next program can clear it away, like everything in its workspace.
        let sweep = "chmod -R u+rwx d 2>/dev/null; rm -rf d && echo gone";
        let outcome = run(&mut lab.exec(&[], sweep)).await;
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "gone\n"), "{outcome:?}");
        assert!(!lab.workspace().join("d").exists(), "{caller:?}");
    }
}

#[tokio::test]
async fn programs_are_never_taken_from_the_workspace() {
    for caller in Caller::all() {
        let mut lab = Lab::new(caller);
        leave(&mut lab, "broker_path_shadow").await;
        for path in [PATH, &format!(".:{PATH}"), &format!(":{PATH}"), &format!("bin/..:{PATH}")] {
            let mut command = lab.exec(&[], "echo fine; sh -c 'echo fine'");
            let outcome = run(command.env("PATH", path)).await;
            assert_eq!(outcome.stdout, "fine\nfine\n", "{path}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn output_is_passed_on_byte_for_byte() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        for name in ["broker_ansi_output", "broker_fake_jsonrpc"] {
            let row = named(name);
            let inside = run(&mut lab.exec(&[], row.command)).await;
            let outside = run(lab.bare("sh").args(["-c", row.command])).await;
            assert!(!outside.stdout.is_empty());
            assert_eq!((inside.code, inside.stdout), (0, outside.stdout), "{name}");
        }
    }
}
