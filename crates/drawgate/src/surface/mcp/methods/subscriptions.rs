//! Subscriptions of clients to resources.
//!
//! Every subscription passes the gate. A source is told when a client's last listener has left, and
//! asked again when it has been away. What it reports reaches the streams of listeners.

use std::sync::Arc;

use drawgate_core::model::{Caller, Operation, ToolError};
use serde_json::{Map, Value, json};

use super::{gate, resources, source_reports};
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::caller::view::CallerView;
use crate::surface::mcp::session::subscribed::{Reservation, Resource, Subscriptions};
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::state::subscription_table::{Listener, Remaining, leave};
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::era::Era;
use crate::surface::mcp::wire::message::{INVALID_REQUEST, RpcError};

/// `resources/subscribe`.
pub(crate) async fn subscribe(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Answer, RpcError> {
    let asked = gate::text(params, "uri")?.to_owned();
    let done = Answer::kept(peer.era, json!({}));
    let Some(session) = &peer.session else { return Ok(done) };
    // What is stored never changes, so there is nothing to hear of it.
    if resources::is_artifact(mcp, peer, &asked).await? {
        return Ok(done);
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
        Ok(()) => Ok(done),
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
) -> Result<Answer, RpcError> {
    let asked = gate::text(params, "uri")?;
    let left = peer.session.as_ref().and_then(|session| session.subscribed.take(asked));
    if let Some(resource) = left {
        let (mcp, caller) = (mcp.clone(), peer.caller.clone());
        // In a task of its own: a client that goes away meanwhile must not leave half of it.
        drop(tokio::spawn(async move { remove(&mcp, &caller, &resource).await }).await);
    }
    Ok(Answer::kept(peer.era, json!({})))
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
    if !CallerView::of(&mcp.inner.gateway, caller).snapshot.can(&source, Operation::Subscribe) {
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
    source_reports::hear(mcp, &resource.source);
    let result =
        gate::call_gate(mcp, caller, source_reports::request(resource, Operation::Subscribe)).await;
    if result.error.is_none() {
        held.push(Listener::new(caller.clone(), share));
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
        gate::call_gate(mcp, caller, source_reports::request(resource, Operation::Unsubscribe))
            .await;
    }
    drop(held);
    drop(listeners);
    subscription_table.tidy(resource);
}

fn too_many() -> RpcError {
    gate::refused(INVALID_REQUEST, "too many subscriptions; give up another first")
}
