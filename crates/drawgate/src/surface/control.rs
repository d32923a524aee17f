//! The operator's door: JSON over a Unix socket in the data folder, open to the folder's owner alone.
//!
//! The command line speaks to a running gateway through it, and to a gateway of its own where none
//! runs, so that every command is one piece of code.

mod approvals;
mod keys;
mod logins;
mod packs;
mod review;
mod toolpacks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post};
use axum::{Json, Router};
use drawgate_core::model::{
    Caller, Capability, ErrorCode, GrantScope, Principal, SourceId, Surface, ToolError,
    ToolInvocation,
};
use drawgate_core::pipeline::{CallOptions, UNREAD};
use drawgate_core::policy::{ApprovalError, GrantError};
use drawgate_core::registry::{Entry, Keeper, Provider, ReviewError, SourceStatus};
use drawgate_core::store::AuditLog;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::mcp::{self, Mcp, Transport};
pub use approvals::{Decision, Reveal};
use drawgate_runtime::assemble::Edits;
use drawgate_runtime::operations::Operations;
pub use keys::{AddKey, RemoveKeys, ShownFault, ShownKey, ShownKeys, Whose};
pub use logins::LoginBegun;
pub use review::{Accept, Review};
pub use toolpacks::{AllPacks, Commit, ShownPack, ShownTool, tools as tools_of_pack};

/// The name of the socket in the data folder.
pub const SOCKET: &str = "control.sock";
/// The header by which the owner of the folder acts as one of the agents.
pub const AS_AGENT: &str = "drawgate-agent";

/// How long one source may take to say whether it works: longer than a server may take to start by
/// default.
const CHECK_TIME: Duration = Duration::from_secs(35);

/// What the door opens to.
#[derive(Clone)]
pub struct Control {
    /// Acts of an operator.
    pub operations: Arc<Operations>,
    /// The sources.
    pub keeper: Arc<Keeper>,
    /// The audit log.
    pub audit: Arc<dyn AuditLog>,
    /// The MCP surface, for the bridge from standard input and output.
    pub mcp: Mcp,
    /// The address of the endpoint, if there is one.
    pub endpoint: Option<String>,
    /// The configuration in force, and the edit that is not.
    pub edits: Arc<Edits>,
}

impl Control {
    /// The routes.
    pub fn router(self) -> Router {
        Router::new()
            .route("/status", get(status))
            .route("/tools", get(tools))
            .route("/call", post(call))
            .route("/servers", get(servers))
            .route("/servers/{name}/login", post(logins::begin).delete(logins::log_out))
            .route("/servers/{name}/login/{attempt}", get(logins::end))
            .route("/servers/{name}/review", get(review::show).post(review::accept))
            .route("/agents", get(agents).post(add_agent))
            .route("/agents/{name}", delete(remove_agent))
            .route("/agents/{name}/rotate", post(rotate_agent))
            .route("/keys", get(keys::list).post(keys::add))
            .route("/keys/remove", post(keys::remove))
            .route("/keys/server", get(keys::server))
            .route("/grants", get(grants).post(issue_grant))
            .route("/grants/{id}", delete(revoke_grant))
            .route("/approvals", get(approvals::list))
            .route("/approvals/{id}", post(approvals::decide))
            .route("/approvals/{id}/arguments", post(approvals::reveal))
            .route("/artifacts", get(artifacts))
            .route("/artifacts/{hash}", get(artifact).delete(remove_artifact))
            .route("/packs", get(packs::list))
            .route("/packs/{id}", get(packs::show).delete(packs::kick))
            .route("/toolpacks", get(toolpacks::list).post(toolpacks::commit))
            .route("/toolpacks/{id}", get(toolpacks::show).delete(toolpacks::remove))
            .route("/toolpacks/{id}/enable", post(toolpacks::enable))
            .route("/toolpacks/{id}/disable", post(toolpacks::disable))
            .route("/toolpacks/{id}/doctor", get(toolpacks::doctor))
            .route("/toolpacks.lock", get(toolpacks::verify))
            .route("/audit/prune", post(prune))
            .route("/mcp", any(bridge))
            .with_state(self)
    }
}

/// A refusal, as the command line shows it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The sentence.
    pub error: String,
}

struct Failure(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0.downcast_ref::<ReviewError>() {
            Some(ReviewError::ChangedAgain(_)) => StatusCode::CONFLICT,
            _ => StatusCode::BAD_REQUEST,
        };
        let advice = advice(&self.0).map(|advice| format!("; {advice}")).unwrap_or_default();
        (status, Json(Refused { error: format!("{:#}{advice}", self.0) })).into_response()
    }
}

/// The command that helps with an error.
fn advice(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(ApprovalError::Unknown(_)) = error.downcast_ref() {
        return Some("`drawgate approvals list` shows them");
    }
    if let Some(GrantError::Unknown(_)) = error.downcast_ref() {
        return Some("`drawgate grants list` shows them");
    }
    if let Some(ReviewError::NoServer(_)) = error.downcast_ref() {
        return Some("`drawgate servers list` shows them");
    }
    None
}

type Answer = Result<Json<Value>, Failure>;

fn answer(value: impl Serialize) -> Answer {
    Ok(Json(serde_json::to_value(value)?))
}

async fn status(State(control): State<Control>) -> Answer {
    let gateway = &control.operations.gateway;
    answer(json!({
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "endpoint": control.endpoint,
        "tools": gateway.registry().available().count(),
        "callsUnderWay": gateway.under_way(),
        "auditHead": gateway.audit_head(),
        "configuration": control.edits.status(),
    }))
}

/// On whose behalf the owner asks, and in which form.
#[derive(Deserialize)]
struct OnBehalf {
    agent: Option<Principal>,
    provider: Option<Provider>,
}

/// The command line, in the audit log.
const SURFACE: Surface = Surface::new("cli", "read it with `drawgate artifacts get {sha256}`");

fn caller(agent: Option<Principal>) -> Caller {
    Caller {
        principal: agent.unwrap_or_else(Principal::local),
        session: None,
        surface: SURFACE,
        carried: Arc::default(),
    }
}

async fn tools(State(control): State<Control>, Query(who): Query<OnBehalf>) -> Answer {
    let tools = control.operations.gateway.tools(&caller(who.agent));
    match who.provider {
        None => answer(with_servers(&tools, &control.keeper.status())?),
        Some(provider) => {
            answer(tools.iter().map(|entry| entry.definition_for(provider)).collect::<Vec<_>>())
        }
    }
}

/// Tools, each with who serves it and since when.
fn with_servers(tools: &[Arc<Entry>], statuses: &[SourceStatus]) -> anyhow::Result<Vec<Value>> {
    let shown = tools.iter().map(|entry| {
        let mut value = serde_json::to_value(entry.describe())?;
        if let Some(status) = statuses.iter().find(|status| status.id == *entry.id.source()) {
            let SourceStatus { server, state, since, .. } = status;
            value["servedBy"] = json!({ "server": server, "state": state, "since": since });
        }
        Ok(value)
    });
    shown.collect()
}

/// A call from the command line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CliCall {
    /// The tool.
    pub tool: String,
    /// The arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// A shorter limit.
    pub timeout_ms: Option<u64>,
    /// On whose behalf.
    pub agent: Option<Principal>,
}

async fn call(
    State(control): State<Control>,
    call: Result<Json<CliCall>, JsonRejection>,
) -> Answer {
    let gateway = &control.operations.gateway;
    let call = match call {
        Ok(Json(call)) => call,
        Err(rejection) => {
            let error = ToolError::new(ErrorCode::InvalidArguments, rejection.body_text());
            return answer(gateway.refuse(&caller(None), UNREAD, "", error).await);
        }
    };
    let invocation = ToolInvocation {
        tool_id: call.tool,
        request_id: format!("cli-{}", gateway.ids().unique()),
        arguments: call.arguments,
        timeout_ms: call.timeout_ms,
        ..ToolInvocation::default()
    };
    answer(gateway.call(&caller(call.agent), invocation, CallOptions::default()).await)
}

/// Whether servers are tried before they are shown.
#[derive(Deserialize)]
struct HowShown {
    #[serde(default)]
    check: bool,
}

async fn servers(State(control): State<Control>, Query(how): Query<HowShown>) -> Answer {
    let redactor = control.operations.gateway.redactor();
    let faults = if how.check { control.keeper.check(CHECK_TIME).await } else { BTreeMap::new() };
    let mut all = Vec::new();
    for status in control.keeper.status() {
        let mut value = serde_json::to_value(&status)?;
        if let Some(source) = control.keeper.source(&status.id) {
            value["diagnostics"] = source.diagnostics();
        }
        if let Some(fault) = faults.get(&status.id) {
            value["fault"] = json!(fault);
        }
        value["requires"] = json!(required(&control, &status.id));
        if let Some(login) = logins::standing(&control, &status.id) {
            value["login"] = login;
        }
        // A server's own words may hold anything.
        all.push(redactor.redact(&value, &[]).into_owned());
    }
    answer(all)
}

/// What the tools of a source require, each combination once.
fn required(control: &Control, id: &SourceId) -> BTreeSet<Vec<Capability>> {
    let registry = control.operations.gateway.registry();
    let own = registry.entries().filter(|entry| entry.id.source() == id);
    own.map(|entry| entry.requires.clone()).collect()
}

async fn agents(State(control): State<Control>) -> Answer {
    answer(control.operations.agents().await?)
}

/// A new agent.
#[derive(Debug, Serialize, Deserialize)]
pub struct NewAgent {
    /// Its name.
    pub name: String,
    /// What it may always do.
    pub capabilities: Vec<String>,
    /// How its tools are shown to it.
    #[serde(default)]
    pub expose: drawgate_core::policy::Expose,
}

async fn add_agent(State(control): State<Control>, Json(new): Json<NewAgent>) -> Answer {
    let name = Principal::new(&new.name)?;
    let capabilities =
        new.capabilities.iter().map(|text| Capability::new(text)).collect::<Result<_, _>>()?;
    let token = control.operations.add_agent(name, capabilities, new.expose).await?;
    // The one place where a token is told: to the owner of the folder, who asked for it.
    answer(json!({ "token": token.expose() }))
}

async fn rotate_agent(State(control): State<Control>, Path(name): Path<String>) -> Answer {
    let token = control.operations.rotate_agent(&Principal::new(&name)?).await?;
    answer(json!({ "token": token.expose() }))
}

async fn remove_agent(State(control): State<Control>, Path(name): Path<String>) -> Answer {
    let name = Principal::new(&name)?;
    control.operations.remove_agent(&name).await?;
    answer(json!({}))
}

async fn grants(State(control): State<Control>) -> Answer {
    answer(control.operations.grants())
}

/// A new grant.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewGrant {
    /// What it allows.
    pub capability: String,
    /// To whom: `workspace`, `user:NAME` or `session:ID`.
    pub scope: String,
    /// For how long.
    pub lifetime_ms: Option<u64>,
}

async fn issue_grant(State(control): State<Control>, Json(new): Json<NewGrant>) -> Answer {
    let scope = GrantScope::try_from(new.scope)?;
    let capability = Capability::new(&new.capability)?;
    control.operations.check_grantee(&scope).await?;
    answer(control.operations.issue_grant(capability, Some(scope), new.lifetime_ms).await?)
}

async fn revoke_grant(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    control.operations.revoke_grant(&id).await?;
    answer(json!({}))
}

async fn artifacts(State(control): State<Control>) -> Answer {
    answer(control.operations.gateway.artifacts(&Principal::local()).await?)
}

async fn artifact(
    State(control): State<Control>,
    Path(hash): Path<String>,
) -> Result<Response, Failure> {
    match control.operations.gateway.artifact(&hash, &Principal::local()).await? {
        Some((info, bytes)) => {
            Ok(([("content-type", info.reference.mime_type)], bytes).into_response())
        }
        None => Err(unknown_artifact(&hash)),
    }
}

async fn remove_artifact(State(control): State<Control>, Path(hash): Path<String>) -> Answer {
    if control.operations.remove_artifact(&hash).await? {
        answer(json!({}))
    } else {
        Err(unknown_artifact(&hash))
    }
}

fn unknown_artifact(hash: &str) -> Failure {
    let shown = drawgate_core::model::shown_name(hash);
    Failure(anyhow::anyhow!("there is no artifact `{shown}`; `drawgate artifacts list` shows them"))
}

/// Events that may go.
#[derive(Debug, Serialize, Deserialize)]
pub struct Prune {
    /// All before this sequence.
    pub before: u64,
}

async fn prune(State(control): State<Control>, Json(prune): Json<Prune>) -> Answer {
    answer(json!({ "removed": control.audit.prune(prune.before).await? }))
}

/// MCP on behalf of the owner, or of an agent that the owner names.
async fn bridge(State(control): State<Control>, request: Request) -> Response {
    let named = request.headers().get(AS_AGENT).and_then(|value| value.to_str().ok());
    let principal = match named.map(Principal::new) {
        None => Principal::local(),
        Some(Ok(name)) => name,
        Some(Err(error)) => return Failure(error.into()).into_response(),
    };
    mcp::handle(&control.mcp, principal, Transport::Stdio, request).await
}
