//! An agent at a gateway: tools, calls, losses and refusals.

use drawgate_sdk::proto::agent_message::Message as Said;
use drawgate_sdk::proto::gateway_message::Message as Say;
use drawgate_sdk::proto::tool_call_result::Result as Wire;
use drawgate_sdk::proto::{
    GatewayMessage, Heartbeat, ToolCall, ToolCallResult, ToolDefinition, ToolFailure, ToolProgress,
    ToolsChanged, Welcome,
};
use drawgate_sdk::{Agent, AgentClient, CallError, ConnectionError};
use serde_json::json;
use tokio::sync::mpsc;
use tonic::Status;

use crate::fake::{AgentHere, Fake, at_once, key};

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        input_schema_json: r#"{"type":"object"}"#.to_owned(),
        ..Default::default()
    }
}

fn names(agent: &Agent) -> Vec<String> {
    agent.tools().borrow().iter().map(|tool| tool.name.clone()).collect()
}

impl AgentHere {
    fn tell(&self, message: Say) {
        self.say.send(Ok(GatewayMessage { message: Some(message) })).unwrap();
    }

    async fn hear(&mut self) -> Option<Said> {
        self.said.message().await.ok().flatten().map(|message| message.message.unwrap())
    }

    async fn call(&mut self) -> ToolCall {
        match self.hear().await {
            Some(Said::Call(call)) => call,
            other => panic!("{other:?}"),
        }
    }

    /// Takes the registration and lets the agent in.
    async fn welcome(&mut self, tools: &[&str]) {
        let Some(Said::Register(register)) = self.hear().await else { panic!("no registration") };
        self.tell(Say::Welcome(Welcome {
            name: register.name,
            capabilities: register.capabilities,
            tools: tools.iter().map(|name| definition(name)).collect(),
            revision: 1,
            mcp_endpoint: "http://127.0.0.1:1/mcp".to_owned(),
            mcp_token: "dg_token".to_owned(),
        }));
    }

    fn answer(&self, request_id: String, result: Wire) {
        self.tell(Say::Result(ToolCallResult {
            request_id,
            result: Some(result),
            content_json: String::new(),
        }));
    }
}

fn client(fake: &Fake) -> AgentClient {
    AgentClient::new(fake.gateway().identity(fake.identity()), key(), "bot").capabilities(["web"])
}

async fn begin(fake: &mut Fake, client: AgentClient) -> (Agent, AgentHere) {
    let (agent, here) = tokio::join!(client.connect(), async {
        let mut here = fake.agents.recv().await.unwrap();
        here.welcome(&["read_file"]).await;
        here
    });
    (agent.unwrap(), here)
}

async fn connected() -> (Fake, Agent, AgentHere) {
    let mut fake = Fake::start().await;
    let client = client(&fake);
    let (agent, here) = begin(&mut fake, client).await;
    (fake, agent, here)
}

#[tokio::test]
async fn the_welcome_says_what_the_agent_may_do() {
    let (fake, agent, _here) = connected().await;
    assert_eq!(fake.logins(), ["agent bot"]);
    assert_eq!(names(&agent), ["read_file"]);
    assert_eq!(agent.tools().borrow()[0].input_schema, json!({ "type": "object" }));
    assert_eq!(agent.capabilities(), ["web"]);
    assert_eq!(agent.mcp().unwrap().endpoint, "http://127.0.0.1:1/mcp");
    assert!(agent.is_connected());
}

#[tokio::test]
async fn calls_are_answered_in_any_order() {
    let (_fake, agent, mut here) = connected().await;
    let first = tokio::spawn(agent.call("read_file", json!({ "path": "a" })).into_future());
    let one = here.call().await;
    assert_eq!((one.tool_name.as_str(), one.input_json.as_str()), ("read_file", r#"{"path":"a"}"#));
    assert!(!one.progress);
    let second = tokio::spawn(agent.call("read_file", json!({ "path": "b" })).into_future());
    let two = here.call().await;
    assert_ne!(one.request_id, two.request_id);
    here.answer(two.request_id, Wire::OutputJson(r#""B""#.to_owned()));
    assert_eq!(second.await.unwrap().unwrap().text(), "B");
    let failure = ToolFailure {
        code: CallError::PERMISSION_DENIED.to_owned(),
        message: "no".to_owned(),
        details_json: String::new(),
    };
    here.answer(one.request_id, Wire::Error(failure));
    let error = first.await.unwrap().unwrap_err();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("PERMISSION_DENIED", "no"));
}

#[tokio::test]
async fn progress_comes_to_the_call_that_wants_it() {
    let (_fake, agent, mut here) = connected().await;
    let (news, mut told) = mpsc::unbounded_channel();
    let call = agent.call("read_file", json!({})).on_progress(move |progress| {
        news.send(progress).unwrap();
    });
    let call = tokio::spawn(call.into_future());
    let asked = here.call().await;
    assert!(asked.progress);
    here.tell(Say::Progress(ToolProgress {
        request_id: asked.request_id.clone(),
        progress: 1.0,
        total: Some(4.0),
        message: "quarter".to_owned(),
    }));
    let progress = told.recv().await.unwrap();
    assert_eq!(
        (progress.progress, progress.total, progress.message.as_str()),
        (1.0, Some(4.0), "quarter")
    );
    here.answer(asked.request_id, Wire::OutputJson("1".to_owned()));
    assert_eq!(call.await.unwrap().unwrap().value(), &json!(1));
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_gateway() {
    let (_fake, agent, mut here) = connected().await;
    let call = tokio::spawn(agent.call("read_file", json!({})).into_future());
    let asked = here.call().await;
    call.abort();
    let Some(Said::Cancel(cancelled)) = here.hear().await else { panic!("no cancellation") };
    assert_eq!(cancelled.request_id, asked.request_id);
    // A late answer does no harm, and a call that was answered is not cancelled.
    here.answer(asked.request_id, Wire::OutputJson("1".to_owned()));
    let call = tokio::spawn(agent.call("read_file", json!({})).into_future());
    let asked = here.call().await;
    here.answer(asked.request_id, Wire::OutputJson("2".to_owned()));
    assert_eq!(call.await.unwrap().unwrap().value(), &json!(2));
    here.tell(Say::Heartbeat(Heartbeat { request_id: "beat".to_owned() }));
    let Some(Said::Heartbeat(beat)) = here.hear().await else { panic!("no heartbeat") };
    assert_eq!(beat.request_id, "beat");
}

#[tokio::test]
async fn arguments_that_are_no_json_or_too_large_are_not_sent() {
    let (_fake, agent, _here) = connected().await;
    let keys_that_are_no_strings = std::collections::BTreeMap::from([(vec![1], 1)]);
    let error = agent.call("read_file", keys_that_are_no_strings).await.unwrap_err();
    assert_eq!(error.code, CallError::INVALID_ARGUMENTS);
    let large = json!({ "text": "x".repeat(drawgate_sdk::MAX_MESSAGE) });
    assert_eq!(
        agent.call("read_file", large).await.unwrap_err().code,
        CallError::INVALID_ARGUMENTS
    );
    assert!(agent.is_connected());
}

#[tokio::test]
async fn the_list_of_tools_follows_the_gateways() {
    let (_fake, agent, here) = connected().await;
    let mut tools = agent.tools();
    tools.mark_unchanged();
    here.tell(Say::ToolsChanged(ToolsChanged {
        revision: 2,
        tools: vec![definition("read_file"), definition("write_file")],
    }));
    tools.changed().await.unwrap();
    assert_eq!(names(&agent), ["read_file", "write_file"]);
}

#[tokio::test]
async fn a_loss_fails_the_calls_under_way_and_ends_an_agent_that_does_not_come_back() {
    let (fake, agent, mut here) = connected().await;
    let call = tokio::spawn(agent.call("read_file", json!({})).into_future());
    here.call().await;
    fake.cut();
    assert_eq!(call.await.unwrap().unwrap_err().code, CallError::UNAVAILABLE);
    agent.closed().await;
    assert_eq!(names(&agent), [""; 0]);
    let error = agent.call("read_file", json!({})).await.unwrap_err();
    assert_eq!(error.code, CallError::UNAVAILABLE);
}

#[tokio::test]
async fn an_agent_that_comes_back_repeats_no_call() {
    let mut fake = Fake::start().await;
    let client = client(&fake).reconnect(at_once());
    let (agent, mut here) = begin(&mut fake, client).await;
    let call = tokio::spawn(agent.call("read_file", json!({ "path": "old" })).into_future());
    here.call().await;
    fake.cut();
    assert_eq!(call.await.unwrap().unwrap_err().code, CallError::UNAVAILABLE);
    let mut tools = agent.tools();
    let mut here = fake.agents.recv().await.unwrap();
    here.welcome(&["read_file", "write_file"]).await;
    tools.wait_for(|tools| tools.len() == 2).await.unwrap();
    let call = tokio::spawn(agent.call("write_file", json!({})).into_future());
    let asked = here.call().await;
    assert_eq!(asked.tool_name, "write_file");
    here.answer(asked.request_id, Wire::OutputJson("1".to_owned()));
    assert!(call.await.unwrap().is_ok());
}

#[tokio::test]
async fn an_agent_that_is_refused_when_it_comes_back_is_gone() {
    let mut fake = Fake::start().await;
    let client = client(&fake).reconnect(at_once());
    let (agent, _here) = begin(&mut fake, client).await;
    fake.refuse(Status::permission_denied("not any more"));
    fake.cut();
    agent.closed().await;
    assert_eq!(fake.logins().len(), 2);
}

#[tokio::test]
async fn a_refused_registration_is_an_error() {
    let fake = Fake::start().await;
    fake.refuse(Status::permission_denied("may not hold `web`"));
    let error = client(&fake).connect().await.unwrap_err();
    let ConnectionError::Refused { message, .. } = error else { panic!("{error}") };
    assert_eq!(message, "may not hold `web`");
}

#[tokio::test]
async fn an_agent_that_is_dropped_ends_the_conversation_itself() {
    let (fake, agent, mut here) = connected().await;
    let other = agent.clone();
    drop(agent);
    let call = tokio::spawn(other.call("read_file", json!({})).into_future());
    let asked = here.call().await;
    here.answer(asked.request_id, Wire::OutputJson("1".to_owned()));
    assert!(call.await.unwrap().is_ok());
    drop(other);
    assert_eq!(here.said.message().await.unwrap(), None);
    drop(here);
    fake.deserted().await;
}

#[tokio::test]
async fn an_artifact_is_read_whole_or_not_at_all() {
    let (_fake, agent, _here) = connected().await;
    let artifact = agent.read_artifact("drawgate://artifacts/here").await.unwrap();
    assert_eq!(
        (artifact.mime_type.as_str(), artifact.data.as_slice()),
        ("text/plain", &b"one two"[..])
    );
    let missing = agent.read_artifact("drawgate://artifacts/other").await.unwrap_err();
    assert_eq!(missing.code, CallError::RESOURCE_NOT_FOUND);
    let cut = agent.read_artifact("drawgate://artifacts/cut").await.unwrap_err();
    assert_eq!(cut.code, CallError::UNAVAILABLE);
}
