//! What a program finds in the box: enough to do its work.

use std::os::unix::fs::MetadataExt;

use super::caller::Caller;
use super::lab::Lab;
use super::outcome::{Outcome, run};

/// Shell commands that must succeed in the box, with the output that they must give.
const WORKS: &[(&str, &str)] = &[
    ("pwd", "$TG_WS\n"),
    ("echo $HOME", "$TG_WS\n"),
    ("echo one > f && cat f && mv f g && ln g h && ln -s g s && cat s && rm g h s", "one\none\n"),
    ("mkdir -p a/b && touch a/b/c && chmod 640 a/b/c && ls a/b && rm -r a", "c\n"),
    ("test -r /usr/bin/env && test -d /usr/lib && echo yes", "yes\n"),
    ("python3 -c 'print(6*7)'", "42\n"),
    (
        "python3 -c 'import subprocess;print(subprocess.check_output([\"echo\",\"child\"]).decode())'",
        "child\n\n",
    ),
    (
        "python3 -c 'import threading;t=threading.Thread(target=print,args=(1,));t.start();t.join()'",
        "1\n",
    ),
    ("python3 -c 'import multiprocessing as m;print(m.Pool(2).map(abs,[-1,-2]))'", "[1, 2]\n"),
    (
        "python3 -c 'import ssl;print(len(ssl.create_default_context().get_ca_certs())>=0)'",
        "True\n",
    ),
    (
        "python3 -c 'import socket;a,b=socket.socketpair();a.send(b\"x\");print(b.recv(1))'",
        "b'x'\n",
    ),
    (
        "python3 -c 'import os,pwd;print(pwd.getpwuid(os.getuid()).pw_dir==os.environ[\"TG_WS\"] or pwd.getpwuid(os.getuid()).pw_name!=\"\")'",
        "True\n",
    ),
    ("echo t > /tmp/t && cat /tmp/t && echo s > /dev/shm/s && cat /dev/shm/s", "t\ns\n"),
    ("head -c4 /dev/zero | wc -c; head -c4 /dev/urandom | wc -c; echo x > /dev/null", "4\n4\n"),
    ("echo out; echo err >&2; echo in | cat", "out\nin\n"),
    ("bash -c 'echo <(true) >/dev/null; [[ -e /dev/fd/0 ]] && echo fd'", "fd\n"),
    ("sleep 0.01 & wait && echo waited", "waited\n"),
    ("node -e 'console.log([1,2].map(x=>x+1).join())'", "2,3\n"),
    ("id -u | grep -qv '^0$' && echo 'not root'", "not root\n"),
];

/// The box of a lab, with one shell command in it.
async fn shell(lab: &Lab, options: &[&str], command: &str) -> Outcome {
    run(&mut lab.exec(options, command)).await
}

#[tokio::test]
async fn ordinary_work_succeeds_with_every_profile() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        for profile in ["strict", "workspace", "network"] {
            for (command, expected) in WORKS {
                let outcome = shell(&lab, &["--profile", profile], command).await;
                let seen = (outcome.code, outcome.stdout.as_str());
                assert_eq!(
                    seen,
                    (0, lab.expand(expected).as_str()),
                    "{caller:?} {profile}: {command}: {outcome:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_tools_of_the_attempts_are_there() {
    // An attempt with a tool that is missing would fail for the wrong reason.
    let tools = "bash curl dd dmesg find grep kill mkfifo mknod mount prlimit python3 renice setsid \
                 su timeout tr truncate unshare";
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let outcome = shell(
            &lab,
            &[],
            &format!("for t in {tools}; do command -v $t || echo MISSING $t; done"),
        )
        .await;
        assert!(outcome.code == 0 && !outcome.stdout.contains("MISSING"), "{outcome:?}");
    }
}

#[tokio::test]
async fn files_of_the_workspace_belong_to_whoever_runs_the_gateway() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let mine = lab.workspace().join("mine.txt");
        std::fs::write(&mine, "mine\n").unwrap();
        caller.own(&mine);
        run(lab.bare("chmod").arg("600").arg(&mine)).await;
        let outcome =
            shell(&lab, &[], "cat mine.txt; echo more >> mine.txt; echo new > new.txt").await;
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "mine\n"), "{outcome:?}");
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine\nmore\n");
        let new = lab.workspace().join("new.txt").metadata().unwrap();
        assert_eq!(new.uid(), mine.metadata().unwrap().uid(), "{caller:?}");
        let outcome = run(lab.bare("rm").arg("new.txt")).await;
        assert_eq!(outcome.code, 0, "{outcome:?}");
    }
}

#[tokio::test]
async fn only_its_own_processes_are_there() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let outcome = shell(&lab, &[], "echo $$; ls -d /proc/[0-9]* | wc -l").await;
        let numbers: Vec<u32> = outcome.stdout.lines().map(|line| line.parse().unwrap()).collect();
        // Its keeper, the shell, `ls` and `wc`.
        assert!(numbers[0] < 10 && numbers[1] <= 5, "{outcome:?}");
    }
}

#[tokio::test]
async fn further_paths_are_open_as_far_as_they_are_given() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let (out, home) = (lab.variable("TG_OUT"), lab.variable("TG_HOME"));
        let secret = lab.variable("TG_SECRET_FILE");
        let attempt = "cat $TG_OUT/victim.txt; echo x > $TG_OUT/new; cat $TG_SECRET_FILE; ls -A $TG_HOME | wc -l";
        let check = async |options: &[&str], readable: bool, writable: bool| {
            lab.reset();
            let outcome = shell(&lab, options, attempt).await;
            assert_eq!(outcome.stdout.contains("untouched"), readable, "{options:?}: {outcome:?}");
            assert_eq!(lab.path().join("out/new").exists(), writable, "{options:?}: {outcome:?}");
            outcome
        };
        check(&[], false, false).await;
        check(&["--read", out], true, false).await;
        check(&["--write", out], true, true).await;
        check(&["--read", &format!("{out}/victim.txt")], true, false).await;
        // One file of a folder does not open its neighbours.
        let outcome = check(&["--read", secret], false, false).await;
        assert!(
            outcome.stdout.contains(&lab.canary()) && outcome.stdout.ends_with("1\n"),
            "{outcome:?}"
        );
        let outcome = check(&["--profile", "strict", "--read", home], false, false).await;
        assert_eq!(outcome.code, 125, "{outcome:?}");
    }
}

#[tokio::test]
async fn a_workspace_may_be_named_in_any_way() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let link = lab.path().join("link");
        std::os::unix::fs::symlink("ws", &link).unwrap();
        let absolute = lab.workspace();
        for name in [".", "../ws/.", link.to_str().unwrap(), absolute.to_str().unwrap()] {
            let args = ["sandbox", "exec", "--workspace", name, "--timeout", "20", "touch", "here"];
            let outcome = run(&mut lab.program(&args)).await;
            assert_eq!(outcome.code, 0, "{name}: {outcome:?}");
            std::fs::remove_file(absolute.join("here")).unwrap_or_else(|_| panic!("{name}"));
        }
    }
}
