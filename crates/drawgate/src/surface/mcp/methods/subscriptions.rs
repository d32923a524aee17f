//! Subscriptions to resources, by listener and by resource.
//!
//! Every subscription passes the gate. A source is told when a client's last listener has left, and
//! asked again when it has been away. What it reports reaches the streams of `watch`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use drawgate_core::model::{Caller, Operation, Principal, SourceId, ToolError, ToolInvocation};
use drawgate_core::source::{SourceEvent, ToolSource};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::surface::mcp::Mcp;
use crate::surface::mcp::caller::view::CallerView;
use crate::surface::mcp::methods::gate;
use crate::surface::mcp::methods::resources;
use crate::surface::mcp::transport::http::Peer;
use crate::surface::mcp::wire::era::Era;
use crate::surface::mcp::wire::message::{INVALID_REQUEST, RpcError};

/// Resources that one listener may subscribe to.
pub(crate) const MAX_EACH: usize = 256;
/// Resources that somebody listens to, in all.
const MAX_ALL: usize = 16 * 1024;
/// Subscriptions of one principal, so that it can't use up the room of all.
const MAX_SHARE: usize = MAX_ALL / 4;
/// Longest URI that is kept.
const MAX_URI: usize = 4096;
/// Reports that wait for a slow stream; more are dropped.
const MAX_WAITING: usize = 256;

/// One resource, by its source's own name for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Resource {
    pub(crate) source: SourceId,
    pub(crate) own: String,
}

/// The subscriptions of one listener, by the URIs that it used.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<State>);

#[derive(Default)]
struct State {
    resources: BTreeMap<String, Resource>,
    watched: bool,
    ended: bool,
}

/// The outcome of adding a subscription.
#[derive(Debug, PartialEq, Eq)]
enum Reservation {
    New,
    Already,
    Full,
}

impl Subscriptions {
    fn reserve(&self, asked: &str, resource: &Resource) -> Reservation {
        let mut state = self.0.lock();
        if state.resources.contains_key(asked) {
            return Reservation::Already;
        }
        if state.ended || state.resources.len() >= MAX_EACH || asked.len() > MAX_URI {
            return Reservation::Full;
        }
        state.resources.insert(asked.to_owned(), resource.clone());
        Reservation::New
    }

    fn take(&self, asked: &str) -> Option<Resource> {
        self.0.lock().resources.remove(asked)
    }

    fn has(&self, asked: &str) -> bool {
        self.0.lock().resources.contains_key(asked)
    }

    fn end(&self) -> Vec<Resource> {
        let mut state = self.0.lock();
        state.ended = true;
        std::mem::take(&mut state.resources).into_values().collect()
    }

    /// Whether this is the first that asks.
    fn watch(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().watched, true)
    }

    /// What this listener calls a resource that has changed; `None` if it did not ask.
    pub(crate) fn name(&self, changed: &Resource) -> Option<String> {
        let state = self.0.lock();
        let mut of_source =
            state.resources.iter().filter(|(_, resource)| resource.source == changed.source);
        of_source.find_map(|(asked, resource)| renamed(asked, &resource.own, &changed.own))
    }
}

/// The changed URI in the listener's terms, if it is the one subscribed to or lies below it.
fn renamed(asked: &str, own: &str, changed: &str) -> Option<String> {
    let below = changed.strip_prefix(own)?;
    let is_part = below.is_empty() || own.ends_with('/') || below.starts_with(['/', '?', '#']);
    is_part.then(|| format!("{asked}{below}"))
}

/// The subscriptions of all listeners.
pub(crate) struct SubscriptionTable {
    kept: Mutex<BTreeMap<Resource, Arc<Listeners>>>,
    /// Sources whose reports are being passed on.
    heard: Mutex<BTreeSet<SourceId>>,
    shares: Arc<Shares>,
    updates: broadcast::Sender<Arc<Resource>>,
}

/// The listeners of one resource. The lock is held while the source is asked, so that its answers
/// to one and to the other can't cross.
type Listeners = tokio::sync::Mutex<Vec<Listener>>;

/// One listener of a resource.
struct Listener {
    caller: Caller,
    _share: Share,
}

/// How many subscriptions each principal has.
type Shares = Mutex<BTreeMap<Principal, usize>>;

/// One subscription of a principal, until this is dropped.
struct Share {
    shares: Arc<Shares>,
    principal: Principal,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.shares.lock();
        if let Some(own) = shares.get_mut(&self.principal) {
            *own -= 1;
            if *own == 0 {
                shares.remove(&self.principal);
            }
        }
    }
}

impl Default for SubscriptionTable {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            heard: Mutex::default(),
            shares: Arc::default(),
            updates: broadcast::Sender::new(MAX_WAITING),
        }
    }
}

impl SubscriptionTable {
    /// Resources as they change.
    pub(crate) fn updates(&self) -> broadcast::Receiver<Arc<Resource>> {
        self.updates.subscribe()
    }

    fn share(&self, principal: &Principal) -> Option<Share> {
        let mut shares = self.shares.lock();
        let own = shares.get(principal).copied().unwrap_or_default();
        if own >= MAX_SHARE {
            return None;
        }
        shares.insert(principal.clone(), own + 1);
        Some(Share { shares: Arc::clone(&self.shares), principal: principal.clone() })
    }

    fn listeners(&self, resource: &Resource) -> Option<Arc<Listeners>> {
        let mut kept = self.kept.lock();
        if let Some(listeners) = kept.get(resource) {
            return Some(Arc::clone(listeners));
        }
        if kept.len() >= MAX_ALL {
            return None;
        }
        Some(Arc::clone(kept.entry(resource.clone()).or_default()))
    }

    /// Removes a resource without listeners.
    fn tidy(&self, resource: &Resource) {
        let mut kept = self.kept.lock();
        // Others take their part under this lock, so that one means only the table itself.
        let unused = kept.get(resource).is_some_and(|listeners| {
            Arc::strong_count(listeners) == 1
                && listeners.try_lock().is_ok_and(|listeners| listeners.is_empty())
        });
        if unused {
            kept.remove(resource);
        }
    }

    /// Whether a resource of this source has listeners; if not, its reports are no longer followed.
    fn is_heard(&self, source: &SourceId) -> bool {
        let mut heard = self.heard.lock();
        let any = self.kept.lock().keys().any(|resource| resource.source == *source);
        if !any {
            heard.remove(source);
        }
        any
    }

    fn of_source(&self, source: &SourceId) -> Vec<(Resource, Arc<Listeners>)> {
        let kept = self.kept.lock();
        let own = kept.iter().filter(|(resource, _)| resource.source == *source);
        own.map(|(resource, listeners)| (resource.clone(), Arc::clone(listeners))).collect()
    }
}

/// `resources/subscribe`.
pub(crate) async fn subscribe(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    let asked = gate::text(params, "uri")?.to_owned();
    let Some(session) = &peer.session else { return Ok(json!({})) };
    // What is stored never changes, so there is nothing to hear of it.
    if resources::is_artifact(mcp, peer, &asked).await? {
        return Ok(json!({}));
    }
    if session.subscribed.watch() {
        let (mcp, caller) = (mcp.clone(), peer.caller.clone());
        let (closed, subscribed) = (session.closed.clone(), Arc::clone(&session.subscribed));
        tokio::spawn(async move {
            closed.cancelled().await;
            release(&mcp, &caller, &subscribed).await;
        });
    }
    match join(mcp, &peer.caller, peer.era, &session.subscribed, asked).await {
        Ok(()) => Ok(json!({})),
        Err(SubscribeError::BeforeGate(error)) => Err(error),
        Err(SubscribeError::FromGate(error)) => {
            peer.reaches_gate();
            Err(error)
        }
    }
}

/// `resources/unsubscribe`.
pub(crate) async fn unsubscribe(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    let asked = gate::text(params, "uri")?;
    let left = peer.session.as_ref().and_then(|session| session.subscribed.take(asked));
    if let Some(resource) = left {
        let (mcp, caller) = (mcp.clone(), peer.caller.clone());
        // In a task of its own: a client that goes away meanwhile must not leave half of it.
        drop(tokio::spawn(async move { remove(&mcp, &caller, &resource).await }).await);
    }
    Ok(json!({}))
}

/// Why a listener is not subscribed to a resource.
pub(crate) enum SubscribeError {
    /// The gate was not asked.
    BeforeGate(RpcError),
    /// The gate refused, and has written it down.
    FromGate(RpcError),
}

impl From<RpcError> for SubscribeError {
    fn from(error: RpcError) -> Self {
        Self::BeforeGate(error)
    }
}

/// Subscribes a listener to a resource that its caller may use.
pub(crate) async fn join(
    mcp: &Mcp,
    caller: &Caller,
    era: Era,
    subscribed: &Arc<Subscriptions>,
    asked: String,
) -> Result<(), SubscribeError> {
    let (source, own) = resources::find(mcp, caller, era, &asked)?;
    if !CallerView::of(mcp, caller).snapshot.can(&source, Operation::Subscribe) {
        let message = "this resource's server does not tell of changes";
        return Err(gate::refused(INVALID_REQUEST, message).into());
    }
    let resource = Resource { source, own };
    match subscribed.reserve(&asked, &resource) {
        Reservation::Already => return Ok(()),
        Reservation::Full => return Err(too_many().into()),
        Reservation::New => {}
    }
    let (mcp, caller) = (mcp.clone(), caller.clone());
    let (subscribed, uri) = (Arc::clone(subscribed), asked.clone());
    // In a task of its own: a client that goes away meanwhile must not leave half of it.
    let joined = tokio::spawn(async move {
        let added = add(&mcp, &caller, &resource).await;
        if added.is_err() {
            subscribed.take(&uri);
        } else if !subscribed.has(&uri) {
            remove(&mcp, &caller, &resource).await;
        }
        added
    });
    match joined.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Some(error))) => {
            let error = gate::failure(&error, || resources::unknown(era, &asked));
            Err(SubscribeError::FromGate(error))
        }
        Ok(Err(None)) | Err(_) => Err(too_many().into()),
    }
}

/// Gives up all that a listener had.
pub(crate) async fn release(mcp: &Mcp, caller: &Caller, subscribed: &Subscriptions) {
    for resource in subscribed.end() {
        remove(mcp, caller, &resource).await;
    }
}

/// Adds a listener; the gate's error, or none if there is no room.
async fn add(mcp: &Mcp, caller: &Caller, resource: &Resource) -> Result<(), Option<ToolError>> {
    let subscription_table = &mcp.inner.subscription_table;
    let share = subscription_table.share(&caller.principal).ok_or(None)?;
    let listeners = subscription_table.listeners(resource).ok_or(None)?;
    let mut held = listeners.lock().await;
    hear(mcp, &resource.source);
    let result = gate::call_gate(mcp, caller, about(resource, Operation::Subscribe)).await;
    if result.error.is_none() {
        held.push(Listener { caller: caller.clone(), _share: share });
    }
    drop(held);
    drop(listeners);
    subscription_table.tidy(resource);
    result.error.map_or(Ok(()), |error| Err(Some(error)))
}

async fn remove(mcp: &Mcp, caller: &Caller, resource: &Resource) {
    let subscription_table = &mcp.inner.subscription_table;
    let Some(listeners) = subscription_table.listeners(resource) else { return };
    let mut held = listeners.lock().await;
    if leave(&mut held, caller) == Remaining::Last {
        // Whether or not the source has understood, this client listens no more.
        gate::call_gate(mcp, caller, about(resource, Operation::Unsubscribe)).await;
    }
    drop(held);
    drop(listeners);
    subscription_table.tidy(resource);
}

/// Who is left of a client's listeners after one of them.
#[derive(Debug, PartialEq, Eq)]
enum Remaining {
    /// It was not there.
    Nobody,
    /// Others of the same client listen.
    One,
    Last,
}

fn leave(held: &mut Vec<Listener>, caller: &Caller) -> Remaining {
    let is_own = |listener: &Listener| is_one_client(&listener.caller, caller);
    let Some(place) = held.iter().position(is_own) else { return Remaining::Nobody };
    held.swap_remove(place);
    if held.iter().any(is_own) { Remaining::One } else { Remaining::Last }
}

/// Sources tell clients apart by who they are and by their session; the grants that a caller carries
/// are others with each of its tokens.
fn is_one_client(one: &Caller, other: &Caller) -> bool {
    one.principal == other.principal && one.session == other.session
}

fn about(resource: &Resource, operation: Operation) -> ToolInvocation {
    let mut arguments = Map::new();
    arguments.insert("uri".to_owned(), resource.own.as_str().into());
    ToolInvocation {
        tool_id: resource.source.to_string(),
        arguments,
        operation,
        ..ToolInvocation::default()
    }
}

fn too_many() -> RpcError {
    gate::refused(INVALID_REQUEST, "too many subscriptions; give up another first")
}

/// Passes on what a source reports, as long as somebody listens to something of it.
fn hear(mcp: &Mcp, source: &SourceId) {
    if mcp.inner.subscription_table.heard.lock().insert(source.clone()) {
        // Before the source is asked, so that its first report is not missed.
        let connection = Connection::of(mcp, source);
        let (mcp, source) = (mcp.clone(), source.clone());
        tokio::spawn(async move {
            let shut = mcp.inner.streams.closed();
            tokio::select! {
                () = shut.cancelled() => {}
                () = pass_on(&mcp, &source, connection) => {}
            }
        });
    }
}

async fn pass_on(mcp: &Mcp, id: &SourceId, mut connection: Connection) {
    let subscription_table = &mcp.inner.subscription_table;
    let mut registry = mcp.inner.gateway.registry_changes();
    while subscription_table.is_heard(id) {
        tokio::select! {
            event = connection.next() => {
                if let Some(SourceEvent::ResourceUpdated { uri }) = event {
                    let changed = Resource { source: id.clone(), own: uri };
                    // Without a stream at the moment there is nobody to tell.
                    let _ = subscription_table.updates.send(Arc::new(changed));
                    continue;
                }
            }
            changed = registry.changed() => if changed.is_err() { return },
        }
        let now = Connection::of(mcp, id);
        if now.differs(&connection) {
            connection = now;
            if connection.is_there {
                again(mcp, id).await;
            }
        }
    }
}

/// Subscribes anew at a source that was away or has been replaced.
async fn again(mcp: &Mcp, source: &SourceId) {
    for (resource, listeners) in mcp.inner.subscription_table.of_source(source) {
        let held = listeners.lock().await;
        for (place, Listener { caller, .. }) in held.iter().enumerate() {
            let mut earlier = held.iter().take(place);
            let told = earlier.any(|earlier| is_one_client(&earlier.caller, caller));
            if !told {
                gate::call_gate(mcp, caller, about(&resource, Operation::Subscribe)).await;
            }
        }
        drop(held);
        drop(listeners);
        mcp.inner.subscription_table.tidy(&resource);
    }
}

/// A source as it is now, and what it reports.
struct Connection {
    source: Option<Weak<dyn ToolSource>>,
    is_there: bool,
    events: Option<broadcast::Receiver<SourceEvent>>,
}

impl Connection {
    fn of(mcp: &Mcp, id: &SourceId) -> Self {
        let snapshot = mcp.inner.gateway.registry();
        let source = snapshot.source(id);
        Self {
            is_there: snapshot.can(id, Operation::Subscribe),
            events: source.and_then(|source| source.events()),
            source: source.map(Arc::downgrade),
        }
    }

    fn differs(&self, before: &Self) -> bool {
        let same = match (&self.source, &before.source) {
            (Some(now), Some(before)) => Weak::ptr_eq(now, before),
            (None, None) => true,
            _ => false,
        };
        !same || self.is_there != before.is_there
    }

    /// The next report. `None` once when a source has ended; then it waits for ever.
    async fn next(&mut self) -> Option<SourceEvent> {
        let Some(events) = &mut self.events else { return std::future::pending().await };
        loop {
            match events.recv().await {
                Ok(event) => return Some(event),
                // What was missed is gone; what follows still counts.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    self.events = None;
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "subscriptions_tests.rs"]
mod tests;
