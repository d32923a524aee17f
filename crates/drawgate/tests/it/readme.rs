//! The commands of `README.md`, run in the order in which they stand.
//!
//! Each line of its `sh` blocks is run by a shell in one folder, beside a gateway that has the
//! configuration of the `toml` blocks so far. What can't run here is named below, with the reason.
#![expect(clippy::disallowed_methods, reason = "tests start the program itself")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use drawgate_agents::model::Api;
use drawgate_agents::testing::fake_models::{FakeModels, Rule};
use serde_json::json;

use crate::support::{Gateway, PROGRAM, TestFolder, eventually, text};

/// Lines that are not run, by how they begin.
const LEFT_OUT: [(&str, &str); 7] = [
    ("cargo run --release", "the program is built already, and the test starts it itself"),
    ("./test", "it runs this test"),
    ("drawgate serve --config", "the test starts the gateway itself, with the file named"),
    ("export PATH=", "the program under test is in the path already"),
    ("cargo run -p hello-pack", "it needs a build of its own; other tests run packs"),
    ("drawgate servers review everything --accept", "nothing has changed that could be accepted"),
    ("drawgate audit prune", "nothing is old enough; other tests prune"),
];

/// A block of code, with its language.
struct Block {
    language: String,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut parts = document.split("```");
    let mut found = Vec::new();
    // Text and blocks take turns.
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        found.push(Block { language: language.to_owned(), text: text.to_owned() });
    }
    found
}

/// The commands of a block: lines, with those that follow a backslash or stand inside quotes.
fn commands(block: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut open = String::new();
    for line in block.lines() {
        open.push_str(line);
        let is_open = line.ends_with('\\') || open.matches('\'').count() % 2 == 1;
        if is_open {
            open.push('\n');
        } else if !open.trim().is_empty() {
            found.push(std::mem::take(&mut open));
        }
    }
    assert_eq!(open, "", "a command does not end");
    found
}

struct Reader {
    place: TestFolder,
    gateway: Gateway,
    config: String,
    /// In place of the provider of models that the configuration names.
    models: FakeModels,
}

impl Reader {
    async fn begin() -> Self {
        let place = TestFolder::new("");
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        std::os::unix::fs::symlink(root, place.path().join("examples")).unwrap();
        std::fs::create_dir_all(place.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(PROGRAM, place.path().join("bin/drawgate")).unwrap();
        let gateway = place.serve();
        let haiku = json!({ "path": "haiku.txt", "content": "An open gate waits" });
        let rules = vec![Rule::calls([("vfs_write", haiku)]).at_turn(0), Rule::text("Done.")];
        let models = FakeModels::start(rules).await.unwrap();
        Self { place, gateway, config: String::new(), models }
    }

    /// Adds to the configuration; the server that would be downloaded is one from here.
    async fn configure(self, text: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/server.py");
        let text = text.replace("\"npx\"", "\"python3\"").replace(
            "[\"-y\", \"@modelcontextprotocol/server-everything\"]",
            &format!("[\"{script}\"]"),
        );
        let url = format!("kind = \"anthropic\"\nurl = \"{}\"", self.models.url(Api::Anthropic));
        let text = text.replace("kind = \"anthropic\"", &url);
        let Self { place, gateway, config, models } = self;
        assert_eq!(gateway.terminate(), Some(0));
        let config = config + &text;
        place.configure(&config);
        let gateway = place.serve_with(|command| {
            command.env("EVERYTHING_KEY", "not a secret");
            command.env("ANTHROPIC_API_KEY", "not a secret either");
        });
        eventually("the servers are there", async || {
            let names = gateway.tool_names(&gateway.token).await;
            names.iter().any(|name| name == "everything__echo").then_some(())
        })
        .await;
        Self { place, gateway, config, models }
    }

    /// A command with what its placeholders stand for.
    fn filled(&self, command: &str) -> String {
        let json = |args: &[&str]| self.place.json(args);
        let mut command = command
            .replace("127.0.0.1:7700", &self.gateway.address)
            .replace("/tmp/box", self.place.path().join("box").to_str().unwrap());
        if command.contains("grants revoke ID") {
            let grants = json(&["grants", "list", "--agent", "research-bot"]);
            let ids =
                grants.as_array().unwrap().iter().filter_map(|grant| grant["grantId"].as_str());
            let id = ids.into_iter().find(|id| id.starts_with("g_")).unwrap().to_owned();
            command = command.replace(" ID", &format!(" {id}"));
        }
        if command.contains("REQUEST_ID") {
            let events = self.place.ok(&["audit", "export", "--json"]);
            let request = events.lines().find_map(|line| {
                let event: serde_json::Value = serde_json::from_str(line).unwrap();
                let id = event["requestId"].as_str().or(event["event"]["requestId"].as_str());
                id.map(str::to_owned)
            });
            command = command.replace("REQUEST_ID", &request.unwrap());
        }
        if command.contains("PUBLIC_KEY") {
            let key = std::fs::read_to_string(self.place.data().join("audit.pub")).unwrap();
            command = command.replace("PUBLIC_KEY", key.trim());
        }
        if command.contains("artifacts get HASH") {
            self.place.ok(&["tools", "call", "everything__big", "bytes:=1200000"]);
            let all = json(&["artifacts", "list"]);
            let hash = all[0]["sha256"].as_str().unwrap().to_owned();
            command = command.replace("HASH", &hash);
        }
        command
    }

    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        let path = format!(
            "{}:{}",
            self.place.path().join("bin").display(),
            std::env::var("PATH").unwrap()
        );
        shell.args(["-ec", command]).current_dir(self.place.path()).stdin(Stdio::null());
        shell
            .env("PATH", path)
            .env("HOME", self.place.path())
            .env("EVERYTHING_KEY", "not a secret");
        for name in ["DRAWGATE_CONFIG", "DRAWGATE_DATA", "DRAWGATE_LISTEN"] {
            shell.env_remove(name);
        }
        shell
    }

    fn run(&self, command: &str) {
        let command = self.filled(command);
        if command.contains("--follow") {
            // In the shell's place, so that it is the program itself that is ended.
            let mut child =
                self.shell(&format!("exec {command}")).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!line.is_empty(), "`{command}` prints nothing");
            return;
        }
        let output = self.shell(&command).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "`{command}`: {}\n{said}", output.status);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_readme_work_in_their_order() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let mut reader = Reader::begin().await;
    let mut unused: Vec<&str> = LEFT_OUT.iter().map(|(start, _)| *start).collect();
    for block in blocks(&readme) {
        match block.language.as_str() {
            "toml" => reader = reader.configure(&block.text).await,
            "sh" => {
                for command in commands(&block.text) {
                    match LEFT_OUT.iter().find(|(start, _)| command.starts_with(start)) {
                        Some((start, _)) => unused.retain(|other| other != start),
                        None => reader.run(&command),
                    }
                }
            }
            _ => {}
        }
    }
    assert_eq!(unused, [""; 0], "the README has no such lines any more");
}

#[test]
fn lines_that_belong_together_are_one_command() {
    let block = "a \\\n  b   # c\n\nd 'e\nf'\ng\n";
    assert_eq!(commands(block), ["a \\\n  b   # c", "d 'e\nf'", "g"]);
}
