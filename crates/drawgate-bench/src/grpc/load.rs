//! The callers: each on a connection of its own, one call after the other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use drawgate_sdk::proto::agent_message::Message as Asked;
use drawgate_sdk::proto::fold_service_client::FoldServiceClient;
use drawgate_sdk::proto::gateway_message::Message as Answered;
use drawgate_sdk::proto::login_service_client::LoginServiceClient;
use drawgate_sdk::proto::tool_call_result::Result as Outcome;
use drawgate_sdk::proto::{AgentMessage, GatewayMessage, ProveRequest, ToolCall};
use drawgate_sdk::{Agent, AgentClient};
use serde_json::json;
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;

use super::line::Line;
use super::{AGENT, Door, tool_name};
use crate::load::{Caller, Flaw, Measured, Received, Timing, drive, message, summary};

/// How long to call before measuring.
pub(super) const WARM_UP: Duration = Duration::from_millis(300);

/// How to call.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One request and one response, bare
    Unary,
    /// A message and its answer on a stream, bare
    Stream,
    /// An agent's call of a pack's tool, by the SDK
    Agent,
}

/// Options of the role `grpc-load`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    door: Door,
    /// How to call
    #[arg(long)]
    way: Way,
    /// How many callers
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// How long to measure
    #[arg(long, default_value_t = 3000)]
    milliseconds: u64,
    /// Process whose processor time per call is wanted
    #[arg(long)]
    watch: Option<u32>,
}

/// Measures and prints; fails on a wrong answer.
pub(crate) async fn main(args: Args) -> Result<()> {
    let mut callers = Vec::new();
    for number in 0..args.clients {
        callers.push(Connection::open(&args.door, args.way, number).await?);
    }
    let length = Duration::from_millis(args.milliseconds);
    let measured = measure(callers, length, args.watch).await?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

/// Lets the callers call for so long.
pub(super) async fn measure<C: Caller>(
    callers: Vec<C>,
    length: Duration,
    watched: Option<u32>,
) -> Result<Measured> {
    let (tally, cpu) = drive(callers, Timing { warm_up: WARM_UP, length }, watched).await?;
    Ok(summary(&tally, length, cpu))
}

/// Connects an agent.
pub(super) async fn join(door: &Door, number: usize) -> Result<Agent> {
    let client = AgentClient::new(door.gateway()?, door.key()?, format!("{AGENT}{number}"));
    client.connect().await.with_context(|| format!("agent {number} can not connect"))
}

/// Calls a tool that returns its message.
pub(super) async fn call(agent: &Agent, tool: &str, text: &str) -> Result<Received, Flaw> {
    let output = agent.call(tool, json!({ "message": text })).await;
    let output = output.map_err(|error| Flaw::Failed(anyhow!(error)))?;
    let at = Instant::now();
    let bytes = text.len();
    if output.value() == text { Ok(Received { bytes, at }) } else { Err(wrong(text)) }
}

fn wrong(sent: &str) -> Flaw {
    Flaw::Wrong(format!("not `{sent}`"))
}

/// One caller.
enum Connection {
    Unary(LoginServiceClient<Line>),
    Stream { to: mpsc::Sender<AgentMessage>, from: Streaming<GatewayMessage> },
    Agent(Agent),
}

impl Connection {
    async fn open(door: &Door, way: Way, number: usize) -> Result<Self> {
        if way == Way::Agent {
            return join(door, number).await.map(Self::Agent);
        }
        let (line, origin) = Line::open(&door.to).await?;
        if way == Way::Unary {
            return Ok(Self::Unary(LoginServiceClient::with_origin(line, origin)));
        }
        let (to, messages) = mpsc::channel(16);
        let mut client = FoldServiceClient::with_origin(line, origin);
        let from = client.converse(ReceiverStream::new(messages)).await?.into_inner();
        Ok(Self::Stream { to, from })
    }
}

impl Caller for Connection {
    async fn once(&mut self, number: usize, round: u64) -> Result<Received, Flaw> {
        let text = message(number, round);
        match self {
            Self::Unary(client) => unary(client, text).await,
            Self::Stream { to, from } => stream(to, from, &text, round).await,
            Self::Agent(agent) => call(agent, &tool_name(0, 0), &text).await,
        }
    }
}

async fn unary(client: &mut LoginServiceClient<Line>, text: String) -> Result<Received, Flaw> {
    let request = ProveRequest { statement: text.clone(), signature: String::new() };
    let answer = client.prove(request).await.map_err(|status| Flaw::Failed(status.into()))?;
    let (at, session) = (Instant::now(), answer.into_inner().session);
    if session == text { Ok(Received { bytes: session.len(), at }) } else { Err(wrong(&text)) }
}

async fn stream(
    to: &mpsc::Sender<AgentMessage>,
    from: &mut Streaming<GatewayMessage>,
    text: &str,
    round: u64,
) -> Result<Received, Flaw> {
    let call = ToolCall {
        request_id: round.to_string(),
        tool_name: tool_name(0, 0),
        input_json: json!({ "message": text }).to_string(),
        ..ToolCall::default()
    };
    let (id, sent) = (call.request_id.clone(), call.input_json.clone());
    let call = AgentMessage { message: Some(Asked::Call(call)) };
    to.send(call).await.map_err(|_| Flaw::Failed(anyhow!("the stream has ended")))?;
    let answer = from.message().await.map_err(|status| Flaw::Failed(status.into()))?;
    let at = Instant::now();
    match answer.and_then(|answer| answer.message) {
        Some(Answered::Result(result))
            if result.request_id == id && result.result == Some(Outcome::OutputJson(sent)) =>
        {
            Ok(Received { bytes: text.len(), at })
        }
        _ => Err(wrong(text)),
    }
}
