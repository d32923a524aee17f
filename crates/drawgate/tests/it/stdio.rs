//! MCP over standard input and output, through the bridge.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::beyond_tools::servers_with_resources;
use crate::questions::asking;
use crate::support::{Gateway, TestFolder, eventually, text};

/// Sends the messages as lines, and returns as many answers as there are requests.
fn talk(place: &TestFolder, messages: &[Value]) -> Vec<Value> {
    let mut command = place.command(&["mcp"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: Vec<String> = messages.iter().map(|message| format!("{message}\n")).collect();
    let writer = std::thread::spawn(move || {
        for line in lines {
            input.write_all(line.as_bytes()).unwrap();
        }
        input
    });
    let requests = messages.iter().filter(|message| message.get("id").is_some()).count();
    let output = BufReader::new(child.stdout.take().unwrap());
    let answers = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
        .filter(|message| message.get("id").is_some())
        .take(requests)
        .collect();
    drop(writer.join().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(0), "the end of input ends it in order");
    answers
}

#[test]
fn every_request_is_answered_even_one_that_is_too_large() {
    let place = TestFolder::new("");
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let large = json!({ "path": "a.txt", "content": "x".repeat(5 << 20) });
    let answers = talk(
        &place,
        &[
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "vfs_write", "arguments": large } }),
            json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/list" }),
        ],
    );
    let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answer(1)["result"]["serverInfo"]["name"], "drawgate");
    let refusal = answer(2)["error"]["message"].as_str().unwrap();
    assert!(refusal.contains("larger than 4194304 bytes"), "{refusal}");
    assert_eq!(answer(3)["result"]["tools"].as_array().map(Vec::len), Some(5));
}

/// A bridge that is spoken with line by line.
struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Bridge {
    fn start(place: &TestFolder) -> Self {
        let mut command = place.command(&["mcp"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next message that is looked for; others are passed over.
    fn hear(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the bridge has ended");
            let message = serde_json::from_str(&line).unwrap();
            if wanted(&message) {
                return message;
            }
        }
    }

    fn ask(&mut self, id: &str, method: &str, params: &Value) -> Value {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.hear(|message| message["id"] == id)
    }

    /// Asks by revision 2026-07-28.
    fn say_alone(&mut self, id: &str, method: &str, mut params: Value) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    /// Ends the input; the bridge must end in order.
    fn finish(mut self) {
        drop(self.input.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[tokio::test]
async fn notices_come_as_lines() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let mut bridge = Bridge::start(&place);
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    bridge.ask("i", "initialize", &params);
    eventually("the resources", async || {
        let list = bridge.ask("t", "resources/list", &json!({}));
        (list["result"]["resources"] != json!([])).then_some(())
    })
    .await;
    let subscribed = bridge.ask("s", "resources/subscribe", &json!({ "uri": "note://a" }));
    assert_eq!(subscribed["result"], json!({}));
    let update = json!({ "name": "a__update", "arguments": { "uri": "note://a" } });
    bridge.say(&json!({ "jsonrpc": "2.0", "id": "u", "method": "tools/call", "params": update }));
    let told = bridge.hear(|message| message["method"] == "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "note://a");
    bridge.finish();
}

#[tokio::test]
async fn a_request_without_a_session_can_be_given_up() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let mut bridge = Bridge::start(&place);
    let all = json!({ "notifications": { "toolsListChanged": true } });
    bridge.say_alone("listen", "subscriptions/listen", all.clone());
    bridge.hear(|message| message["method"] == "notifications/subscriptions/acknowledged");
    eventually("the tools", async || {
        bridge.say_alone("t", "tools/list", json!({}));
        let list = bridge.hear(|message| message["id"] == "t");
        list.to_string().contains("a__wait").then_some(())
    })
    .await;
    let (begun, until) = (place.path().join("begun"), place.path().join("until"));
    let wait = json!({ "name": "a__wait", "arguments": { "begun": begun, "until": until } });
    bridge.say_alone("wait", "tools/call", wait);
    eventually("the call has begun", async || begun.exists().then_some(())).await;
    for id in ["wait", "listen"] {
        bridge.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    }
    // The one that is not given up ends with the input.
    bridge.say_alone("other", "subscriptions/listen", all);
    bridge.hear(|message| message["method"] == "notifications/subscriptions/acknowledged");
    bridge.finish();
    let log = place.ok(&["audit", "export", "--json"]);
    assert!(log.contains("CANCELLED"), "{log}");
}

/// A client with a session that says it answers questions.
async fn open_asking(place: &TestFolder) -> Bridge {
    let mut bridge = Bridge::start(place);
    let capabilities = json!({ "elicitation": { "form": {}, "url": {} } });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" } });
    bridge.ask("i", "initialize", &params);
    eventually("the tools", async || {
        let list = bridge.ask("t", "tools/list", &json!({}));
        list.to_string().contains("q__ask").then_some(())
    })
    .await;
    bridge
}

fn ask(bridge: &mut Bridge) -> Value {
    let call = json!({ "name": "q__ask", "arguments": {} });
    bridge.say(&json!({ "jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": call }));
    bridge.hear(|message| message["method"] == "elicitation/create")
}

#[tokio::test]
async fn questions_and_answers_are_lines() {
    let place = TestFolder::new(&asking());
    let mut bridge = open_asking(&place).await;
    let question = ask(&mut bridge);
    let given = json!({ "action": "accept", "content": { "name": "ann" } });
    bridge.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": given }));
    let done = bridge.hear(|message| message["id"] == "c");
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("ann"), "{done}");
    let question = ask(&mut bridge);
    bridge.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "c" } }));
    let withdrawn = bridge.hear(|message| message["method"] == "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    bridge.finish();
}

#[tokio::test]
async fn a_client_that_ends_its_input_answers_no_more() {
    let place = TestFolder::new(&asking());
    let mut bridge = open_asking(&place).await;
    let call = json!({ "name": "q__twice", "arguments": {} });
    bridge.say(&json!({ "jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": call }));
    bridge.hear(|message| message["method"] == "elicitation/create");
    drop(bridge.input.take());
    let done = bridge.hear(|message| message["id"] == "c");
    assert!(done["result"].is_object(), "{done}");
    bridge.finish();
}

#[tokio::test]
async fn a_client_without_session_answers_in_a_second_line() {
    let place = TestFolder::new(&asking());
    let mut bridge = open_asking(&place).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    });
    let mut params = json!({ "name": "q__ask", "arguments": {}, "_meta": meta });
    let asked = bridge.ask("a", "tools/call", &params)["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    params["inputResponses"] = json!({ key: { "action": "decline" } });
    params["requestState"] = asked["requestState"].clone();
    let done = bridge.ask("b", "tools/call", &params);
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("decline"), "{done}");
    bridge.finish();
}

const HELLO: &str = r#"{ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } }"#;

/// A bridge whose client has said hello.
fn opened(place: &TestFolder) -> Bridge {
    let mut bridge = Bridge::start(place);
    bridge.ask("i", "initialize", &serde_json::from_str(HELLO).unwrap());
    bridge
}

#[test]
fn a_gateway_of_a_client_makes_way_for_serve_and_comes_back_after_it() {
    let place = TestFolder::new("");
    let mut bridge = opened(&place);
    let write = json!({ "name": "vfs_write", "arguments": { "path": "a", "content": "kept" } });
    let read = json!({ "name": "vfs_read", "arguments": { "path": "a" } });
    bridge.ask("w", "tools/call", &write);
    let pid = bridge.child.id();
    let status = || place.json(&["status"]);
    let is_client = |status: &Value, pid: u32| status["pid"] == pid && status["forClient"] == true;
    let own = status();
    assert!(is_client(&own, pid), "{own}");
    let served = place.serve();
    let next = status();
    assert_eq!((&next["pid"], &next["forClient"]), (&json!(served.child.id()), &json!(false)));
    let again = place.run(&["serve"]);
    let told = text(&again.stderr);
    assert!(
        told.contains(&format!("a gateway runs already: process {}", served.child.id())),
        "{told}"
    );
    let answer = bridge.ask("r", "tools/call", &read);
    assert_eq!(answer["result"]["content"][0]["text"], "kept", "by the other one: {answer}");
    assert_eq!(served.terminate(), Some(0));
    let answer = bridge.ask("s", "tools/call", &read);
    assert_eq!(answer["result"]["content"][0]["text"], "kept", "by itself: {answer}");
    let log = place.json(&["audit", "search", "--since", "1h", "--tool", "*vfs*"]);
    let outcomes = log.as_array().unwrap().len();
    assert_eq!(outcomes, 3, "each call once: {log}");
    assert!(is_client(&status(), pid));
    bridge.finish();
}

#[test]
fn a_serve_that_can_not_listen_ends_nothing() {
    let place = TestFolder::new("");
    let bridge = opened(&place);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let serve = place.run(&["serve", "--listen", &taken.local_addr().unwrap().to_string()]);
    assert!(text(&serve.stderr).contains("can't listen on"), "{serve:?}");
    assert_eq!(place.json(&["status"])["pid"], bridge.child.id());
    bridge.finish();
}

const WRITING_NEEDS_A_PERSON: &str =
    "[[policy.rules]]\nid = \"ask\"\naction = \"file.write\"\ndecision = \"allow_with_confirm\"\n";

/// Makes a call that needs a person, and returns it as `approvals list` shows it.
async fn held(place: &TestFolder, bridge: &mut Bridge) -> Value {
    let write = json!({ "name": "vfs_write", "arguments": { "path": "a", "content": "b" } });
    bridge.say(&json!({ "jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": write }));
    eventually("the approval", async || place.json(&["approvals", "list"]).get(0).cloned()).await
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_is_answered_when_its_gateway_makes_way() {
    let place = TestFolder::new(WRITING_NEEDS_A_PERSON);
    let mut bridge = opened(&place);
    let asked = held(&place, &mut bridge).await;
    let _served = place.serve();
    let answer = bridge.hear(|message| message["id"] == "w").to_string();
    assert!(answer.contains("PERMISSION_ESCALATION_REQUIRED"), "{answer}");
    assert!(answer.contains(asked["id"].as_str().unwrap()), "{answer}");
    assert_eq!(place.json(&["approvals", "list"])[0]["id"], asked["id"], "it stays open");
    bridge.finish();
}

#[tokio::test]
async fn a_gateway_of_a_client_has_pages_for_approvals() {
    let place = TestFolder::new(WRITING_NEEDS_A_PERSON);
    let mut bridge = opened(&place);
    let page = held(&place, &mut bridge).await["page"].as_str().unwrap().to_owned();
    let address = page.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{page}");
    let token = std::fs::read_to_string(place.data().join("admin.token")).unwrap();
    let path = page.split_once(&address).unwrap().1.to_owned();
    let gateway = Gateway { child: bridge.child, address, token: token.trim().to_owned() };
    let shown = gateway.send(Method::GET, &path, &[], "").await;
    assert_eq!(shown.status, StatusCode::OK, "{shown:?}");
    let address = place.json(&["status"])["endpoint"].clone();
    assert_eq!(address, format!("http://{}/mcp", gateway.address));
}

#[tokio::test]
async fn the_next_client_takes_over_by_itself() {
    let place = TestFolder::new("");
    let first = opened(&place);
    let others = [opened(&place), opened(&place)];
    let own = first.child.id();
    assert_eq!(place.json(&["status"])["pid"], own);
    first.finish();
    // Neither of the others says anything.
    let next = eventually("another gateway", async || {
        let status = serde_json::from_slice::<Value>(&place.run(&["status", "--json"]).stdout);
        status.ok().filter(|status| status["running"] == true)
    })
    .await;
    assert!(others.iter().any(|bridge| next["pid"] == bridge.child.id()), "{next}");
    // `drawgate serve` has one of them make way, and the other does not come in between.
    let served = place.serve();
    assert_eq!(place.json(&["status"])["pid"], served.child.id());
    let read = json!({ "name": "vfs_list", "arguments": {} });
    for mut bridge in others {
        assert!(bridge.ask("r", "tools/call", &read)["result"].is_object());
        bridge.finish();
    }
}

#[tokio::test]
async fn commands_wait_for_a_gateway_that_ends_and_status_says_so() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let mut bridge = opened(&place);
    let (begun, until) = (place.path().join("begun"), place.path().join("until"));
    let wait = json!({ "name": "a__wait", "arguments": { "begun": begun, "until": until } });
    // The first call of a server that was never met waits for it.
    bridge.say(&json!({ "jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": wait }));
    eventually("the call has begun", async || begun.exists().then_some(())).await;
    let mut serve = place.command(&["serve"]);
    let mut serve = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = eventually("the gateway ends", async || {
        let output = place.run(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        (status["running"] == false).then_some(status)
    })
    .await;
    assert_eq!(status["inUseBy"], bridge.child.id(), "{status}");
    let shown = text(&place.run(&["status"]).stdout);
    assert!(shown.contains("starts or ends a gateway"), "{shown}");
    assert!(shown.contains(&format!("`drawgate serve`, process {}, takes over", serve.id())));
    let mut list = place.command(&["agents", "list"]);
    let list = list.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::fs::write(&until, "").unwrap();
    let done = bridge.hear(|message| message["id"] == "c");
    assert!(done["result"].is_object(), "{done}");
    let listed = list.wait_with_output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    eventually("the new gateway", async || {
        let output = place.run(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        (status["pid"] == serve.id()).then_some(())
    })
    .await;
    bridge.finish();
    serve.kill().unwrap();
    serve.wait().unwrap();
}

#[tokio::test]
async fn of_two_serves_one_takes_over_and_the_other_says_so() {
    let place = TestFolder::new("listen = \"127.0.0.1:0\"\n");
    let bridge = opened(&place);
    let serve = || {
        let mut command = place.command(&["serve"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut both = vec![serve(), serve()];
    let pid = eventually("a gateway", async || {
        let status: Value =
            serde_json::from_slice(&place.run(&["status", "--json"]).stdout).ok()?;
        both.iter().map(Child::id).find(|pid| status["pid"] == *pid)
    })
    .await;
    let place_of_other = both.iter().position(|child| child.id() != pid).unwrap();
    let other = both.remove(place_of_other).wait_with_output().unwrap();
    assert!(text(&other.stderr).contains("a gateway runs already"), "{other:?}");
    bridge.finish();
    both[0].kill().unwrap();
    both[0].wait().unwrap();
}

#[test]
fn an_agent_that_does_not_exist_has_no_bridge() {
    let place = TestFolder::new("");
    for name in ["worker", "other"] {
        place.ok(&["agents", "add", name]);
    }
    let refused = place.run(&["mcp", "--agent", "wroker"]);
    let told = text(&refused.stderr);
    assert!(!refused.status.success(), "{told}");
    assert!(told.contains("there is no agent `wroker`"), "{told}");
    assert!(told.contains("did you mean `worker`?"), "{told}");
}

#[test]
fn a_gateway_does_not_start_with_too_few_files() {
    let place = TestFolder::new("");
    let command = place.command(&["serve"]);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    #[expect(clippy::disallowed_methods, reason = "tests start programs")]
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 40; exec \"$@\"", "sh"]).args(&words);
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(command.get_current_dir().unwrap_or(place.path()));
    let refused = limited.output().unwrap();
    let told = text(&refused.stderr);
    assert!(told.contains("may open 40 files, and a gateway needs 128"), "{told}");
    assert!(!refused.status.success());
}
