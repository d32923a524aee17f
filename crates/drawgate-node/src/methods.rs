//! The synchronous methods of the class: each takes JSON and returns JSON.

use std::sync::Arc;

use drawgate_core::model::{ErrorCode, McpManifest, SourceId};
use drawgate_core::policy::ApprovalState;
use drawgate_core::registry::SourceState;
use drawgate_runtime::Runtime;
use drawgate_runtime::config::{Config, Loaded};
use drawgate_runtime::operations::NewGrant;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fault::{self, Fault};
use crate::gateway::{Gateway, METHOD_TIME};
use crate::registered::{GivenManifest, Registered, server_table, source_id};
use crate::source::{JsSource, Promised};

/// The most audit events that are read at once.
const MOST_EVENTS: usize = 10_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GivenTools {
    server_id: String,
    tools: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GivenGrant {
    capability: String,
    scope: Option<String>,
    expires_at: Option<u64>,
    approval_id: Option<String>,
}

#[derive(Deserialize)]
struct Drain {
    after: u64,
    limit: usize,
}

#[derive(Deserialize)]
struct Decide {
    id: String,
    approve: bool,
}

impl Gateway {
    /// Does what a method of the public class asks for.
    pub(crate) fn request(self: &Arc<Self>, method: &str, text: &str) -> Result<Value, Fault> {
        match method {
            "registerManifest" => self.register_manifest(fault::read(text, "the manifest")?),
            "registerServer" => self.register_server(fault::read(text, "the server")?),
            "registerTools" => self.register_tools(fault::read(text, "the tools")?),
            "listTools" => self.list_tools(),
            "grantCapability" => self.grant(fault::read(text, "the grant")?),
            "revokeCapability" => self.revoke(fault::read(text, "the grant's id")?),
            "decideApproval" => self.decide(fault::read(text, "the decision")?),
            "getSnapshot" => self.snapshot(),
            "reset" => self.reset(),
            "on" => self.follow(&fault::read::<String>(text, "the event")?).map(|()| Value::Null),
            _ => Err(Fault::invalid(format!("there is no method `{}`", method.escape_debug()))),
        }
    }

    fn register_manifest(self: &Arc<Self>, given: GivenManifest) -> Result<Value, Fault> {
        let (runtime, own) = (self.runtime()?, Arc::clone(self));
        let manifest = given.read()?;
        self.wait(async move {
            let mut registered = own.registered.lock().await;
            registered.check_free(&manifest.server_id)?;
            if registered.declared.contains_key(&manifest.server_id) {
                let message = format!("server id `{}` has a manifest already", manifest.server_id);
                return Err(Fault::new(ErrorCode::Conflict, message));
            }
            promise(&runtime, &mut registered, manifest).await
        })
    }

    fn register_tools(self: &Arc<Self>, given: GivenTools) -> Result<Value, Fault> {
        let (runtime, own) = (self.runtime()?, Arc::clone(self));
        self.wait(async move {
            let mut registered = own.registered.lock().await;
            let id = source_id(&given.server_id)?;
            registered.check_free(&id)?;
            let promised = registered.promised(&id);
            let manifest =
                GivenManifest::of_tools(given.server_id, given.tools, promised).read()?;
            let source = Arc::new(JsSource {
                manifest: manifest.clone(),
                mailbox: Arc::clone(&own.mailbox),
                calls: Arc::clone(&own.tool_calls),
                clock: Arc::clone(&runtime.host.clock),
            });
            runtime.declare(source, manifest).await?;
            registered.declared.insert(id, None);
            Ok(Value::Null)
        })
    }

    fn register_server(self: &Arc<Self>, mut given: Map<String, Value>) -> Result<Value, Fault> {
        let (runtime, own) = (self.runtime()?, Arc::clone(self));
        let id = given.shift_remove("serverId");
        let id = id.as_ref().and_then(Value::as_str);
        let id = source_id(id.ok_or_else(|| Fault::invalid("the server: `serverId` is missing"))?)?;
        self.wait(async move {
            let mut registered = own.registered.lock().await;
            registered.check_free(&id)?;
            let table = server_table(&id, given, registered.promised(&id))?;
            let loaded = Config::from_document(registered.document(Some((&id, &table))))?;
            let promised = registered.declared.remove(&id).flatten();
            if promised.is_some() {
                runtime.supervisor().remove(&id).await;
            }
            if let Err(fault) = start_server(&runtime, &id, &table, &loaded).await {
                let before = Config::from_document(registered.document(None))?;
                runtime.apply(&before).await?;
                if let Some(manifest) = promised {
                    promise(&runtime, &mut registered, manifest).await?;
                }
                return Err(fault);
            }
            registered.add_server(id, table);
            Ok(Value::Null)
        })
    }

    fn list_tools(&self) -> Result<Value, Fault> {
        let runtime = self.runtime()?;
        let registry = runtime.gateway().registry();
        let tools: Vec<_> = registry.available().map(|entry| entry.describe()).collect();
        Ok(shown(&runtime, json!(tools)))
    }

    fn snapshot(&self) -> Result<Value, Fault> {
        let runtime = self.runtime()?;
        let snapshot = json!(runtime.operations.snapshot());
        Ok(shown(&runtime, snapshot))
    }

    fn grant(&self, given: GivenGrant) -> Result<Value, Fault> {
        let runtime = self.runtime()?;
        let now = runtime.host.clock.now_ms();
        if given.expires_at.is_some_and(|end| end <= now) {
            return Err(Fault::invalid("the grant: `expiresAt` is in the past"));
        }
        let new = NewGrant {
            capability: given.capability,
            scope: given.scope.unwrap_or_else(|| "workspace".to_owned()),
            lifetime_ms: None,
            expires_at: given.expires_at,
            approval_id: given.approval_id,
        };
        self.wait(async move {
            let grant = runtime.operations.issue_grant(&Self::actor(), new).await?;
            Ok(json!(grant.grant_id))
        })
    }

    fn revoke(&self, id: String) -> Result<Value, Fault> {
        let runtime = self.runtime()?;
        self.wait(async move {
            runtime.operations.revoke_grant(&Self::actor(), &id).await?;
            Ok(Value::Null)
        })
    }

    fn decide(&self, given: Decide) -> Result<Value, Fault> {
        let runtime = self.runtime()?;
        let answer = if given.approve { ApprovalState::Approved } else { ApprovalState::Denied };
        self.wait(async move {
            runtime.operations.decide(&Self::actor(), &given.id, answer).await?;
            Ok(Value::Null)
        })
    }

    /// Audit events after a sequence, as a JSON array.
    pub(crate) fn drain(&self, text: &str) -> Result<String, Fault> {
        let runtime = self.runtime()?;
        let Drain { after, limit } = fault::read(text, "the range of events")?;
        let limit = limit.min(MOST_EVENTS);
        self.wait(async move {
            let events = runtime.audit().read(after, limit).await?;
            let bodies: Vec<&str> = events.iter().map(|event| event.body.as_str()).collect();
            Ok(format!("[{}]", bodies.join(",")))
        })
    }

    /// Back to what the gateway was opened with: calls are cancelled, registered sources end, grants and
    /// open approvals too. The log goes on.
    fn reset(self: &Arc<Self>) -> Result<Value, Fault> {
        let (runtime, own) = (self.runtime()?, Arc::clone(self));
        self.wait(async move {
            let mut registered = own.registered.lock().await;
            own.cancel_all();
            // What can fail comes first; the rest only takes away.
            runtime.operations.reset(&Self::actor()).await?;
            for id in std::mem::take(&mut registered.declared).into_keys() {
                runtime.supervisor().remove(&id).await;
            }
            registered.forget_servers();
            runtime.apply(&Config::from_document(registered.document(None))?).await?;
            Ok(Value::Null)
        })
    }
}

/// Registers a manifest whose calls nobody performs yet.
async fn promise(
    runtime: &Runtime,
    registered: &mut Registered,
    manifest: McpManifest,
) -> Result<Value, Fault> {
    runtime.declare(Arc::new(Promised(manifest.clone())), manifest.clone()).await?;
    registered.declared.insert(manifest.server_id.clone(), Some(manifest));
    Ok(Value::Null)
}

/// Puts a configuration with one more server into force. Fails if that server can't be used.
async fn start_server(
    runtime: &Runtime,
    id: &SourceId,
    table: &Value,
    loaded: &Loaded,
) -> Result<(), Fault> {
    runtime.apply(loaded).await?;
    if table.get("manifest").is_some() {
        // Its tools are known, and need nobody to be asked.
        runtime.supervisor().settle_one(id, METHOD_TIME).await;
    }
    match refused(runtime, id) {
        None => Ok(()),
        Some(problem) => Err(Fault::invalid(format!("`{id}` can't be used: {problem}"))),
    }
}

/// A server may have put into its definitions what the gateway told it in confidence.
fn shown(runtime: &Runtime, mut value: Value) -> Value {
    runtime.gateway().redactor().mask_known_in(&mut value);
    value
}

/// Why a server can't be used, if that is known already.
fn refused(runtime: &Runtime, id: &SourceId) -> Option<String> {
    let statuses = runtime.supervisor().status();
    let found = statuses.into_iter().find(|status| status.id == *id)?;
    (found.state == SourceState::Refused).then(|| found.problem.unwrap_or_default())
}
