//! What a program in the box has written, shown by the gateway's commands on a real terminal.

use super::attempt::on_terminal;
use super::caller::Caller;
use super::files::tool_args;
use super::lab::Lab;
use super::outcome::{Outcome, run};
use super::table::named;

/// More of the kind of the row: C1 controls, marks of direction, and a title.
const MORE: &str = r"printf '\302\233 2J \302\235 \342\200\256evil\342\201\246 \033]0;title\007 \r\b\177 all good'";

/// Characters that a terminal obeys or that hide what is written.
fn obeyed(text: &str) -> Vec<char> {
    let is_obeyed = |c: &char| match *c {
        '\n' | '\r' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    };
    text.chars().filter(is_obeyed).collect()
}

async fn show(lab: &Lab, args: &[&str]) -> Outcome {
    run(on_terminal(lab, lab.program_path()).args(tool_args(lab, args))).await
}

#[tokio::test]
async fn no_output_of_a_tool_commands_the_terminal() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        for command in [named("broker_ansi_output").command, MORE] {
            let written = run(&mut lab.exec(&[], &format!("{command} > out.txt"))).await;
            assert_eq!(written.code, 0, "{written:?}");
            // The terminal is a real one: whoever writes the bytes there as they are is seen to.
            let bare = run(on_terminal(&lab, "cat").arg("out.txt")).await;
            assert!(obeyed(&bare.stdout).contains(&'\u{7}'), "{bare:?}");
            for args in [&["vfs_read", "path=out.txt"][..], &["vfs_read", "path=out.txt", "--json"]]
            {
                let shown = show(&lab, args).await;
                assert_eq!(shown.code, 0, "{shown:?}");
                assert!(shown.stdout.contains("all good"), "{shown:?}");
                assert!(obeyed(&shown.stdout).is_empty(), "{args:?}: {shown:?}");
                assert!(obeyed(&shown.stderr).is_empty(), "{args:?}: {shown:?}");
            }
        }
    }
}

#[tokio::test]
async fn no_name_and_no_error_commands_the_terminal() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let made = run(&mut lab.exec(&[], named("broker_hostile_names").command)).await;
        assert_eq!(made.code, 0, "{made:?}");
        let long = "path=\u{1b}[2J\u{9b}\u{202e}x";
        for args in [
            &["vfs_list"][..],
            &["vfs_list", "--json"],
            &["vfs_read", long],
            &["vfs_read", long, "--json"],
            &["\u{1b}[2J\u{202e}no_such_tool"],
            &["vfs_read", "\u{1b}[2J\u{9b}"],
        ] {
            let shown = show(&lab, args).await;
            assert!(!shown.stdout.is_empty(), "{args:?}: {shown:?}");
            assert!(obeyed(&shown.stdout).is_empty(), "{args:?}: {shown:?}");
        }
    }
}

/// A person who types commands into a shell in the box, and what they see.
#[tokio::test]
async fn a_shell_in_the_box_has_a_terminal_of_its_own() {
    const PERSON: &str = r#"
import os, pty, sys, termios
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
before = termios.tcgetattr(terminal)
seen = b""
def until(mark):
    global seen
    while mark not in seen:
        try: part = os.read(terminal, 4096)
        except OSError: part = b""
        if not part: sys.exit("ended before %r: %r" % (mark, seen))
        seen += part
os.write(terminal, b"tty -s && echo is-a-$((1+1))-terminal; stty size | tr ' ' x\n")
until(b"is-a-2-terminal")
os.write(terminal, b"sh -c 'echo asleep-$((1+2)); exec sleep 1000'\n")
until(b"asleep-3")
os.write(terminal, b"\x03echo interrupted-$((2+3))\n")
until(b"interrupted-5")
os.write(terminal, b"exit 7\n")
_, status = os.waitpid(child, 0)
assert termios.tcgetattr(terminal) == before, "the terminal is as it was"
print("code", os.waitstatus_to_exitcode(status))
"#;
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let workspace = lab.workspace();
        let mut person = lab.bare("python3");
        person.args(["-c", PERSON, lab.program_path(), "sandbox", "exec", "--workspace"]);
        person.arg(workspace).args(["--timeout", "60", "--", "sh"]);
        let seen = run(&mut person).await;
        assert_eq!((seen.code, seen.stdout.trim()), (0, "code 7"), "{seen:?}");
    }
}
