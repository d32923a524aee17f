//! The control socket: JSON over a Unix socket in the data folder, open to the folder's owner alone.
//!
//! The command line speaks to a running gateway through it, and to a gateway of its own where none
//! runs, so that every command is one piece of code. What is asked for and answered is defined by
//! [`operations`](drawgate_runtime::operations).

mod failure;

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post};
use axum::{Json, Router};
use drawgate_agents::runs::{RunDetails, RunSummary, ThreadSummary};
use drawgate_agents::tasks::TaskDetails;
use drawgate_core::audit::search::{AuditPage, AuditQuery, FoundEvents, IdQuery};
use drawgate_core::model::{
    Caller, CapabilityGrant, ErrorCode, Principal, Surface, ToolError, ToolGatewaySnapshot,
    ToolResult,
};
use drawgate_core::pipeline::UNREAD;
use drawgate_core::registry::{Held, Provider};
use drawgate_core::store::{Agent, ArtifactInfo};
use drawgate_runtime::edits::Edits;
use drawgate_runtime::operations::{
    Accept, AcceptProfile, AddKey, AddPlugin, AddedAgent, AgentToken, BackUp, BackedUp, Commit,
    ConfigurePlugin, Decided, Decision, ExactArguments, GatewayKey, IssueGrant, KeyListView,
    KeyView, ListedApproval, LogQuery, NewAgent, NewCall, Operations, PackDetails, PluginPreview,
    PluginSource, ProviderReport, ProviderState, Prune, Pruned, RemoveKeys, Reveal, Review,
    RunEvents, RunEventsQuery, Say, ServerLog, ServerReport, ServersQuery, ShownPlugin,
    ShownProfile, StartRun, StartedLogin, StartedRun, Status, ToolpackList, ToolpackView,
};
use drawgate_runtime::packs::PackReport;
use drawgate_sources::mcp::oauth::LoginSummary;
use drawgate_sources::toolpack::Finding;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use self::failure::Failure;
pub use self::failure::{NameList, Refused, UnknownName, toolpack_advice};
use super::mcp::bridge::AS_AGENT;
use super::mcp::{self, Mcp, Transport};

/// The name of the socket in the data folder.
pub const SOCKET: &str = "control.sock";
/// The name of the socket of a gateway that a command has for itself.
pub const APPROVAL_SOCKET: &str = "approvals.sock";

/// What the socket gives access to.
#[derive(Clone)]
pub struct Control {
    /// What an operator can do and look at.
    pub operations: Arc<Operations>,
    /// The MCP surface, for the bridge from standard input and output.
    pub mcp: Mcp,
    /// The address of the endpoint, if there is one.
    pub endpoint: Option<String>,
    /// Cancelled when a gateway that a client has started is to make way for `drawgate serve`; none
    /// where that one runs.
    pub make_way: Option<CancellationToken>,
    /// The configuration in force, and the edit that is not.
    pub edits: Arc<Edits>,
}

impl Control {
    /// The routes of approvals alone.
    pub fn approval_router(self) -> Router {
        Router::new()
            .route("/approvals", get(approvals))
            .route("/approvals/{id}", post(decide))
            .route("/approvals/{id}/arguments", post(reveal))
            .with_state(self)
    }

    /// The routes.
    pub fn router(self) -> Router {
        Router::new()
            .route("/status", get(status))
            .route("/make-way", post(make_way))
            .route("/configuration/look", post(look_at_configuration))
            .route("/snapshot", get(snapshot))
            .route("/tools", get(tools))
            .route("/call", post(call))
            .route("/servers", get(servers))
            .route("/servers/{name}/restart", post(restart_server))
            .route("/servers/{name}/log", get(server_log))
            .route("/servers/{name}/login", post(begin_login).delete(log_out))
            .route("/servers/{name}/login/{attempt}", get(end_login))
            .route("/servers/{name}/review", get(review).post(accept))
            .route("/agents", get(agents).post(add_agent))
            .route("/agents/{name}", delete(remove_agent))
            .route("/agents/{name}/rotate", post(rotate_agent))
            .route("/keys", get(keys).post(add_key))
            .route("/keys/remove", post(remove_keys))
            .route("/keys/server", get(gateway_key))
            .route("/grants", get(grants).post(issue_grant))
            .route("/grants/{id}", delete(revoke_grant))
            .route("/approvals", get(approvals))
            .route("/approvals/{id}", post(decide))
            .route("/approvals/{id}/arguments", post(reveal))
            .route("/artifacts", get(artifacts))
            .route("/artifacts/{hash}", get(artifact).delete(remove_artifact))
            .route("/packs", get(packs))
            .route("/packs/{id}", get(pack).delete(kick_pack))
            .route("/providers", get(providers))
            .route("/providers/{name}/check", post(check_provider))
            .route("/toolpacks", get(toolpacks).post(install_toolpack))
            .route("/toolpacks/{id}", get(toolpack).delete(remove_toolpack))
            .route("/toolpacks/{id}/enable", post(enable_toolpack))
            .route("/toolpacks/{id}/disable", post(disable_toolpack))
            .route("/toolpacks/{id}/doctor", get(examine_toolpack))
            .route("/toolpacks.lock", get(verify_toolpacks))
            .route("/profiles", get(profiles))
            .route("/profiles/{name}", get(profile).post(accept_profile).delete(remove_profile))
            .route("/plugins", get(plugins).post(add_plugin))
            .route("/plugins/preview", post(preview_plugin))
            .route("/plugins/{name}", get(plugin).delete(remove_plugin))
            .route("/plugins/{name}/settings", post(configure_plugin))
            .route("/plugins/{name}/enable", post(enable_plugin))
            .route("/plugins/{name}/disable", post(disable_plugin))
            .route("/runs", get(runs).post(start_run))
            .route("/runs/{id}", get(run).delete(cancel_run))
            .route("/runs/{id}/events", get(run_events))
            .route("/runs/{id}/resume", post(resume_run))
            .route("/threads", get(threads))
            .route("/threads/{id}", get(thread).post(say))
            .route("/tasks", get(delegated_tasks))
            .route("/tasks/{id}", get(delegated_task))
            .route("/audit/search", post(search_audit))
            .route("/audit/find", post(find_audit))
            .route("/audit/prune", post(prune))
            .route("/backup", post(back_up))
            .route("/mcp", any(bridge))
            .with_state(self)
    }
}

type Answer<T> = Result<Json<T>, Failure>;

/// The answer to an act that leads to nothing but the act.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {}

const DONE: Answer<Done> = Ok(Json(Done {}));

/// Who acts: the socket is open to the owner of the folder alone.
fn actor() -> Principal {
    Principal::local()
}

async fn status(State(control): State<Control>) -> Json<Status> {
    let for_client = control.make_way.is_some();
    let status = control.operations.status(control.endpoint, control.edits.status());
    Json(Status { for_client, ..status })
}

/// Ends a gateway that a client has started, so that another can serve everyone.
async fn make_way(State(control): State<Control>) -> StatusCode {
    let Some(make_way) = control.make_way else { return StatusCode::CONFLICT };
    make_way.cancel();
    StatusCode::ACCEPTED
}

/// What a command says of the configuration's files.
#[derive(Deserialize)]
struct LookAt {
    /// The SHA-256 of the file that it has written.
    written: Option<String>,
}

/// The configuration and what counts with it are looked at now.
async fn look_at_configuration(
    State(control): State<Control>,
    Query(LookAt { written }): Query<LookAt>,
) -> Answer<Done> {
    match written {
        Some(hash) => control.edits.finish(hash),
        None => control.edits.look(),
    }
    DONE
}

async fn snapshot(State(control): State<Control>) -> Json<ToolGatewaySnapshot> {
    Json(control.operations.snapshot())
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
        principal: agent.unwrap_or_else(actor),
        session: None,
        surface: SURFACE,
        carried: Arc::default(),
        lineage: None,
    }
}

async fn tools(
    State(control): State<Control>,
    Query(who): Query<OnBehalf>,
) -> Result<Response, Failure> {
    let is_of_agent = who.agent.is_some();
    let caller = caller(who.agent);
    let operations = &control.operations;
    Ok(match who.provider {
        None if is_of_agent => Json(operations.tools_of(caller).await?).into_response(),
        None => Json(operations.tools(&caller)?).into_response(),
        Some(provider) => Json(operations.tools_for(&caller, provider)).into_response(),
    })
}

async fn call(
    State(control): State<Control>,
    call: Result<Json<NewCall>, JsonRejection>,
) -> Json<ToolResult> {
    Json(match call {
        Ok(Json(call)) => control.operations.call(&caller(call.agent.clone()), call).await,
        Err(rejection) => {
            let error = ToolError::new(ErrorCode::InvalidArguments, rejection.body_text());
            control.operations.gateway.refuse(&caller(None), UNREAD, "", error).await
        }
    })
}

async fn servers(
    State(control): State<Control>,
    Query(query): Query<ServersQuery>,
) -> Json<Vec<ServerReport>> {
    Json(control.operations.servers(query).await)
}

async fn restart_server(State(control): State<Control>, Path(name): Path<String>) -> Answer<Done> {
    control.operations.restart_server(&actor(), &name).await?;
    DONE
}

async fn server_log(
    State(control): State<Control>,
    Path(name): Path<String>,
    Query(query): Query<LogQuery>,
) -> Answer<ServerLog> {
    Ok(Json(control.operations.server_log(&name, query)?))
}

async fn begin_login(
    State(control): State<Control>,
    Path(name): Path<String>,
) -> Answer<StartedLogin> {
    Ok(Json(control.operations.begin_login(&actor(), &name).await?))
}

async fn end_login(
    State(control): State<Control>,
    Path((name, attempt)): Path<(String, String)>,
) -> Answer<LoginSummary> {
    Ok(Json(control.operations.end_login(&name, &attempt).await?))
}

async fn log_out(State(control): State<Control>, Path(name): Path<String>) -> Answer<Done> {
    control.operations.log_out(&actor(), &name).await?;
    DONE
}

async fn review(State(control): State<Control>, Path(name): Path<String>) -> Answer<Review> {
    Ok(Json(control.operations.review(&name).await?))
}

async fn accept(
    State(control): State<Control>,
    Path(name): Path<String>,
    Json(accept): Json<Accept>,
) -> Answer<Vec<Held>> {
    Ok(Json(control.operations.accept(&actor(), &name, accept).await?))
}

async fn agents(State(control): State<Control>) -> Answer<Vec<Agent>> {
    Ok(Json(control.operations.agents().await?))
}

// These two are the only places where a token is told: to the owner of the folder, who asked for it.

async fn add_agent(
    State(control): State<Control>,
    Json(new): Json<NewAgent>,
) -> Answer<AddedAgent> {
    Ok(Json(control.operations.add_agent(&actor(), new).await?))
}

async fn rotate_agent(
    State(control): State<Control>,
    Path(name): Path<String>,
) -> Answer<AgentToken> {
    Ok(Json(control.operations.rotate_agent(&actor(), &name).await?.into()))
}

async fn remove_agent(State(control): State<Control>, Path(name): Path<String>) -> Answer<Done> {
    control.operations.remove_agent(&actor(), &name).await?;
    DONE
}

async fn keys(State(control): State<Control>) -> Json<KeyListView> {
    Json(control.operations.keys().await)
}

async fn add_key(State(control): State<Control>, Json(new): Json<AddKey>) -> Answer<KeyView> {
    Ok(Json(control.operations.add_key(&actor(), new).await?))
}

async fn remove_keys(
    State(control): State<Control>,
    Json(which): Json<RemoveKeys>,
) -> Answer<Vec<KeyView>> {
    Ok(Json(control.operations.remove_keys(&actor(), which).await?))
}

async fn gateway_key(State(control): State<Control>) -> Answer<GatewayKey> {
    Ok(Json(control.operations.gateway_key()?))
}

async fn grants(State(control): State<Control>) -> Json<Vec<CapabilityGrant>> {
    Json(control.operations.grants())
}

async fn issue_grant(
    State(control): State<Control>,
    Json(new): Json<IssueGrant>,
) -> Answer<CapabilityGrant> {
    // It approves calls that nobody has seen yet.
    if new.grant.approval_id.is_some() {
        control.operations.check_operator(&new.token)?;
    }
    Ok(Json(control.operations.issue_grant(&actor(), new.grant).await?))
}

async fn revoke_grant(State(control): State<Control>, Path(id): Path<String>) -> Answer<Done> {
    control.operations.revoke_grant(&actor(), &id).await?;
    DONE
}

async fn approvals(State(control): State<Control>) -> Json<Vec<ListedApproval>> {
    Json(control.operations.approvals())
}

async fn decide(
    State(control): State<Control>,
    Path(id): Path<String>,
    Json(decision): Json<Decision>,
) -> Answer<Decided> {
    control.operations.check_operator(&decision.token)?;
    Ok(Json(control.operations.decide_and_tell(&actor(), &id, decision.state()).await?))
}

async fn reveal(
    State(control): State<Control>,
    Path(id): Path<String>,
    Json(reveal): Json<Reveal>,
) -> Answer<ExactArguments> {
    Ok(Json(control.operations.reveal(&id, &reveal)?))
}

async fn artifacts(State(control): State<Control>) -> Answer<Vec<ArtifactInfo>> {
    Ok(Json(control.operations.artifacts().await?))
}

async fn artifact(
    State(control): State<Control>,
    Path(hash): Path<String>,
) -> Result<Response, Failure> {
    let (info, bytes) = control.operations.artifact(&hash).await?;
    Ok(([("content-type", info.reference.mime_type)], bytes).into_response())
}

async fn remove_artifact(State(control): State<Control>, Path(hash): Path<String>) -> Answer<Done> {
    control.operations.remove_artifact(&actor(), &hash).await?;
    DONE
}

async fn packs(State(control): State<Control>) -> Json<Vec<PackReport>> {
    Json(control.operations.packs())
}

async fn pack(State(control): State<Control>, Path(id): Path<String>) -> Answer<PackDetails> {
    Ok(Json(control.operations.pack(&id)?))
}

async fn kick_pack(State(control): State<Control>, Path(id): Path<String>) -> Answer<Done> {
    control.operations.kick_pack(&actor(), &id).await?;
    DONE
}

async fn providers(State(control): State<Control>) -> Json<Vec<ProviderReport>> {
    Json(control.operations.providers())
}

async fn check_provider(
    State(control): State<Control>,
    Path(name): Path<String>,
) -> Answer<ProviderState> {
    Ok(Json(control.operations.check_provider(&name).await?))
}

async fn toolpacks(State(control): State<Control>) -> Answer<ToolpackList> {
    Ok(Json(control.operations.toolpacks().await?))
}

async fn toolpack(State(control): State<Control>, Path(id): Path<String>) -> Answer<ToolpackView> {
    Ok(Json(control.operations.toolpack(&id).await?))
}

async fn install_toolpack(
    State(control): State<Control>,
    Json(commit): Json<Commit>,
) -> Answer<ToolpackView> {
    Ok(Json(control.operations.install_toolpack(&actor(), commit).await?))
}

async fn enable_toolpack(
    State(control): State<Control>,
    Path(id): Path<String>,
) -> Answer<ToolpackView> {
    Ok(Json(control.operations.enable_toolpack(&actor(), &id).await?))
}

async fn disable_toolpack(
    State(control): State<Control>,
    Path(id): Path<String>,
) -> Answer<ToolpackView> {
    Ok(Json(control.operations.disable_toolpack(&actor(), &id).await?))
}

async fn remove_toolpack(State(control): State<Control>, Path(id): Path<String>) -> Answer<Done> {
    control.operations.remove_toolpack(&actor(), &id).await?;
    DONE
}

async fn examine_toolpack(
    State(control): State<Control>,
    Path(id): Path<String>,
) -> Answer<Vec<Finding>> {
    Ok(Json(control.operations.examine_toolpack(&id).await?))
}

async fn verify_toolpacks(State(control): State<Control>) -> Answer<Vec<Finding>> {
    Ok(Json(control.operations.verify_toolpacks().await?))
}

async fn plugins(State(control): State<Control>) -> Json<Vec<ShownPlugin>> {
    Json(control.operations.plugins())
}

async fn plugin(State(control): State<Control>, Path(name): Path<String>) -> Answer<ShownPlugin> {
    Ok(Json(control.operations.plugin(&name)?))
}

async fn preview_plugin(
    State(control): State<Control>,
    Json(source): Json<PluginSource>,
) -> Answer<PluginPreview> {
    Ok(Json(control.operations.preview_plugin(source).await?))
}

async fn add_plugin(
    State(control): State<Control>,
    Json(add): Json<AddPlugin>,
) -> Answer<ShownPlugin> {
    Ok(Json(control.operations.add_plugin(&actor(), add).await?))
}

async fn enable_plugin(
    State(control): State<Control>,
    Path(name): Path<String>,
) -> Answer<ShownPlugin> {
    Ok(Json(control.operations.enable_plugin(&actor(), &name).await?))
}

async fn disable_plugin(
    State(control): State<Control>,
    Path(name): Path<String>,
) -> Answer<ShownPlugin> {
    Ok(Json(control.operations.disable_plugin(&actor(), &name).await?))
}

async fn configure_plugin(
    State(control): State<Control>,
    Path(name): Path<String>,
    Json(change): Json<ConfigurePlugin>,
) -> Answer<ShownPlugin> {
    Ok(Json(control.operations.configure_plugin(&actor(), &name, change).await?))
}

async fn remove_plugin(State(control): State<Control>, Path(name): Path<String>) -> Answer<Done> {
    control.operations.remove_plugin(&actor(), &name).await?;
    DONE
}

async fn profiles(State(control): State<Control>) -> Json<Vec<ShownProfile>> {
    Json(control.operations.profiles().await)
}

async fn profile(State(control): State<Control>, Path(name): Path<String>) -> Answer<ShownProfile> {
    Ok(Json(control.operations.profile(&name).await?))
}

async fn accept_profile(
    State(control): State<Control>,
    Path(name): Path<String>,
    Json(accept): Json<AcceptProfile>,
) -> Answer<ShownProfile> {
    Ok(Json(control.operations.accept_profile(&actor(), &name, accept).await?))
}

async fn remove_profile(State(control): State<Control>, Path(name): Path<String>) -> Answer<Done> {
    control.operations.remove_profile(&actor(), &name).await?;
    DONE
}

async fn runs(State(control): State<Control>) -> Answer<Vec<RunSummary>> {
    Ok(Json(control.operations.runs().await?))
}

async fn start_run(
    State(control): State<Control>,
    Json(start): Json<StartRun>,
) -> Answer<StartedRun> {
    let caller = caller(start.agent.clone());
    Ok(Json(control.operations.start_run(caller, start).await?))
}

async fn run(State(control): State<Control>, Path(id): Path<String>) -> Answer<RunDetails> {
    Ok(Json(control.operations.run(&id).await?))
}

async fn cancel_run(State(control): State<Control>, Path(id): Path<String>) -> Answer<Done> {
    control.operations.cancel_run(&actor(), &id).await?;
    DONE
}

async fn run_events(
    State(control): State<Control>,
    Path(id): Path<String>,
    Query(query): Query<RunEventsQuery>,
) -> Answer<RunEvents> {
    Ok(Json(control.operations.run_events(&id, query).await?))
}

async fn resume_run(State(control): State<Control>, Path(id): Path<String>) -> Answer<StartedRun> {
    Ok(Json(control.operations.resume_run(caller(None), &id).await?))
}

async fn threads(State(control): State<Control>) -> Answer<Vec<ThreadSummary>> {
    Ok(Json(control.operations.threads().await?))
}

async fn thread(State(control): State<Control>, Path(id): Path<String>) -> Answer<Vec<RunDetails>> {
    Ok(Json(control.operations.thread(&id).await?))
}

async fn say(
    State(control): State<Control>,
    Path(id): Path<String>,
    Json(message): Json<Say>,
) -> Answer<StartedRun> {
    Ok(Json(control.operations.say(caller(None), &id, message).await?))
}

async fn delegated_tasks(State(control): State<Control>) -> Answer<Vec<TaskDetails>> {
    Ok(Json(control.operations.delegated_tasks().await?))
}

async fn delegated_task(
    State(control): State<Control>,
    Path(id): Path<String>,
) -> Answer<TaskDetails> {
    Ok(Json(control.operations.delegated_task(&id).await?))
}

async fn search_audit(
    State(control): State<Control>,
    Json(query): Json<AuditQuery>,
) -> Answer<AuditPage> {
    Ok(Json(control.operations.search_audit(query).await?))
}

async fn find_audit(
    State(control): State<Control>,
    Json(query): Json<IdQuery>,
) -> Answer<FoundEvents> {
    Ok(Json(control.operations.find_audit(query).await?))
}

async fn back_up(State(control): State<Control>, Json(to): Json<BackUp>) -> Answer<BackedUp> {
    Ok(Json(control.operations.back_up(&actor(), to).await?))
}

async fn prune(State(control): State<Control>, Json(prune): Json<Prune>) -> Answer<Pruned> {
    Ok(Json(control.operations.prune(&actor(), prune).await?))
}

/// MCP on behalf of the owner, or of an agent that the owner names.
async fn bridge(State(control): State<Control>, request: Request) -> Response {
    let named = request.headers().get(AS_AGENT).and_then(|value| value.to_str().ok());
    let principal = match named.map(Principal::new) {
        None => actor(),
        Some(Ok(name)) => name,
        Some(Err(error)) => return Failure::from(error).into_response(),
    };
    mcp::handle(&control.mcp, principal, Transport::Stdio, request).await
}
