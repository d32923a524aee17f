//! `subscriptions/listen`, and what streams of changes say.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::{Caller, Operation};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{meta, subscriptions, tasks};
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::caller::view::CallerView;
use crate::surface::mcp::lists::Prepared;
use crate::surface::mcp::session::subscribed::{MAX_EACH, Resource, Subscriptions};
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::era::Era;
use crate::surface::mcp::wire::message::{RequestId, RpcError};
use crate::surface::mcp::wire::notice::Notice;

/// Where a message says which subscription it belongs to.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// How long sources may take to accept the subscriptions of a stream.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a client wants to hear of.
pub(crate) struct Wanted {
    lists: Vec<List>,
    /// Resources to subscribe to at first.
    uris: Vec<String>,
    tasks: Vec<String>,
}

impl Wanted {
    /// What the client of a session hears of without asking.
    pub(crate) fn all_lists() -> Self {
        Self { lists: List::ALL.to_vec(), uris: Vec::new(), tasks: Vec::new() }
    }

    /// What a request asks for.
    pub(crate) fn of_request(peer: &Peer, params: &Map<String, Value>) -> Result<Self, RpcError> {
        meta::check(params)?;
        let empty = Map::new();
        let wanted = params.get("notifications").and_then(Value::as_object).unwrap_or(&empty);
        if wanted.get("taskIds").is_some_and(Value::is_array) {
            tasks::check(peer)?;
        }
        let is_wanted = |list: &List| wanted.get(list.member()) == Some(&Value::Bool(true));
        Ok(Self {
            lists: List::ALL.into_iter().filter(is_wanted).collect(),
            uris: texts(wanted, "resourceSubscriptions"),
            tasks: texts(wanted, "taskIds"),
        })
    }
}

fn texts(wanted: &Map<String, Value>, member: &str) -> Vec<String> {
    let all = wanted.get(member).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).take(MAX_EACH).map(str::to_owned).collect()
}

/// The lists of which a client may want to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
}

impl List {
    const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    const fn member(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources => "resourcesListChanged",
        }
    }

    const fn notice(self) -> Notice {
        match self {
            Self::Tools => Notice::ToolsChanged,
            Self::Prompts => Notice::PromptsChanged,
            Self::Resources => Notice::ResourcesChanged,
        }
    }

    fn changed(self, now: &Prepared, before: &Prepared) -> bool {
        match self {
            Self::Tools => now.tools.digest != before.tools.digest,
            Self::Prompts => now.prompts.digest != before.prompts.digest,
            Self::Resources => {
                now.resources.digest != before.resources.digest
                    || now.templates.digest != before.templates.digest
            }
        }
    }
}

/// The messages of one stream of changes.
pub(crate) struct ChangeFeed {
    pub(crate) mcp: Mcp,
    pub(crate) caller: Caller,
    pub(crate) wanted: Wanted,
    pub(crate) subscribed: Arc<Subscriptions>,
    /// The request that asked for the stream, where one did.
    pub(crate) id: Option<RequestId>,
}

impl ChangeFeed {
    /// The first message, by which the client of a request knows that the stream stands.
    pub(crate) async fn open(&self) -> Option<Value> {
        self.id.as_ref()?;
        let lists = self.wanted.lists.iter();
        let mut granted: Map<String, Value> =
            lists.map(|list| (list.member().to_owned(), true.into())).collect();
        let resources = self.join_all().await;
        if !resources.is_empty() {
            granted.insert("resourceSubscriptions".to_owned(), resources.into());
        }
        let tasks = self.wanted.tasks.iter();
        let own: Vec<&str> =
            tasks.filter(|id| self.show(id).is_some()).map(String::as_str).collect();
        if !own.is_empty() {
            granted.insert("taskIds".to_owned(), own.into());
        }
        let mut params = Map::new();
        params.insert("notifications".to_owned(), granted.into());
        Some(self.message(Notice::Acknowledged, params))
    }

    /// The answer to the request, when the gateway ends the stream in order.
    pub(crate) fn conclusion(&self) -> Option<Vec<u8>> {
        let id = self.id.as_ref()?;
        let result = json!({ "resultType": "complete", "_meta": { SUBSCRIPTION: id.to_value() } });
        Answer::Value(result).to_message(id).ok()
    }

    /// Gives up the subscriptions of a request; those of a session outlive its streams.
    pub(crate) async fn end(&self) {
        if self.id.is_some() {
            subscriptions::release(&self.mcp, &self.caller, &self.subscribed).await;
        }
    }

    /// The caller's lists as they are now.
    pub(crate) fn lists(&self) -> Arc<Prepared> {
        self.mcp.lists(&self.caller)
    }

    /// Which of the lists have changed.
    pub(crate) fn lists_changed(&self, now: &Prepared, before: &Prepared) -> Vec<Value> {
        let changed = self.wanted.lists.iter().filter(|list| list.changed(now, before));
        changed.map(|list| self.message(list.notice(), Map::new())).collect()
    }

    /// The message that a resource has changed, if the caller asked for it and may still use it.
    pub(crate) fn resource_updated(&self, changed: &Resource) -> Option<Value> {
        let uri = self.subscribed.name(changed)?;
        let view = CallerView::of(&self.mcp.inner.gateway, &self.caller);
        if !view.open(Operation::Subscribe).contains(&changed.source) {
            return None;
        }
        let mut params = Map::new();
        params.insert("uri".to_owned(), uri.into());
        Some(self.message(Notice::ResourceUpdated, params))
    }

    /// The message that a task has changed, if its owner asked for it.
    pub(crate) fn task_changed(&self, id: &str) -> Option<Value> {
        self.wanted.tasks.iter().find(|wanted| *wanted == id)?;
        Some(self.message(Notice::TaskChanged, self.show(id)?))
    }

    /// Subscribes to what the caller may use. What is missing from the result, in the client's
    /// order, was not to be had.
    async fn join_all(&self) -> Vec<&str> {
        let until = Instant::now() + SUBSCRIBE_TIMEOUT;
        let mut joined = Vec::new();
        for uri in &self.wanted.uris {
            let (mcp, subscribed) = (&self.mcp, &self.subscribed);
            let asked =
                subscriptions::join(mcp, &self.caller, Era::Stateless, subscribed, uri.clone());
            let done = tokio::time::timeout_at(until, asked).await;
            if matches!(done, Ok(Ok(()))) && !joined.contains(&uri.as_str()) {
                joined.push(uri.as_str());
            }
        }
        joined
    }

    fn show(&self, task: &str) -> Option<Map<String, Value>> {
        let task = self.mcp.inner.tasks.as_ref()?.get(&self.caller.principal, task)?;
        Some(tasks::details(&task))
    }

    fn message(&self, notice: Notice, mut params: Map<String, Value>) -> Value {
        if let Some(id) = &self.id {
            params.insert("_meta".to_owned(), json!({ SUBSCRIPTION: id.to_value() }));
        }
        if params.is_empty() { notice.plain() } else { notice.with(params) }
    }
}
