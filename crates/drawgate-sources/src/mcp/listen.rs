//! What a server is asked to tell about, and how it is asked over a duplex transport.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::context::SourceContext;
use super::stdio::Connection;
use super::subscriptions::Subscriptions;
use super::wire::{Era, Meta, PlainParams, ServerInfo};
use crate::backoff::Backoff;

/// The request that stays open for what a server tells.
pub(super) const LISTEN: &str = "subscriptions/listen";
pub(super) const SUBSCRIBE: &str = "resources/subscribe";
/// How long the renewal of one subscription may take.
const RENEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Parameters of `subscriptions/listen`; none if there is nothing to hear.
pub(super) fn wanted(
    info: &ServerInfo,
    subscriptions: &Subscriptions,
) -> Option<Map<String, Value>> {
    let mut wanted = Map::new();
    for (capability, notification) in [
        ("tools.listChanged", "toolsListChanged"),
        ("prompts.listChanged", "promptsListChanged"),
        ("resources.listChanged", "resourcesListChanged"),
    ] {
        if info.can(capability) {
            wanted.insert(notification.to_owned(), json!(true));
        }
    }
    let uris = subscriptions.uris();
    if !uris.is_empty() && info.can("resources.subscribe") {
        wanted.insert("resourceSubscriptions".to_owned(), json!(uris));
    }
    let params = || Map::from_iter([("notifications".to_owned(), Value::Object(wanted.clone()))]);
    (!wanted.is_empty()).then(params)
}

/// Parameters of `resources/subscribe`.
pub(super) fn subscription(uri: String) -> Map<String, Value> {
    Map::from_iter([("uri".to_owned(), Value::String(uri))])
}

/// Looks after what a server tells, for as long as its connection lasts.
pub(super) async fn tend(connection: Arc<Connection>, info: ServerInfo) {
    let work = async {
        match info.era {
            Era::Sessions => renew(&connection, &info).await,
            Era::Stateless => keep_listening(&connection, &info).await,
        }
    };
    tokio::select! {
        () = work => {}
        () = connection.link().closed() => {}
    }
}

/// A new process knows nothing of the subscriptions of the one before it.
async fn renew(connection: &Arc<Connection>, info: &ServerInfo) {
    let context = connection.context();
    if context.subscriptions.is_empty() || !info.can("resources.subscribe") {
        return;
    }
    for uri in context.subscriptions.uris() {
        let members = subscription(uri);
        let meta = Meta::own(Era::Sessions, context.allowed);
        let params = PlainParams { members: &members, meta };
        let renewed = timeout(RENEW_TIMEOUT, connection.ask(SUBSCRIBE, &params)).await;
        if !matches!(renewed, Ok(Ok(_))) {
            tracing::warn!("a subscription could not be renewed");
        }
    }
    context.missed();
}

async fn keep_listening(connection: &Arc<Connection>, info: &ServerInfo) {
    let context: &SourceContext = connection.context();
    let mut versions = context.subscriptions.follow();
    let mut backoff = Backoff::CONNECTION;
    loop {
        context.subscriptions.asking(*versions.borrow_and_update());
        let Some(members) = wanted(info, &context.subscriptions) else {
            if versions.changed().await.is_err() {
                return;
            }
            continue;
        };
        let meta = Meta::own(Era::Stateless, context.allowed);
        let params = PlainParams { members: &members, meta };
        let began = Instant::now();
        let ended = tokio::select! {
            ended = connection.ask(LISTEN, &params) => ended.map(drop),
            // The request is dropped, and made anew for the new set.
            changed = versions.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        match pause(&mut backoff, began, ended.is_err()) {
            ControlFlow::Continue(time) => sleep(time).await,
            ControlFlow::Break(()) => return,
        }
        context.missed();
    }
}

/// How long to wait after a stream has ended; a server that refuses again and again has none.
fn pause(backoff: &mut Backoff, began: Instant, refused: bool) -> ControlFlow<(), Duration> {
    backoff.after(began.elapsed());
    let time = backoff.next(0);
    if refused && backoff.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(time) }
}
