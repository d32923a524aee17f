//! A whole gate on fakes.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::{Map, Value};

use super::{TestClock, TestIds, TestStore};
use crate::audit::ToolAuditEvent;
use crate::model::{
    Bounds, Caller, Capability, CapabilityGrant, GrantScope, Lineage, McpManifest, Principal,
    Surface, ToolInvocation, ToolResult,
};
use crate::pipeline::{CallOptions, Gateway, GatewayControl, GatewayParts, GatewaySettings};
use crate::policy::{ApprovalState, Approvals, Grants, Rules};
use crate::redact::Redactor;
use crate::registry::{BadTool, Origin, Registration, RegistrationError, Registry, SourceTerms};
use crate::source::{SourceError, ToolSource};
use crate::store::{AuditLog, Store, Write};

/// A caller of a test.
#[must_use]
pub fn caller(name: &str) -> Caller {
    Caller {
        principal: Principal::new(name).unwrap_or_else(|error| panic!("{error}")),
        session: None,
        surface: Surface::new("test", "ask the test for {sha256}"),
        carried: Arc::default(),
        lineage: None,
    }
}

/// A run of a profile that a caller starts: below the caller's own run, if it is one.
#[must_use]
pub fn run_of(caller: &Caller, profile: &str, bounds: Bounds) -> Caller {
    let parent = caller.lineage.clone();
    let run: Arc<str> = format!("run-{profile}").into();
    let lineage = Lineage {
        root: parent.as_ref().map_or_else(|| Arc::clone(&run), |above| Arc::clone(&above.root)),
        thread: format!("thread-{profile}").into(),
        profile: profile.into(),
        task: None,
        plugin: None,
        depth: parent.as_ref().map_or(0, |above| above.depth + 1),
        run,
        parent,
        bounds,
    };
    Caller { surface: Surface::RUN, lineage: Some(Arc::new(lineage)), ..caller.clone() }
}

/// A gate, and the fakes it stands on.
pub struct TestGate {
    /// The gate.
    pub gateway: Gateway,
    /// The operator's handle on it.
    pub control: GatewayControl,
    /// Its store, audit log and artifacts.
    pub store: Arc<TestStore>,
    /// Its clock.
    pub clock: Arc<TestClock>,
}

impl TestGate {
    /// A gate without tools, where nobody holds anything.
    pub async fn new() -> Self {
        Self::with(TestStore::default()).await
    }

    /// The same on a store of the test's own.
    pub async fn with(store: TestStore) -> Self {
        let store = Arc::new(store);
        let clock = Arc::new(TestClock::default());
        let ids = Arc::new(TestIds::default());
        let grants =
            Grants::load(store.clone(), Vec::new()).await.unwrap_or_else(|error| panic!("{error}"));
        let approvals = Approvals::load(store.clone(), clock.clone(), ids.clone(), [7; 32])
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let control = GatewayControl::new(GatewayParts {
            registry: Arc::new(Registry::default()),
            grants: Arc::new(grants),
            approvals: Arc::new(approvals),
            exposures: Arc::default(),
            rules: Arc::new(ArcSwap::from_pointee(Rules::default())),
            hooks: Arc::default(),
            redactor: Arc::new(ArcSwap::from_pointee(Redactor::new([]))),
            settings: Arc::new(ArcSwap::from_pointee(GatewaySettings::default())),
            audit: store.clone(),
            artifacts: store.clone(),
            clock: clock.clone(),
            ids,
        });
        Self { gateway: control.gateway().clone(), control, store, clock }
    }

    /// Registers a source by asking it for its manifest.
    pub async fn register(&self, source: Arc<dyn ToolSource>) -> Result<Vec<BadTool>, SourceError> {
        let manifest = source.manifest().await?;
        Ok(self
            .declare(source, manifest, SourceTerms::default(), Origin::Discovered)
            .unwrap_or_else(|error| panic!("{error}")))
    }

    /// Registers a manifest under terms. Without capabilities, the source is open to every caller.
    pub fn declare(
        &self,
        source: Arc<dyn ToolSource>,
        manifest: McpManifest,
        mut terms: SourceTerms,
        origin: Origin,
    ) -> Result<Vec<BadTool>, RegistrationError> {
        if terms.capabilities.is_empty() {
            terms.capabilities.extend(Capability::new("public"));
        }
        self.control.parts().registry.replace(Registration { manifest, terms, origin, source })
    }

    /// Grants a capability to a principal and returns the grant's id.
    pub async fn grant(&self, name: &str, capability: &str, expires_at: Option<u64>) -> String {
        let id = format!("grant-{name}-{capability}");
        let grant = CapabilityGrant {
            grant_id: id.as_str().into(),
            capability: Capability::new(capability).unwrap_or_else(|error| panic!("{error}")),
            issued_at: 0,
            expires_at,
            scope: Some(GrantScope::User(caller(name).principal)),
            approval_id: None,
        };
        self.control.parts().grants.issue(grant).await;
        id
    }

    /// Sets policy from its JSON form.
    pub fn policy(&self, rules: Value) {
        let rules = Rules::from_value(rules).unwrap_or_else(|error| panic!("{error}"));
        self.control.parts().rules.store(Arc::new(rules));
    }

    /// Decides an approval as an operator's act does: in the store, then in memory.
    pub async fn decide(&self, id: &str, answer: ApprovalState) {
        let approvals = &self.control.parts().approvals;
        let decided = approvals.decided(id, answer).unwrap_or_else(|error| panic!("{error}"));
        let write = Write::SettleApproval { from: ApprovalState::Pending, to: decided.clone() };
        self.store.commit(vec![write]).await.unwrap_or_else(|error| panic!("{error}"));
        approvals.settle(decided);
    }

    /// How long a call waits for a person.
    pub fn hold(&self, hold: Duration) {
        let mut settings = GatewaySettings::clone(&self.control.parts().settings.load());
        settings.approvals.hold = hold;
        self.control.parts().settings.store(Arc::new(settings));
    }

    /// Calls a tool.
    pub async fn call(&self, name: &str, tool: &str, arguments: Value) -> ToolResult {
        self.call_as(&caller(name), tool, arguments).await
    }

    /// Calls a tool as a caller of the test's own.
    pub async fn call_as(&self, caller: &Caller, tool: &str, arguments: Value) -> ToolResult {
        let arguments = match arguments {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let call = ToolInvocation {
            tool_id: tool.to_owned(),
            request_id: "r1".to_owned(),
            arguments,
            ..ToolInvocation::default()
        };
        self.gateway.call(caller, call, CallOptions::default()).await
    }

    /// All audit events.
    pub async fn events(&self) -> Vec<ToolAuditEvent> {
        let stored = self.store.read(0, usize::MAX).await.unwrap_or_else(|error| panic!("{error}"));
        stored.iter().map(|event| event.event().unwrap_or_else(|error| panic!("{error}"))).collect()
    }
}
