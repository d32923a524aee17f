//! What a server asked for in its sandbox and was not given: named, with the command that allows it.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};

use crate::support::{Gateway, PROGRAM, TestFolder, text};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/reach.py");

/// Runs a program at a terminal, and answers its questions with the letters of the first argument.
const AT_TERMINAL: &str = r#"
import os, pty, sys
answers, command = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
said, answered = b"", 0
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    said += part
    while said.count(b"[y/N] ") > answered:
        os.write(terminal, (answers[answered:answered + 1] or "n").encode() + b"\n")
        answered += 1
sys.stdout.buffer.write(said)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

struct Lab {
    place: TestFolder,
    gateway: Gateway,
}

impl Lab {
    /// A gateway, with the server if it is to be there from the beginning.
    fn new(config: impl FnOnce(&str) -> String) -> Self {
        let place = TestFolder::new("");
        for folder in ["notes", "other"] {
            std::fs::create_dir(place.path().join(folder)).unwrap();
        }
        std::fs::write(place.path().join("other/b c.txt"), "content").unwrap();
        let notes = place.path().canonicalize().unwrap().join("notes");
        place.configure(&config(notes.to_str().unwrap()));
        let gateway = place.serve_with(|command| {
            command.env("REACH_TOKEN", "0123456789abcdef");
        });
        Self { place, gateway }
    }

    fn path(&self, name: &str) -> String {
        self.place.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned()
    }

    async fn call(&self, tool: &str, arguments: Value) -> (String, bool) {
        let result =
            self.gateway.call(&self.gateway.token, &format!("reach__{tool}"), arguments).await;
        let blocks = result["content"].as_array().unwrap_or_else(|| panic!("{result}"));
        let texts: Vec<&str> = blocks.iter().map(|block| block["text"].as_str().unwrap()).collect();
        (texts.join("\n"), result["isError"] == true)
    }

    /// The command that `servers doctor` prints for a refusal.
    fn advised(&self, refusal: &str) -> String {
        let said = self.place.ok(&["servers", "doctor", "reach"]);
        let line = said.lines().find(|line| line.contains(&format!("refused: {refusal};")));
        let line = line.unwrap_or_else(|| panic!("{refusal}: {said}"));
        line.split("to allow it: `").nth(1).unwrap().trim_end_matches('`').to_owned()
    }

    /// Runs a command as it was printed, by a shell.
    fn paste(&self, command: &str) -> Output {
        let folder = Path::new(PROGRAM).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.place.path());
        shell
            .env("PATH", path)
            .env("DRAWGATE_CONFIG", "drawgate.toml")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

fn server(folder: &str) -> String {
    format!("[servers.reach]\ncommand = \"python3\"\nargs = [\"{SCRIPT}\", \"{folder}\"] # ours\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_is_named_and_the_printed_command_lifts_it() {
    let lab = Lab::new(server);
    lab.place.ok(&["servers", "doctor", "reach"]);
    // Another address of this machine than the one that a program reaches itself by.
    let site = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
    let host = site.local_addr().unwrap().to_string();
    let router = Router::new().route("/", get(|| async { "a page" }));
    tokio::spawn(async move { axum::serve(site, router).await.unwrap() });
    let (note, other) = (lab.path("notes/new.txt"), lab.path("other/b c.txt"));
    let cases = [
        (
            "write",
            json!({ "path": note }),
            format!("writing in `{}`", lab.path("notes")),
            "written",
        ),
        ("read", json!({ "path": other }), format!("reading `{other}`"), "content"),
        (
            "get",
            json!({ "url": format!("http://{host}/") }),
            format!("the host `{host}`"),
            "a page",
        ),
        (
            "need",
            json!({ "name": "REACH_TOKEN" }),
            "the variable `REACH_TOKEN`".to_owned(),
            "has it",
        ),
    ];
    for (tool, arguments, refusal, expected) in cases {
        let (said, is_error) = lab.call(tool, arguments.clone()).await;
        assert!(is_error, "{tool}: {said}");
        // What a server says on its standard error is not part of the call.
        let told = format!("the sandbox refused {refusal}; an operator can allow it by `");
        assert_eq!(said.contains(&told), tool != "need", "{tool}: {said}");
        let command = lab.advised(&refusal);
        let logged = lab.place.run(&["servers", "logs", "reach"]);
        assert!(text(&logged.stderr).contains(&command), "{}", text(&logged.stderr));
        assert!(lab.place.log().contains(&format!("was refused {refusal}")), "{}", lab.place.log());
        let pasted = lab.paste(&command);
        assert!(
            pasted.status.success(),
            "{command}: {}{}",
            text(&pasted.stdout),
            text(&pasted.stderr)
        );
        assert_eq!(lab.call(tool, arguments).await, (expected.to_owned(), false), "{command}");
    }
    assert_eq!(std::fs::read_to_string(note).unwrap(), "written");
    let config = std::fs::read_to_string(lab.place.path().join("drawgate.toml")).unwrap();
    assert!(config.contains("# ours") && config.contains("sandbox = \"network\""), "{config}");
    let said = lab.place.ok(&["servers", "doctor", "reach"]);
    assert!(!said.contains("refused"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_lacks_is_offered_at_the_terminal() {
    let lab = Lab::new(|_| String::new());
    let notes = lab.path("notes");
    let add = [
        "servers",
        "add",
        "reach",
        "--ask",
        "--env",
        "REACH_WANTS=REACH_TOKEN",
        "--",
        "python3",
        SCRIPT,
        &notes,
    ];
    let refused = lab.place.run(&add);
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("there is no terminal to ask at"), "{said}");
    let mut command = lab.place.command(&[]);
    let mut terminal = Command::new("python3");
    terminal.args(["-c", AT_TERMINAL, "yy", PROGRAM]).args(add).current_dir(lab.place.path());
    for (name, value) in command.stdin(Stdio::null()).get_envs() {
        match value {
            Some(value) => terminal.env(name, value),
            None => terminal.env_remove(name),
        };
    }
    let output = terminal.output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", lab.place.log());
    assert!(said.contains("May it write there? [y/N]"), "{said}");
    assert!(
        said.contains("`reach` was refused the variable `REACH_TOKEN`. Allow it? [y/N]"),
        "{said}"
    );
    let config = std::fs::read_to_string(lab.place.path().join("drawgate.toml")).unwrap();
    assert!(config.contains("REACH_TOKEN = \"env:REACH_TOKEN\""), "{config}");
    let written = lab.call("write", json!({ "path": lab.path("notes/x") })).await;
    assert_eq!(written, ("written".to_owned(), false));
    assert_eq!(lab.call("need", json!({ "name": "REACH_TOKEN" })).await.0, "has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_authorities_of_the_operator_reach_the_sandbox() {
    let place = TestFolder::new("");
    let authority = place.path().canonicalize().unwrap().join("ca.pem");
    std::fs::write(&authority, include_str!("callers/cert.pem")).unwrap();
    let key = place.path().join("key.pem");
    std::fs::write(&key, include_str!("callers/key.pem")).unwrap();
    place.configure(&server("x"));
    let gateway = place.serve_with(|command| {
        command
            .env("OUR_OWN_CA_BUNDLE", &authority)
            .env("OUR_KEY", &key)
            .env("OUR_TOKEN", "hunter2hunter2");
    });
    place.ok(&["servers", "doctor", "reach"]);
    let call = async |tool: &str, arguments: Value| {
        let result = gateway.call(&gateway.token, &format!("reach__{tool}"), arguments).await;
        result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    let named = call("variable", json!({ "name": "OUR_OWN_CA_BUNDLE" })).await;
    assert_eq!(Path::new(&named), authority);
    assert!(call("read", json!({ "path": named })).await.contains("BEGIN CERTIFICATE"));
    for hidden in ["OUR_KEY", "OUR_TOKEN"] {
        assert_eq!(call("variable", json!({ "name": hidden })).await, "none");
    }
}
