//! The synchronous methods of the class: each takes JSON and returns JSON.

use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_core::policy::ApprovalState;
use drawgate_core::registry::SourceState;
use drawgate_core::source::ToolSource;
use drawgate_runtime::Runtime;
use drawgate_runtime::config::{Config, Loaded};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fault::{self, Fault};
use crate::gateway::{Gateway, METHOD_TIME};
use crate::grant::{GivenGrant, Grant};
use crate::registered::{
    Declared, Registered, has_manifest, read_manifest, read_tools, server_table, source_id,
    with_manifest,
};
use crate::source::{JsSource, Promised};

/// What the URIs of artifacts begin with.
const ARTIFACTS: &str = "drawgate://artifacts/";

/// The most audit events that are read at once.
const MOST_EVENTS: usize = 10_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GivenTools {
    server_id: String,
    tools: Vec<Value>,
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

    /// A manifest waits for its server or functions, or holds over those that are there.
    fn register_manifest(self: &Arc<Self>, given: Map<String, Value>) -> Result<Value, Fault> {
        let (runtime, own) = (self.runtime()?, Arc::clone(self));
        let manifest = read_manifest(given, &runtime)?;
        self.wait(async move {
            let mut registered = own.registered.lock().await;
            let id = manifest.server_id.clone();
            if let Some(table) = registered.server(&id) {
                let table = with_manifest(table, &manifest)?;
                let loaded = Config::from_document(registered.document(Some((&id, &table))))?;
                runtime.apply(&loaded).await?;
                registered.add_server(id, table);
                return Ok(Value::Null);
            }
            if registered.promised(&id).is_some() {
                return Err(has_manifest(&id));
            }
            let functions = registered.declared.get(&id).and_then(|it| it.functions.clone());
            let declared = Declared { manifest: Some(manifest), functions };
            own.declare(&runtime, &mut registered, id, declared).await
        })
    }

    fn register_tools(self: &Arc<Self>, given: GivenTools) -> Result<Value, Fault> {
        let (runtime, own) = (self.runtime()?, Arc::clone(self));
        self.wait(async move {
            let mut registered = own.registered.lock().await;
            let id = source_id(&given.server_id)?;
            registered.check_free(&id)?;
            let functions = read_tools(&id, given.tools, &runtime);
            let functions = Some(functions.map_err(|faults| Fault::of_faults(&faults))?);
            let declared = Declared { manifest: registered.promised(&id).cloned(), functions };
            own.declare(&runtime, &mut registered, id, declared).await
        })
    }

    /// Registers a source that is a part of the program.
    async fn declare(
        &self,
        runtime: &Runtime,
        registered: &mut Registered,
        id: SourceId,
        declared: Declared,
    ) -> Result<Value, Fault> {
        let manifest = declared.offered(&id);
        let source: Arc<dyn ToolSource> = match declared.functions {
            None => Arc::new(Promised(manifest.clone())),
            Some(_) => Arc::new(JsSource {
                manifest: manifest.clone(),
                mailbox: Arc::clone(&self.mailbox),
                calls: Arc::clone(&self.tool_calls),
                clock: Arc::clone(&runtime.host.clock),
            }),
        };
        runtime.declare(source, manifest).await?;
        registered.declared.insert(id, declared);
        Ok(Value::Null)
    }

    fn register_server(self: &Arc<Self>, mut given: Map<String, Value>) -> Result<Value, Fault> {
        let (runtime, own) = (self.runtime()?, Arc::clone(self));
        let id = given.shift_remove("serverId");
        let id = id.as_ref().and_then(Value::as_str);
        let id = source_id(id.ok_or_else(|| Fault::invalid("the server: `serverId` is missing"))?)?;
        self.wait(async move {
            let mut registered = own.registered.lock().await;
            registered.check_free(&id)?;
            let table = server_table(&id, given, registered.promised(&id), &runtime)?;
            let loaded = Config::from_document(registered.document(Some((&id, &table))))?;
            let promised = registered.declared.remove(&id);
            if promised.is_some() {
                runtime.supervisor().remove(&id).await;
            }
            if let Err(fault) = start_server(&runtime, &id, &table, &loaded).await {
                let before = Config::from_document(registered.document(None))?;
                runtime.apply(&before).await?;
                if let Some(promised) = promised {
                    own.declare(&runtime, &mut registered, id, promised).await?;
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
        let grant = given.read(runtime.host.clock.now_ms(), &self.caller)?;
        self.wait(async move {
            let (operations, actor) = (&runtime.operations, Self::actor());
            let grant = match grant {
                Grant::New(new) => operations.issue_grant(&actor, new).await?,
                Grant::Earlier(grant) => operations.restore_grant(&actor, grant).await?,
            };
            Ok(json!(grant.grant_id))
        })
    }

    /// The bytes of an artifact, by its URI or its hash.
    pub(crate) fn artifact(&self, name: &str) -> Result<Vec<u8>, Fault> {
        let runtime = self.runtime()?;
        let hash = name.strip_prefix(ARTIFACTS).unwrap_or(name).to_owned();
        self.wait(async move { Ok(runtime.operations.artifact(&hash).await?.1) })
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

/// Puts a configuration with one more server into force. Fails if that server can't be used.
async fn start_server(
    runtime: &Runtime,
    id: &SourceId,
    table: &Value,
    loaded: &Loaded,
) -> Result<(), Fault> {
    runtime.apply(loaded).await?;
    if table.get("protocol").is_some_and(|protocol| protocol == "call") {
        // Its tools are known, and need not be asked for.
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
