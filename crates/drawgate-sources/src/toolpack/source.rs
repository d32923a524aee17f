//! The bundle: it asks its parts for their tools, presents them under the pack's names, and passes
//! calls on.
//!
//! A part that is down, or slow to start, takes only its own tools with it; when it is back the gate
//! hears of a change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use drawgate_core::model::{McpManifest, Offer, SourceId, ToolOutput, shown_name};
use drawgate_core::source::{CallContext, PermittedCall, Sent, SourceError, ToolSource};
use drawgate_host::Host;
use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::build::{Builder, host_for};
use super::config::ToolpackConfig;
use super::loaded_files::LoadedFiles;
use super::manifest::Manifest;
use super::part::{LeftOut, Offered, Part};
use super::restrictions::Restrictions;
use super::survey::Survey;
use crate::backoff::Backoff;
use crate::call_deadline::CallDeadline;
use crate::excerpt::masked;
use crate::kind::ConfigError;

/// The waits before a call that could not be sent is tried again.
const WAITS: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_mins(5));

/// One toolpack.
pub struct ToolpackSource {
    id: SourceId,
    host: Arc<Host>,
    loaded_files: Arc<LoadedFiles>,
    manifest: Manifest,
    parts: Vec<Part>,
    survey: Survey,
    routes: RwLock<Arc<BTreeMap<String, Route>>>,
    left_out: Mutex<Vec<LeftOut>>,
    /// The folders that its programs may write.
    writable: Vec<PathBuf>,
}

/// Where calls of a tool go.
#[derive(Clone)]
struct Route {
    part: usize,
    inner: Arc<str>,
    timeout: Option<Duration>,
}

impl ToolpackSource {
    /// The pack of a folder. Nothing is started yet.
    pub fn new(
        id: SourceId,
        config: &ToolpackConfig,
        host: &Arc<Host>,
    ) -> Result<Self, ConfigError> {
        // Before anything is read: what changes from now on is noticed.
        let loaded_files = LoadedFiles::new(&config.folder).map(Arc::new);
        let loaded_files = loaded_files.map_err(|reason| ConfigError::value("folder", reason))?;
        let manifest = Manifest::installed(&config.folder, config.kinds)
            .map_err(|problems| ConfigError::value("folder", problems.to_string()))?;
        config.check_names(&manifest)?;
        let restrictions = Restrictions::new(config, &manifest, host)?;
        let inner = host_for(&loaded_files, host);
        let parts = Builder {
            id: &id,
            manifest: &manifest,
            config,
            restrictions: &restrictions,
            host: &inner,
        }
        .parts();
        let survey = Survey::new(parts.len());
        Ok(Self {
            id,
            host: inner,
            loaded_files,
            manifest,
            parts,
            survey,
            routes: RwLock::default(),
            left_out: Mutex::default(),
            writable: restrictions.writable(),
        })
    }

    /// Has a listener told, once, how the pack's files differ from those that it was made from. Until
    /// it is made again, none of its programs is started any more.
    pub fn when_changed(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        self.loaded_files.when_changed(listener);
    }

    /// Whether its files were found to differ.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.loaded_files.is_changed()
    }

    /// Whether its programs may still write what they may: what decides about them may have changed.
    #[must_use]
    pub fn may_write(&self) -> bool {
        let trusted = self.host.processes.trusted();
        self.writable.iter().all(|folder| trusted.check_writable(folder).is_ok())
    }

    async fn check_files(&self) -> Result<(), SourceError> {
        let loaded_files = Arc::clone(&self.loaded_files);
        let checked = spawn_blocking(move || loaded_files.check()).await;
        let checked = checked.unwrap_or_else(|error| Err(error.to_string()));
        checked.map_err(SourceError::unreachable)
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Puts the answers of the parts together.
    fn combine(
        &self,
        answers: Vec<Result<McpManifest, String>>,
    ) -> (Vec<(usize, Offered)>, Vec<LeftOut>) {
        let (mut tools, mut left_out) = (Vec::new(), Vec::new());
        let secrets = self.host.secrets.known_values();
        for (index, (part, answer)) in self.parts.iter().zip(answers).enumerate() {
            match answer {
                Ok(manifest) => {
                    let (offered, missing) = part.choose(manifest);
                    tools.extend(offered.into_iter().map(|tool| (index, tool)));
                    left_out.extend(missing);
                }
                Err(reason) => left_out.extend(part.missing(&masked(&reason, &secrets))),
            }
        }
        tools.sort_by_key(|(_, tool)| tool.place);
        (tools, left_out)
    }

    fn route(&self, tool: &str) -> Option<Route> {
        self.routes.read().get(tool).cloned()
    }

    fn note(&self, left_out: Vec<LeftOut>) {
        let mut before = self.left_out.lock();
        for tool in left_out.iter().filter(|tool| !before.contains(tool)) {
            tracing::warn!(source = %self.id, tool = tool.tool, reason = tool.reason, "a tool of a pack is left out");
        }
        *before = left_out;
    }
}

#[async_trait]
impl ToolSource for ToolpackSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        let (tools, mut left_out) = self.combine(self.survey.ask(&self.parts).await);
        // Afterwards, since the parts have read files of the pack.
        self.check_files().await?;
        let mut routes = BTreeMap::new();
        let mut specs = Vec::new();
        for (part, tool) in tools {
            let Offered { inner, timeout, spec, .. } = tool;
            if routes.contains_key(&spec.name) {
                let reason = "another tool of the pack has this name".to_owned();
                left_out.push(LeftOut { tool: spec.name, reason });
                continue;
            }
            routes.insert(spec.name.clone(), Route { part, inner, timeout });
            specs.push(spec);
        }
        *self.routes.write() = Arc::new(routes);
        let reasons: Vec<String> = left_out.iter().map(|tool| tool.reason.clone()).collect();
        self.note(left_out);
        if specs.is_empty() {
            return Err(SourceError::unreachable(none_left(reasons)));
        }
        Ok(McpManifest {
            server_id: self.id.clone(),
            name: self.manifest.name.clone(),
            version: self.manifest.version.clone(),
            description: self.manifest.description.clone(),
            tools: specs,
            offer: Offer::default(),
        })
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        let gone = || {
            let name = shown_name(call.tool());
            SourceError::unreachable(format!("the pack does not offer `{name}` at the moment"))
        };
        let route = self.route(call.tool()).ok_or_else(gone)?;
        let part = self.parts.get(route.part).ok_or_else(gone)?;
        let source = part.source.as_ref().map_err(|_| gone())?;
        let mut cx = cx.clone();
        let end = CallDeadline::new(cx.deadline.at(), route.timeout);
        if let Some(timeout) = route.timeout {
            cx.deadline = cx.deadline.within(timeout);
        }
        let name = call.tool().to_owned();
        let work = attempts(&**source, call.under(route.inner), &cx, part.retries);
        match cx.deadline.bound(work).await {
            // Whichever of the two clocks was first, the pack's own limit is what counts.
            Ok(Err(SourceError::Timeout(_))) if Instant::now() >= cx.deadline.at() => {
                Err(end.exceeded_by(&name))
            }
            Ok(done) => done,
            Err(_) => Err(end.exceeded_by(&name)),
        }
    }

    async fn check(&self) -> Result<(), SourceError> {
        self.check_files().await?;
        let mut faults = Vec::new();
        for part in &self.parts {
            let checked = match &part.source {
                Ok(source) => source.check().await.map_err(|error| error.to_string()),
                Err(reason) => Err(reason.clone()),
            };
            let secrets = self.host.secrets.known_values();
            faults.extend(
                checked
                    .err()
                    .map(|reason| format!("`{}`: {}", part.label, masked(&reason, &secrets))),
            );
        }
        if faults.is_empty() { Ok(()) } else { Err(SourceError::unreachable(faults.join("; "))) }
    }

    fn missing(&self) -> BTreeMap<String, String> {
        let left_out = self.left_out.lock();
        left_out.iter().map(|tool| (tool.tool.clone(), tool.reason.clone())).collect()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.survey.changes())
    }

    fn can_resume(&self) -> bool {
        self.parts.iter().filter_map(|part| part.source.as_ref().ok()).any(|it| it.can_resume())
    }

    fn abandon(&self, state: &str) {
        for source in self.parts.iter().filter_map(|part| part.source.as_ref().ok()) {
            source.abandon(state);
        }
    }

    fn confinement(&self, tool: &str) -> Option<&'static str> {
        let route = self.route(tool)?;
        self.parts.get(route.part)?.source.as_ref().ok()?.confinement(&route.inner)
    }

    fn diagnostics(&self) -> Value {
        let mut connectors = Map::new();
        for part in &self.parts {
            let report = match &part.source {
                Ok(source) => source.diagnostics(),
                Err(reason) => json!({ "state": "failed", "lastError": reason }),
            };
            connectors.insert(part.label.clone(), report);
        }
        json!({
            "pack": { "id": self.manifest.id, "version": self.manifest.version },
            "connectors": connectors,
            "leftOut": *self.left_out.lock(),
        })
    }

    async fn close(&self) {
        self.survey.close();
        for source in self.parts.iter().filter_map(|part| part.source.as_ref().ok()) {
            source.close().await;
        }
    }
}

/// Passes a call on; once more where nothing was sent, as often as the connector's author allows.
async fn attempts(
    source: &dyn ToolSource,
    call: PermittedCall,
    cx: &CallContext,
    retries: u32,
) -> Result<ToolOutput, SourceError> {
    let mut waits = WAITS;
    for _ in 0..retries {
        match source.call(call.again(), cx).await {
            Err(SourceError::Unavailable { sent: Sent::Nothing, .. }) => {}
            outcome => return outcome,
        }
        sleep(waits.next(0)).await;
    }
    source.call(call, cx).await
}

fn none_left(mut reasons: Vec<String>) -> String {
    reasons.dedup();
    format!("no tool of the pack can be offered: {}", reasons.join("; "))
}
