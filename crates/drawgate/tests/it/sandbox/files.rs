//! What a program in the box leaves in its workspace, met by the gateway's own tools afterwards.

use std::process::Stdio;

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
    let config = lab.path().join("gateway.toml");
    let workspace = lab.workspace();
    let text = format!("[builtin]\nworkspace = {:?}\n", workspace.to_str().unwrap());
    std::fs::write(&config, text).unwrap();
    let data = lab.path().join("data");
    if !data.exists() {
        std::fs::create_dir(&data).unwrap();
        lab.caller.own(&data);
    }
    let (config, data) = (config.to_str().unwrap(), data.to_str().unwrap());
    let args = [&["--config", config, "--data", data, "tools", "call"], args].concat();
    run(lab.program(&args).stdin(Stdio::null())).await
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
async fn names_and_depths_are_borne() {
    for caller in Caller::all() {
        let mut lab = Lab::new(caller);
        leave(&mut lab, "broker_hostile_names").await;
        let outcome = call(&lab, &["vfs_list", "--json"]).await;
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let listed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert!(listed.to_string().contains("$(id)"), "{listed}");
        assert!(!outcome.stdout.contains('\u{1b}'), "{outcome:?}");

        leave(&mut lab, "broker_deep_tree").await;
        let outcome = call(&lab, &["vfs_list"]).await;
        assert!(outcome.code == 0 || outcome.code == 1, "{outcome:?}");
        // What is left there does not keep the next one from running.
        let outcome = run(&mut lab.exec(&[], "echo next")).await;
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "next\n"), "{outcome:?}");
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
