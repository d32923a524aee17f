//! `drawgate sandbox exec` as shells and people see it: streams, exit codes, signals, limits; and
//! `drawgate sandbox doctor`.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Child;

use super::attempt::survivors;
use super::caller::Caller;
use super::lab::Lab;
use super::outcome::{Outcome, run};
use crate::support::eventually;

/// Shell commands and the exit codes that they must give.
const CODES: &[(&str, i32)] = &[
    ("true", 0),
    ("exit 3", 3),
    ("exit 255", 255),
    ("kill -TERM $$", 143),
    ("kill -9 $$", 137),
    ("kill -SEGV $$", 139),
    ("kill -ABRT $$", 134),
];

async fn exec(lab: &Lab, options: &[&str], command: &str) -> Outcome {
    run(&mut lab.exec(options, command)).await
}

#[tokio::test]
async fn exit_codes_and_signals_are_the_commands_own() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        for profile in ["workspace", "none"] {
            for (command, code) in CODES {
                let outcome = exec(&lab, &["--profile", profile], command).await;
                assert_eq!(outcome.code, *code, "{profile}: {command}: {outcome:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_keeps_a_command_from_starting_is_told() {
    let lab = Lab::new(Caller::Myself);
    let workspace = lab.workspace();
    let workspace = workspace.to_str().unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["--workspace", workspace, "no-such-program"],
            127,
            "there is no program `no-such-program`",
        ),
        (&["--workspace", "/no/such/folder", "true"], 125, "`/no/such/folder` is not a folder"),
        (&["--workspace", workspace, "--read", "/no/file", "true"], 125, "there is no `/no/file`"),
        (&["--workspace", workspace, "--env", "NOT_SET", "true"], 125, "`NOT_SET` is not set"),
        (
            &["--workspace", workspace, "--allow-host", "a.example", "true"],
            125,
            "`--profile network`",
        ),
        (&["--workspace", workspace, "--limit", "wings=2", "true"], 125, "wings"),
        (
            &["--workspace", workspace, "--profile", "open", "true"],
            64,
            "`open` is not a sandbox profile",
        ),
        (&["--workspace", workspace, "--timeout", "0", "true"], 64, "above 0"),
        (&["--workspace", workspace], 64, "<CMD>"),
    ];
    for (args, code, sentence) in cases {
        let outcome = run(&mut lab.program(&[&["sandbox", "exec"], *args].concat())).await;
        assert_eq!(outcome.code, *code, "{args:?}: {outcome:?}");
        assert!(outcome.stderr.contains(sentence), "{args:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn streams_are_passed_on() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        // Empty unless it is asked for.
        let mut command = lab.exec(&[], "cat; echo end >&2");
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"not for it").await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((&*output.stdout, &*output.stderr), (&b""[..], &b"end\n"[..]));

        let mut child = lab.exec(&["--stdin"], "tr a b").stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"a\xff\0a").await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"b\xff\0b"[..]));

        // A command may end before its input does.
        let mut child = lab.exec(&["--stdin"], "echo early").stdin(Stdio::piped()).spawn().unwrap();
        let _open = child.stdin.take().unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"early\n"[..]));

        let outcome =
            exec(&lab, &[], "head -c 30000000 /dev/zero; head -c 5000000 /dev/zero >&2").await;
        assert_eq!(outcome.written, (30_000_000, 5_000_000));
    }
}

#[tokio::test]
async fn a_reader_that_has_had_enough_ends_the_command() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let mut child = lab.exec(&[], "echo first; yes $TG_TAG").spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("first"));
        drop(lines);
        let status = child.wait().await.unwrap();
        assert_eq!(status.code(), Some(141), "{caller:?}");
        gone(&lab).await;
    }
}

/// A command that has started in the box, with a child that ignores everything.
async fn started(lab: &Lab) -> Child {
    let command = "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM INT HUP; sleep 300' & echo up; wait; sleep 300";
    let mut child = lab.exec(&["--timeout", "200"], command).spawn().unwrap();
    let mut line = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut line).await.unwrap();
    assert_eq!(&line, b"up\n");
    child
}

async fn gone(lab: &Lab) {
    let tag = lab.variable("TG_TAG");
    eventually("the whole tree is gone", async || survivors(tag).is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_signal_ends_the_whole_tree() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        for (signal, code) in [
            (Signal::INT, Some(130)),
            (Signal::TERM, Some(143)),
            (Signal::HUP, Some(129)),
            // Nobody is left to report; the tree goes all the same.
            (Signal::KILL, None),
        ] {
            let mut child = started(&lab).await;
            let pid = i32::try_from(child.id().unwrap()).unwrap();
            kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
            assert_eq!(child.wait().await.unwrap().code(), code, "{caller:?} {signal:?}");
            gone(&lab).await;
        }
    }
}

#[tokio::test]
async fn time_is_limited_and_the_end_is_told() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        for profile in ["workspace", "none"] {
            let options = ["--timeout", "5.5", "--profile", profile];
            let outcome = exec(&lab, &options, "echo begun; sleep 300").await;
            assert_eq!((outcome.code, outcome.stdout.as_str()), (124, "begun\n"), "{outcome:?}");
            assert!(outcome.stderr.contains("stopped after 5.5 s"), "{outcome:?}");
            gone(&lab).await;
        }
    }
}

#[tokio::test]
async fn limits_can_be_chosen() {
    let cases = [
        (
            "processes=12",
            "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 5 & done; echo ALL",
        ),
        (
            "memory_mb=64",
            "python3 -c 'b=bytearray(300<<20);b[::4096]=bytes(len(b[::4096]));print(\"ALL\")'",
        ),
        ("file_mb=1", "head -c 3000000 /dev/zero > f && echo ALL"),
        ("open_files=32", "python3 -c 'f=[open(\"/dev/null\") for _ in range(64)];print(\"ALL\")'"),
    ];
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        for (limit, command) in cases {
            lab.reset();
            let outcome = exec(&lab, &["--limit", limit], command).await;
            assert!(!outcome.stdout.contains("ALL"), "{caller:?} {limit}: {outcome:?}");
            assert!(outcome.code != 125 && outcome.code != 124, "{caller:?} {limit}: {outcome:?}");
            lab.reset();
            let outcome = exec(&lab, &[], command).await;
            assert!(outcome.stdout.contains("ALL"), "{caller:?} without {limit}: {outcome:?}");
        }
    }
}

/// Limits that are counted, commands that exceed them (as fast as they can; some of them stay, some
/// end by themselves), and what is said about it.
const COUNTED: &[(&str, &str, &str)] = &[
    (
        "files=100",
        "python3 -c '[open(\"f%d\" % n, \"w\").close() for n in range(150)]'",
        "more than 100 files",
    ),
    ("files=100", "for i in $(seq 150); do mkdir d$i; done; exit 3", "more than 100 files"),
    (
        "files=100",
        "mkdir d; cd d; for i in $(seq 150); do : > f$i; done; chmod 300 .",
        "more than 100 files",
    ),
    (
        "disk_mb=20",
        "for i in 1 2 3; do head -c 10000000 /dev/zero > f$i; done",
        "more than 20 MiB to its folders",
    ),
    (
        "disk_mb=20",
        "exec 3>a 4>b 5>c; rm a b c; for i in 3 4 5; do head -c 10000000 /dev/zero >&$i; done; \
         sleep 300",
        "more than 20 MiB to its folders",
    ),
];

#[tokio::test]
async fn a_limit_is_told_however_fast_it_was_exceeded() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        for (limit, command, sentence) in COUNTED {
            lab.reset();
            let options = ["--limit", limit, "--timeout", "100"];
            let outcome = exec(&lab, &options, command).await;
            assert_eq!(outcome.code, 137, "{caller:?} {limit}: {command}: {outcome:?}");
            assert!(outcome.stderr.contains(sentence), "{caller:?} {limit}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn what_is_within_a_limit_is_no_excess() {
    let fast = "for i in $(seq 90); do : > f$i; done; head -c 10000000 /dev/zero > big; echo ALL";
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        lab.reset();
        let options = ["--limit", "files=100", "--limit", "disk_mb=20"];
        let outcome = exec(&lab, &options, fast).await;
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "ALL\n"), "{outcome:?}");
    }
}

#[tokio::test]
async fn processes_that_have_ended_do_not_count() {
    let orphans = "i=0; while [ $i -lt 600 ]; do (true &) || exit 1; i=$((i+1)); done; echo ALL";
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let outcome = exec(&lab, &[], orphans).await;
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "ALL\n"), "{caller:?} {outcome:?}");
    }
}

#[tokio::test]
async fn neither_a_configuration_nor_a_data_folder_is_needed() {
    let lab = Lab::new(Caller::Myself);
    let elsewhere = lab.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("drawgate.toml"), "this is no configuration").unwrap();
    let mut command = lab.exec(&[], "echo works");
    let outcome = run(command.current_dir(&elsewhere)).await;
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "works\n"), "{outcome:?}");
    let outcome = run(lab.program(&["sandbox", "doctor"]).current_dir(&elsewhere)).await;
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
}

#[tokio::test]
async fn the_doctor_says_what_holds_here() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let outcome = run(&mut lab.program(&["sandbox", "doctor"])).await;
        assert_eq!(outcome.code, 0, "{outcome:?}");
        for word in ["strict", "workspace", "network", "namespaces", "seccomp"] {
            assert!(outcome.stdout.contains(word), "{word}: {}", outcome.stdout);
        }
        let outcome = run(&mut lab.program(&["sandbox", "doctor", "--json"])).await;
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        for profile in ["strict", "workspace", "network"] {
            assert_eq!(report["profiles"][profile]["works"], true, "{report}");
        }
        assert!(report["parts"].as_array().unwrap().len() > 4, "{report}");
    }
}
