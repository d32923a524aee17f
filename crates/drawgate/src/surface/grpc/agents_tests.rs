use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use drawgate_core::model::{McpManifest, SourceId, ToolOutput};
use drawgate_core::pipeline::GatewaySettings;
use drawgate_core::registry::{Naming, Origin, SourceTerms};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use drawgate_core::testing::{FakeSource, TestGate, tool};
use drawgate_sdk::proto::agent_message::Message as ToGateway;
use drawgate_sdk::proto::gateway_message::Message;
use drawgate_sdk::proto::tool_call_result::Result as Outcome;
use drawgate_sdk::proto::{
    AgentRegistration, CancelCall, Heartbeat, ToolCall, ToolDefinition, ToolFailure, Welcome,
};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::codegen::tokio_stream::StreamExt;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;

use super::*;

const HEARTBEAT: Duration = Duration::from_secs(10);

/// A gate with the service in front.
struct Fixture {
    gate: TestGate,
    agents: Agents,
    stop: CancellationToken,
    slow: Arc<Slow>,
}

/// A tool that works until it is let go, told by the number of its calls.
struct Slow {
    id: SourceId,
    began: Semaphore,
    go_on: Semaphore,
}

#[async_trait]
impl ToolSource for Slow {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        let tools = json!([tool("wait", &Value::Null)]);
        Ok(serde_json::from_value(
            json!({ "serverId": "slow", "name": "slow", "version": "1", "tools": tools }),
        )
        .unwrap())
    }

    async fn call(&self, _: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        if let Some(progress) = &cx.progress {
            let report = json!({ "progress": 1, "total": 4, "message": "a quarter" });
            progress.report(report.as_object().unwrap().clone());
        }
        self.began.add_permits(1);
        self.go_on.acquire().await.unwrap().forget();
        Ok(ToolOutput::text("done"))
    }
}

impl Fixture {
    async fn new() -> Self {
        let gate = TestGate::new().await;
        let slow = Arc::new(Slow {
            id: SourceId::new("slow").unwrap(),
            began: Semaphore::new(0),
            go_on: Semaphore::new(0),
        });
        let manifest = slow.manifest().await.unwrap();
        gate.declare(slow.clone(), manifest, flat(), Origin::Discovered).unwrap();
        let stop = CancellationToken::new();
        let agents = Agents::new(AgentsParts {
            gateway: gate.gateway.clone(),
            stop: stop.clone(),
            heartbeat: HEARTBEAT,
            spans: Spans::default(),
            mcp: None,
        });
        let fixture = Self { gate, agents, stop, slow };
        fixture.offer("file-tools", file_tools());
        fixture
    }

    fn offer(&self, source: &str, tools: Vec<drawgate_core::model::McpToolSpec>) {
        let source = FakeSource::new(source, tools, |tool, arguments| answer(tool, &arguments));
        let manifest = source.describe();
        self.gate.declare(source, manifest, flat(), Origin::Declared).unwrap();
    }

    fn limit(&self, change: impl FnOnce(&mut GatewaySettings)) {
        let settings = &self.gate.control.parts().settings;
        let mut next = GatewaySettings::clone(&settings.load());
        change(&mut next);
        settings.store(Arc::new(next));
    }

    /// A connection of an agent whose key allows this.
    fn connect(&self, name: &str, allowed: &[&str]) -> TestConversation {
        let (to, incoming) = mpsc::channel(1);
        let agent = Agent {
            name: Principal::new(name).unwrap(),
            allowed: allowed.iter().map(|text| Capability::new(text).unwrap()).collect(),
            connection: name.to_owned(),
            authority: None,
            cut: CancellationToken::new(),
        };
        let (conversation, from) = self.agents.open(agent).unwrap();
        let ended = tokio::spawn(conversation.run(ReceiverStream::new(incoming)));
        TestConversation { to, from, ended }
    }

    /// The same, registered for all that its key allows.
    async fn join(&self, name: &str, allowed: &[&str]) -> (TestConversation, Welcome) {
        let mut talk = self.connect(name, allowed);
        talk.register(name, &[]).await;
        let welcome = talk.welcome().await;
        (talk, welcome)
    }

    async fn outcomes(&self) -> Vec<Option<String>> {
        let events = self.gate.events().await;
        let outcomes = events.iter().map(|event| serde_json::to_value(event).unwrap());
        let outcomes = outcomes.filter(|event| event["kind"] == "outcome");
        outcomes.map(|event| event["code"].as_str().map(str::to_owned)).collect()
    }
}

fn flat() -> SourceTerms {
    let capabilities = vec![Capability::new("public").unwrap()];
    SourceTerms { naming: Naming::Flat, capabilities, ..SourceTerms::default() }
}

fn file_tools() -> Vec<drawgate_core::model::McpToolSpec> {
    let needs = |scopes: Value| json!({ "requiredScopes": scopes });
    vec![
        tool("read_file", &needs(json!(["filesystem"]))),
        tool("write_file", &needs(json!(["filesystem"]))),
        tool("delete_file", &needs(json!(["filesystem", "destructive"]))),
    ]
}

/// A tool that says which it is, or what its arguments tell it to.
fn answer(tool: &str, arguments: &Map<String, Value>) -> Result<ToolOutput, SourceError> {
    if let Some(message) = arguments.get("fail").and_then(Value::as_str) {
        let details = Some(json!({ "line": 7 }));
        return Err(SourceError::Failed { message: message.to_owned(), details });
    }
    let mut output = ToolOutput::text(format!("{tool} was here"));
    output.structured = arguments.get("structured").cloned();
    if arguments.contains_key("twice") {
        output.content.push(json!({ "type": "text", "text": "again" }));
    }
    Ok(output)
}

/// The agent's side of a conversation.
struct TestConversation {
    to: mpsc::Sender<Result<AgentMessage, Status>>,
    from: Outgoing,
    ended: JoinHandle<Ended>,
}

impl TestConversation {
    async fn send(&self, message: ToGateway) {
        self.to.send(Ok(AgentMessage { message: Some(message) })).await.unwrap();
    }

    async fn register(&self, name: &str, capabilities: &[&str]) {
        let capabilities = capabilities.iter().map(|text| (*text).to_owned()).collect();
        let name = name.to_owned();
        self.send(ToGateway::Register(AgentRegistration {
            name,
            capabilities,
            version: "1".to_owned(),
        }))
        .await;
    }

    async fn call(&self, id: &str, tool: &str, input: &str) {
        let (request_id, tool_name) = (id.to_owned(), tool.to_owned());
        let input_json = input.to_owned();
        self.send(ToGateway::Call(ToolCall {
            request_id,
            tool_name,
            input_json,
            ..ToolCall::default()
        }))
        .await;
    }

    async fn next(&mut self) -> Message {
        self.from.next().await.unwrap().unwrap().message.unwrap()
    }

    /// The status that ends the stream.
    async fn refusal(&mut self) -> Status {
        loop {
            match self.from.next().await {
                Some(Ok(_)) => {}
                Some(Err(status)) => return status,
                None => panic!("the stream ended without a status"),
            }
        }
    }

    async fn welcome(&mut self) -> Welcome {
        let Message::Welcome(welcome) = self.next().await else { panic!("no welcome") };
        welcome
    }

    async fn result(&mut self) -> (String, Outcome, String) {
        match self.next().await {
            Message::Result(result) => {
                (result.request_id, result.result.unwrap(), result.content_json)
            }
            other => panic!("no result: {other:?}"),
        }
    }

    async fn failure(&mut self) -> (String, ToolFailure) {
        match self.result().await {
            (id, Outcome::Error(failure), _) => (id, failure),
            other => panic!("no failure: {other:?}"),
        }
    }

    /// Calls a tool and returns its output or its error's code.
    async fn outcome(&mut self, tool: &str, input: &str) -> Result<String, String> {
        self.call("r", tool, input).await;
        match self.result().await.1 {
            Outcome::OutputJson(output) => Ok(output),
            Outcome::Error(failure) => Err(failure.code),
        }
    }
}

fn names(tools: &[ToolDefinition]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[tokio::test]
async fn agents_see_and_call_what_they_hold_all_capabilities_for() {
    let fixture = Fixture::new().await;
    let (mut research, welcome) = fixture.join("research-bot", &["filesystem", "web"]).await;
    assert_eq!(names(&welcome.tools), ["read_file", "write_file", "wait"]);
    assert_eq!(welcome.capabilities, ["filesystem", "web"]);
    let read = &welcome.tools[0];
    assert_eq!(read.required_capabilities, ["filesystem"]);
    assert_eq!((read.description.as_str(), read.timeout_seconds), ("a tool", 60));
    let schema: Value = serde_json::from_str(&read.input_schema_json).unwrap();
    assert_eq!(schema["type"], "object");

    let (mut admin, welcome) = fixture.join("admin-bot", &["filesystem", "destructive"]).await;
    assert_eq!(names(&welcome.tools), ["delete_file", "read_file", "write_file", "wait"]);

    let denied = Err("PERMISSION_DENIED".to_owned());
    let done = |tool: &str| Ok(format!("\"{tool} was here\""));
    assert_eq!(research.outcome("write_file", "{}").await, done("write_file"));
    assert_eq!(research.outcome("delete_file", "{}").await, denied);
    assert_eq!(admin.outcome("delete_file", "").await, done("delete_file"));
    assert_eq!(admin.outcome("no_tool", "{}").await, Err("RESOURCE_NOT_FOUND".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_begins_with_one_registration() {
    let fixture = Fixture::new().await;
    let mut early = fixture.connect("a", &[]);
    early.call("r", "wait", "{}").await;
    assert_eq!(early.refusal().await.code(), Code::FailedPrecondition);
    let mut late = fixture.connect("b", &[]);
    assert_eq!(late.refusal().await.code(), Code::DeadlineExceeded);
    let (mut twice, _) = fixture.join("c", &[]).await;
    twice.register("c", &[]).await;
    assert_eq!(twice.refusal().await.code(), Code::FailedPrecondition);
}

/// What an agent holds then, or the code and a part of the message.
type Expected = Result<&'static [&'static str], (Code, &'static str)>;

#[tokio::test]
async fn an_agent_gets_no_more_than_its_key_allows() {
    let fixture = Fixture::new().await;
    let allowed = ["filesystem", "db.*"];
    // What is asked for, and what comes of it.
    let cases: [(&str, &[&str], Expected); 7] = [
        ("a", &[], Ok(&["db.*", "filesystem"])),
        ("", &["filesystem"], Ok(&["filesystem"])),
        ("a", &["db.read", "db.read"], Ok(&["db.read"])),
        ("a", &["filesystem", "web", "x"], Err((Code::PermissionDenied, "`web`, `x`"))),
        ("a", &["*"], Err((Code::PermissionDenied, "`*`"))),
        ("a", &["no good"], Err((Code::InvalidArgument, "`no good`"))),
        ("b", &[], Err((Code::PermissionDenied, "`b`"))),
    ];
    for (name, asked, expected) in cases {
        let mut talk = fixture.connect("a", &allowed);
        talk.register(name, asked).await;
        match expected {
            Ok(held) => assert_eq!(talk.welcome().await.capabilities, held, "{asked:?}"),
            Err((code, part)) => {
                let status = talk.refusal().await;
                assert_eq!(status.code(), code, "{asked:?}");
                assert!(status.message().contains(part), "{}", status.message());
            }
        }
        drop((talk.to, talk.from));
        assert_eq!(talk.ended.await.unwrap(), Ended::Over);
    }
}

#[tokio::test]
async fn outputs_errors_and_content_come_as_the_tool_gave_them() {
    let fixture = Fixture::new().await;
    let (mut talk, _) = fixture.join("a", &["*"]).await;
    talk.call("1", "read_file", r#"{ "structured": { "b": 1, "a": [2] } }"#).await;
    let (id, output, content) = talk.result().await;
    assert_eq!(id, "1");
    assert_eq!(output, Outcome::OutputJson(r#"{"b":1,"a":[2]}"#.to_owned()));
    assert_eq!(content, r#"[{"type":"text","text":"read_file was here"}]"#);
    let twice = talk.outcome("read_file", r#"{"twice":1}"#).await;
    assert_eq!(twice, Ok(r#""read_file was here\nagain""#.to_owned()));
    talk.call("2", "read_file", r#"{"fail":"Disk: voll \"ä\"\n"}"#).await;
    let (id, failure) = talk.failure().await;
    assert_eq!((id.as_str(), failure.code.as_str()), ("2", "EXECUTION_FAILED"));
    assert_eq!(failure.message, "Disk: voll \"ä\"\n");
    assert_eq!(failure.details_json, r#"{"line":7}"#);
}

#[tokio::test]
async fn what_is_refused_before_the_gate_is_in_the_log_too() {
    let fixture = Fixture::new().await;
    fixture.limit(|settings| {
        settings.max_argument_bytes = 100;
        settings.max_calls_per_caller = 2;
    });
    let (mut talk, _) = fixture.join("a", &["*"]).await;
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(100));
    for input in ["{", "[]", "7", large.as_str()] {
        assert_eq!(talk.outcome("read_file", input).await, Err("INVALID_ARGUMENTS".to_owned()));
    }
    talk.call("one", "wait", "{}").await;
    fixture.slow.began.acquire().await.unwrap().forget();
    talk.call("one", "wait", "{}").await;
    assert_eq!(talk.failure().await.1.code, "CONFLICT");
    talk.call("two", "wait", "{}").await;
    fixture.slow.began.acquire().await.unwrap().forget();
    talk.call("three", "wait", "{}").await;
    assert_eq!(talk.failure().await.1.code, "RATE_LIMITED");
    talk.call(&"x".repeat(300), "read_file", "{}").await;
    assert_eq!(talk.refusal().await.code(), Code::InvalidArgument);
    let (mut other, _) = fixture.join("b", &["*"]).await;
    other.to.send(Err(Status::out_of_range("too large"))).await.unwrap();
    assert_eq!(other.refusal().await.code(), Code::OutOfRange);
    assert_eq!(talk.ended.await.unwrap(), Ended::Over);
    let events = fixture.gate.events().await;
    let refused: Vec<(String, String, String)> = events
        .iter()
        .map(|event| serde_json::to_value(event).unwrap())
        .filter(|event| event["kind"] == "outcome" && event["code"] != "CANCELLED")
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap().to_owned();
            (text("principal"), text("toolId"), text("code"))
        })
        .collect();
    let row =
        |who: &str, tool: &str, code: &str| (who.to_owned(), tool.to_owned(), code.to_owned());
    let bad = row("a", "read_file", "INVALID_ARGUMENTS");
    let expected = [
        bad.clone(),
        bad.clone(),
        bad.clone(),
        bad.clone(),
        row("a", "wait", "CONFLICT"),
        row("a", "wait", "RATE_LIMITED"),
        bad,
        row("b", "(unread)", "INVALID_ARGUMENTS"),
    ];
    assert_eq!(refused, expected);
}

#[tokio::test]
async fn arguments_are_read_strictly_and_bounded() {
    let fixture = Fixture::new().await;
    fixture.limit(|settings| settings.max_argument_bytes = 100);
    let (mut talk, _) = fixture.join("a", &["*"]).await;
    let deep = "[".repeat(70);
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(100));
    for input in ["[]", "7", "{", "{}{}", r#"{"a":1,"a":2}"#, &deep, &large] {
        let outcome = talk.outcome("read_file", input).await;
        assert_eq!(outcome, Err("INVALID_ARGUMENTS".to_owned()), "{input}");
    }
    for id in [String::new(), "x".repeat(257)] {
        let name = format!("id{}", id.len());
        let (mut talk, _) = fixture.join(&name, &["*"]).await;
        talk.call(&id, "read_file", "{}").await;
        assert_eq!(talk.refusal().await.code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn an_id_counts_for_one_call_at_a_time() {
    let fixture = Fixture::new().await;
    let (mut talk, _) = fixture.join("a", &["*"]).await;
    talk.call("same", "wait", "{}").await;
    let _ = fixture.slow.began.acquire().await.unwrap();
    talk.call("same", "read_file", "{}").await;
    let (id, failure) = talk.failure().await;
    assert_eq!((id.as_str(), failure.code.as_str()), ("same", "CONFLICT"));
    fixture.slow.go_on.add_permits(2);
    assert_eq!(talk.result().await.1, Outcome::OutputJson("\"done\"".to_owned()));
    talk.call("same", "wait", "{}").await;
    assert_eq!(talk.result().await.1, Outcome::OutputJson("\"done\"".to_owned()));
}

#[tokio::test]
async fn calls_of_one_agent_are_bounded() {
    let fixture = Fixture::new().await;
    fixture.limit(|settings| settings.max_calls_per_caller = 2);
    let (mut talk, _) = fixture.join("a", &["*"]).await;
    for id in ["1", "2", "3"] {
        talk.call(id, "wait", "{}").await;
    }
    let (id, failure) = talk.failure().await;
    assert_eq!((id.as_str(), failure.code.as_str()), ("3", "RATE_LIMITED"));
    fixture.slow.go_on.add_permits(2);
    let mut done = [talk.result().await.0, talk.result().await.0];
    done.sort();
    assert_eq!(done, ["1", "2"]);
    assert_eq!(talk.outcome("read_file", "{}").await, Ok("\"read_file was here\"".to_owned()));
}

#[tokio::test]
async fn progress_comes_if_it_is_wanted_and_a_call_can_be_cancelled() {
    let fixture = Fixture::new().await;
    let (mut talk, _) = fixture.join("a", &["*"]).await;
    talk.send(ToGateway::Call(ToolCall {
        request_id: "p".to_owned(),
        tool_name: "wait".to_owned(),
        progress: true,
        ..ToolCall::default()
    }))
    .await;
    let Message::Progress(progress) = talk.next().await else { panic!("no progress") };
    assert_eq!((progress.request_id.as_str(), progress.message.as_str()), ("p", "a quarter"));
    assert_eq!((progress.progress, progress.total), (1.0, Some(4.0)));
    for id in ["other", "p"] {
        talk.send(ToGateway::Cancel(CancelCall { request_id: id.to_owned() })).await;
    }
    let (id, failure) = talk.failure().await;
    assert_eq!((id.as_str(), failure.code.as_str()), ("p", "CANCELLED"));
}

#[tokio::test]
async fn the_end_of_a_stream_cancels_its_calls() {
    let fixture = Fixture::new().await;
    let (talk, _) = fixture.join("a", &["*"]).await;
    talk.call("r", "wait", "{}").await;
    let _ = fixture.slow.began.acquire().await.unwrap();
    drop(talk.from);
    assert_eq!(talk.ended.await.unwrap(), Ended::Over);
    while fixture.gate.gateway.under_way() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.outcomes().await, [Some("CANCELLED".to_owned())]);
}

#[tokio::test]
async fn an_agent_that_has_said_all_still_gets_its_results() {
    let fixture = Fixture::new().await;
    let (talk, _) = fixture.join("a", &["*"]).await;
    talk.call("r", "wait", "{}").await;
    let _ = fixture.slow.began.acquire().await.unwrap();
    let TestConversation { to, from, ended } = talk;
    drop(to);
    fixture.slow.go_on.add_permits(1);
    let rest: Vec<OutgoingMessage> = from.collect().await;
    let [Ok(GatewayMessage { message: Some(Message::Result(result)) })] = rest.as_slice() else {
        panic!("{rest:?}")
    };
    assert_eq!(result.request_id, "r");
    assert_eq!(ended.await.unwrap(), Ended::Over);
}

#[tokio::test]
async fn a_revoked_grant_counts_at_once_for_lists_and_calls() {
    let fixture = Fixture::new().await;
    let grant = fixture.gate.grant("a", "filesystem", None).await;
    let (mut talk, welcome) = fixture.join("a", &[]).await;
    assert_eq!(names(&welcome.tools), ["read_file", "write_file", "wait"]);
    fixture.gate.control.parts().grants.revoke(&[grant.as_str().into()]).await;
    talk.call("r", "read_file", "{}").await;
    let (mut denied, mut told) = (false, false);
    while !(denied && told) {
        match talk.next().await {
            Message::ToolsChanged(change) => {
                assert_eq!(names(&change.tools), ["wait"]);
                told = true;
            }
            Message::Result(result) => {
                let Some(Outcome::Error(failure)) = result.result else { panic!("it ran") };
                assert_eq!(failure.code, "PERMISSION_DENIED");
                denied = true;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_those_whose_own_list_changed_are_told() {
    let fixture = Fixture::new().await;
    let (mut research, _) = fixture.join("research-bot", &["filesystem", "web"]).await;
    let (mut admin, before) = fixture.join("admin-bot", &["filesystem", "destructive"]).await;
    fixture.offer("more", vec![tool("wipe", &json!({ "requiredScopes": ["destructive"] }))]);
    let Message::ToolsChanged(change) = admin.next().await else { panic!("not told") };
    assert!(names(&change.tools).contains(&"wipe"));
    assert!(change.revision > before.revision);
    // The next that it hears is whether it is there.
    assert!(matches!(research.next().await, Message::Heartbeat(_)));
}

#[tokio::test(start_paused = true)]
async fn changes_that_come_together_are_told_together() {
    let fixture = Fixture::new().await;
    let (mut talk, _) = fixture.join("a", &["*"]).await;
    tokio::time::sleep(HEARTBEAT / 2).await;
    for number in 0..20 {
        fixture.offer(&format!("s{number}"), vec![tool(&format!("t{number}"), &Value::Null)]);
        tokio::task::yield_now().await;
    }
    let mut told = 0;
    while let Message::ToolsChanged(change) = talk.next().await {
        told += 1;
        if change.tools.len() == 24 {
            break;
        }
    }
    assert!((1..=2).contains(&told), "{told}");
}

#[tokio::test]
async fn at_the_end_calls_under_way_are_answered_and_new_ones_refused() {
    let fixture = Fixture::new().await;
    let (mut talk, _) = fixture.join("a", &["*"]).await;
    let (mut idle, _) = fixture.join("b", &["*"]).await;
    talk.call("old", "wait", "{}").await;
    let _ = fixture.slow.began.acquire().await.unwrap();
    fixture.stop.cancel();
    assert!(matches!(talk.next().await, Message::Shutdown(_)));
    talk.call("new", "read_file", "{}").await;
    let (id, failure) = talk.failure().await;
    assert_eq!((id.as_str(), failure.code.as_str()), ("new", "UNAVAILABLE"));
    fixture.slow.go_on.add_permits(1);
    assert_eq!(talk.result().await.0, "old");
    assert_eq!(talk.refusal().await.code(), Code::Unavailable);
    assert_eq!(idle.refusal().await.code(), Code::Unavailable);
    let mut late = fixture.connect("c", &["*"]);
    assert_eq!(late.refusal().await.code(), Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_answered_and_asked() {
    let fixture = Fixture::new().await;
    let (mut talk, _) = fixture.join("a", &["*"]).await;
    for id in ["gateway:1", "mine"] {
        talk.send(ToGateway::Heartbeat(Heartbeat { request_id: id.to_owned() })).await;
    }
    let heartbeat = |message| match message {
        Message::Heartbeat(heartbeat) => heartbeat.request_id,
        other => panic!("{other:?}"),
    };
    assert_eq!(heartbeat(talk.next().await), "mine");
    for number in 1..10 {
        let asked = heartbeat(talk.next().await);
        assert_eq!(asked, format!("gateway:{number}"));
        talk.send(ToGateway::Heartbeat(Heartbeat { request_id: asked })).await;
    }
    // From here on it does not answer.
    assert_eq!(talk.ended.await.unwrap(), Ended::Silent);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_read_costs_a_bounded_queue_and_is_given_up() {
    let fixture = Fixture::new().await;
    let (talk, _) = fixture.join("a", &["*"]).await;
    let TestConversation { to, from: _unread, ended } = talk;
    let call = |number: usize| ToolCall {
        request_id: number.to_string(),
        tool_name: "read_file".to_owned(),
        ..ToolCall::default()
    };
    let said = |number| AgentMessage { message: Some(ToGateway::Call(call(number))) };
    let mut taken = 0;
    while to.send(Ok(said(taken))).await.is_ok() {
        taken += 1;
    }
    let ended = ended.await.unwrap();
    assert_eq!(ended, Ended::Silent);
    assert!(taken < 10 * QUEUE, "{taken} calls were read");
}

#[tokio::test]
async fn a_cut_connection_ends_its_conversation() {
    let fixture = Fixture::new().await;
    let agent = |cut: &CancellationToken| Agent {
        name: Principal::new("a").unwrap(),
        allowed: Vec::new(),
        connection: "c".to_owned(),
        authority: None,
        cut: cut.clone(),
    };
    let cut = CancellationToken::new();
    let (conversation, mut from) = fixture.agents.open(agent(&cut)).unwrap();
    assert_eq!(fixture.agents.open(agent(&cut)).err().unwrap().code(), Code::AlreadyExists);
    let (_to, incoming) = mpsc::channel(1);
    let ended = tokio::spawn(conversation.run(ReceiverStream::new(incoming)));
    cut.cancel();
    assert_eq!(from.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(ended.await.unwrap(), Ended::Over);
    assert!(fixture.agents.open(agent(&cut)).is_ok());
}
