//! What a new user meets: signs of life, the first server, the first agent.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::support::{PROGRAM, TestFolder, text};

/// Runs a program at a terminal of 80 columns, and says what it shows as it shows it.
const AT_TERMINAL: &str = r#"
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    os.write(1, part)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;
const REACH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/reach.py");

/// A call that waits for a person, who approves it once the command has said so.
fn held(
    place: &TestFolder,
    mut command: Command,
    says: impl FnOnce(&mut Child) -> String,
) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said = says(&mut child);
    let id = said.split("approvals approve ").nth(1).and_then(|rest| rest.split('`').next());
    assert!(place.approve(id.unwrap_or_else(|| panic!("{said:?}"))).status.success());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    format!("{said}{}{}", text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_a_person_says_so() {
    let place = TestFolder::new(
        "[approvals]\nhold_seconds = 120\n[policy.defaults]\nfallback = \"allow\"\n\
         [[policy.rules]]\nid = \"ask\"\naction = \"file.write\"\ndecision = \"allow_with_confirm\"\n",
    );
    let _gateway = place.serve();
    let arguments = |name| ["tools", "call", "vfs_write", name, "content=x"];
    // In a pipe: plain lines, and no control character.
    let plain = held(&place, place.command(&arguments("path=a.txt")), |child| {
        let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().contains("approvals approve")).unwrap().unwrap()
    });
    assert!(plain.starts_with("drawgate: waiting for a person: "), "{plain:?}");
    assert!(!plain.contains(|c: char| c.is_control() && c != '\n'), "{plain:?}");
    // At a terminal: a line that is whole however narrow it is, and a spinner that is gone at the end.
    let mut terminal = Command::new("python3");
    terminal.args(["-c", AT_TERMINAL, PROGRAM]).args(arguments("path=b.txt"));
    terminal.current_dir(place.path()).env("DRAWGATE_CONFIG", "drawgate.toml").env("TERM", "xterm");
    let shown = held(&place, terminal, |child| {
        let (out, mut said) = (child.stdout.as_mut().unwrap(), Vec::new());
        while !text(&said).contains("in another terminal") {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        text(&said)
    });
    let last = shown.trim_end().rsplit('\r').find(|line| !line.trim().is_empty()).unwrap();
    assert!(!last.contains("waiting for a person"), "{shown:?}");
    // For a program: nothing. The answer is the same as before, so that no person is asked again.
    let json = place.run(&["tools", "call", "vfs_read", "path=b.txt", "--json"]);
    assert_eq!(text(&json.stderr), "");
}

#[test]
fn a_call_that_is_held_without_a_gateway_is_decided_in_another_terminal() {
    let place = TestFolder::new(
        "[approvals]\nhold_seconds = 120\n[policy.defaults]\nfallback = \"allow\"\n\
         [[policy.rules]]\nid = \"ask\"\naction = \"file.write\"\ndecision = \"allow_with_confirm\"\n",
    );
    for (decision, passes) in [("approve", true), ("deny", false)] {
        let path = format!("path={decision}.txt");
        let mut command = place.command(&["tools", "call", "vfs_write", &path, "content=x"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
        let said = lines.find(|line| line.as_ref().unwrap().contains("approvals approve"));
        let said = said.unwrap().unwrap();
        let id = said.split("approvals approve ").nth(1).and_then(|rest| rest.split('`').next());
        let id = id.unwrap_or_else(|| panic!("{said:?}"));
        let listed = place.json(&["approvals", "list"]);
        assert_eq!((&listed[0]["id"], &listed[0]["isAwaited"]), (&json!(id), &json!(true)));
        assert!(place.ok(&["approvals", "show", id]).contains("and a call waits"));
        let decided = place.decide(decision, id);
        assert!(decided.status.success(), "{}", text(&decided.stderr));
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.success(), passes, "{}", text(&output.stderr));
    }
    assert!(!place.data().join("approvals.sock").exists());
}

#[test]
fn a_call_without_a_gateway_starts_only_its_server() {
    let server = |name: &str| {
        let start = format!("echo > started; exec python3 {REACH}");
        format!(
            "[servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", \"{start}\"]\npermissions.read = [\"{REACH}\"]\n"
        )
    };
    let place = TestFolder::new(&[server("one"), server("other")].concat());
    let was_started = |name: &str| place.data().join("servers").join(name).join("started").exists();
    let said = place.ok(&["tools", "call", "one__variable", "name=NONE"]);
    assert_eq!(said.trim(), "none");
    assert_eq!((was_started("one"), was_started("other")), (true, false));
    // A tool of the gateway's own starts none, and one that no name tells starts all.
    place.ok(&["tools", "call", "vfs_list"]);
    assert!(!was_started("other"));
    assert!(!place.run(&["tools", "call", "unheard_of"]).status.success());
    assert!(was_started("other"));
}

#[test]
fn a_secret_is_stored_from_standard_input_and_named_to_its_servers() {
    let place = TestFolder::new(
        "[servers.far]\nurl = \"http://127.0.0.1:9/mcp\"\nheaders = { Authorization = \"env:FAR_KEY\" }\n",
    );
    let missing = place.run(&["servers", "doctor", "far"]);
    assert!(text(&missing.stdout).contains("`drawgate secrets set FAR_KEY`"), "{missing:?}");
    let set = |name: &str, value: &str| {
        let mut command = place.command(&["secrets", "set", name]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let stored = set("FAR_KEY", "s3cret\n");
    let said = text(&stored.stdout);
    assert!(stored.status.success() && said.contains("`drawgate servers restart far`"), "{said}");
    assert!(!said.contains("s3cret"));
    let file = std::fs::read_to_string(place.data().join("secrets.env")).unwrap();
    assert_eq!(file, "FAR_KEY='s3cret'\n");
    assert_eq!(place.json(&["secrets", "list"]), json!(["FAR_KEY"]));
    for (name, value, code) in [("FAR-KEY", "x", 64), ("EMPTY", "", 1)] {
        assert_eq!(set(name, value).status.code(), Some(code), "{name}");
    }
    let found = place.run(&["servers", "doctor", "far"]);
    assert!(!text(&found.stdout).contains("secrets set"), "{found:?}");
}

#[test]
fn a_provider_and_a_profile_are_made_by_commands() {
    let place = TestFolder::new("# mine\n");
    let said = place.ok(&["providers", "add", "anthropic", "--model", "claude-sonnet-4-6"]);
    assert!(said.contains("`drawgate secrets set ANTHROPIC_API_KEY`"), "{said}");
    place.ok(&[
        "providers",
        "add",
        "local",
        "--kind",
        "openai_chat",
        "--url",
        "http://127.0.0.1:9/v1",
    ]);
    let config = std::fs::read_to_string(place.path().join("drawgate.toml")).unwrap();
    let parsed: toml::Table = config.parse().unwrap();
    assert!(config.contains("# mine"), "{config}");
    assert_eq!(
        serde_json::to_value(parsed).unwrap(),
        json!({
            "providers": {
                "anthropic": { "kind": "anthropic", "key": "env:ANTHROPIC_API_KEY" },
                "local": { "kind": "openai_chat", "url": "http://127.0.0.1:9/v1" },
            },
            "models": { "default": "anthropic/claude-sonnet-4-6" },
        })
    );
    for args in [&["providers", "add", "anthropic"][..], &["providers", "add", "mine"]] {
        assert!(!place.run(args).status.success(), "{args:?}");
    }
    place.ok(&["profiles", "new", "helper"]);
    assert!(!place.run(&["profiles", "new", "helper"]).status.success(), "it is there");
    assert!(!place.run(&["profiles", "new", "../helper"]).status.success());
    place.ok(&["profiles", "accept", "helper", "--yes"]);
    assert_eq!(place.json(&["profiles", "list"])[0]["state"], "accepted");
}

#[test]
fn disabled_servers_stay_listed() {
    let place = TestFolder::new("[servers.far]\nurl = \"http://127.0.0.1:9/mcp\"\n");
    place.ok(&["servers", "disable", "far"]);
    let said = place.ok(&["servers", "list"]);
    assert!(said.contains("far") && said.contains("`drawgate servers enable far`"), "{said}");
    let all = place.json(&["servers", "list"]);
    assert!(
        all.as_array().unwrap().contains(&json!({ "id": "far", "state": "disabled" })),
        "{all}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_force_is_said() {
    let place = TestFolder::new("");
    let _gateway = place.serve();
    let said = place.ok(&["config", "check"]);
    assert!(said.contains("the running gateway has it in force"), "{said}");
    let mut show = place.command(&["config", "show"]);
    let shown = show.env("DRAWGATE_LISTEN", "127.0.0.1:7799").output().unwrap();
    assert!(text(&shown.stdout).contains("127.0.0.1:7799"), "{shown:?}");
    place.ok(&["agents", "add", "bot"]);
    let granted = place.run(&["grants", "add", "moon.walk", "--agent", "bot"]);
    assert!(text(&granted.stderr).contains("no tool requires `moon.walk`"), "{granted:?}");
    let used = place.run(&["grants", "add", "file.*", "--agent", "bot"]);
    assert_eq!(text(&used.stderr), "");
}
