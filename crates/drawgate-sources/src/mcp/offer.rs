//! What a server offers beside tools: resources, families of resources, prompts.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_core::model::{Offer, Operation};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::changes::Changes;
use super::diagnostics::LeftOut;
use super::listing::{self, Extent, MAX_ITEMS};
use super::wire::{Era, ServerInfo, method_of};
use super::{LIST_TIMEOUT, Peer};

/// How long the tools wait for lists of other things.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much of a server's instructions is kept, in characters.
const MAX_INSTRUCTIONS: usize = 16 * 1024;

/// What was listed beside tools, and lists that are on their way.
#[derive(Default)]
pub(super) struct Lists(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// What the server said last.
    last: Option<Offer>,
    /// Lists that came late and have not been handed out yet.
    fresh: Option<(Offer, Vec<LeftOut>)>,
    late: Option<AbortHandle>,
}

impl Lists {
    /// What the server offers. Lists that are slow do not hold up its tools: what was known before
    /// stands for them, and the gate hears when they are there.
    pub(super) async fn ask(
        &self,
        peer: &Peer,
        info: &Arc<ServerInfo>,
        changes: &Changes,
    ) -> (Offer, Vec<LeftOut>) {
        if let Some(fresh) = self.0.lock().fresh.take() {
            return fresh;
        }
        let (peer, own) = (peer.clone(), Arc::clone(info));
        let deadline = Instant::now() + LIST_TIMEOUT;
        let mut listing = tokio::spawn(async move { list(&peer, &own, deadline).await });
        if let Ok(Ok(done)) = timeout(PATIENCE, &mut listing).await {
            self.0.lock().last = Some(done.0.clone());
            return done;
        }
        let (inner, changes) = (Arc::clone(&self.0), changes.clone());
        let abort = listing.abort_handle();
        tokio::spawn(async move {
            let Ok(done) = listing.await else { return };
            let mut inner = inner.lock();
            inner.last = Some(done.0.clone());
            inner.fresh = Some(done);
            drop(inner);
            changes.bump();
        });
        let mut inner = self.0.lock();
        if let Some(earlier) = inner.late.replace(abort) {
            earlier.abort();
        }
        let known = inner.last.clone().unwrap_or_default();
        let Offer { operations, instructions, .. } = at_once(info);
        (Offer { operations, instructions, pending: true, ..known }, Vec::new())
    }

    /// Gives up what is on its way.
    pub(super) fn close(&self) {
        if let Some(late) = self.0.lock().late.take() {
            late.abort();
        }
    }
}

/// Asks for everything that the server says it has. A list that can't be had leaves the others
/// alone, and a note on what is missing.
async fn list(peer: &Peer, info: &ServerInfo, deadline: Instant) -> (Offer, Vec<LeftOut>) {
    let (resources, prompts) = (info.can("resources"), info.can("prompts"));
    let (resources, templates, prompts) = tokio::join!(
        items(peer, resources, "resources/list", "resources", "uri", deadline),
        items(
            peer,
            resources,
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
            deadline
        ),
        items(peer, prompts, "prompts/list", "prompts", "name", deadline),
    );
    let mut left_out = Vec::new();
    let mut keep = |(items, missing): (Vec<Value>, Vec<LeftOut>)| {
        left_out.extend(missing);
        items
    };
    let offer = Offer {
        resources: keep(resources),
        templates: keep(templates),
        prompts: keep(prompts),
        ..at_once(info)
    };
    (offer, left_out)
}

/// What the handshake tells by itself.
fn at_once(info: &ServerInfo) -> Offer {
    let told = info.instructions.as_deref().map(str::trim).filter(|text| !text.is_empty());
    Offer {
        operations: operations(info),
        instructions: told.map(|text| text.chars().take(MAX_INSTRUCTIONS).collect()),
        ..Offer::default()
    }
}

/// What the server can be asked to do.
fn operations(info: &ServerInfo) -> BTreeMap<Operation, String> {
    let has_levels = info.era == Era::Sessions && info.can("logging");
    let subscribes = info.can("resources.subscribe");
    [
        (Operation::ReadResource, info.can("resources")),
        (Operation::Subscribe, subscribes),
        (Operation::Unsubscribe, subscribes),
        (Operation::GetPrompt, info.can("prompts")),
        (Operation::Complete, info.can("completions")),
        (Operation::SetLogLevel, has_levels),
    ]
    .into_iter()
    .filter(|(_, can)| *can)
    .map(|(operation, _)| (operation, method_of(operation).to_owned()))
    .collect()
}

/// One list, and what is wrong with it.
async fn items(
    peer: &Peer,
    has: bool,
    method: &'static str,
    key: &'static str,
    name: &'static str,
    deadline: Instant,
) -> (Vec<Value>, Vec<LeftOut>) {
    let (mut items, mut left_out) = (Vec::new(), Vec::new());
    if !has {
        return (items, left_out);
    }
    let add = |page: Vec<Value>| {
        for item in page {
            if items.len() + left_out.len() >= MAX_ITEMS {
                return ControlFlow::Break(());
            }
            match item.get(name).and_then(Value::as_str) {
                Some(_) => items.push(item),
                None => left_out.push(missing(method, format!("an entry has no `{name}`"))),
            }
        }
        ControlFlow::Continue(())
    };
    match listing::pages(peer, (method, key), deadline, add).await {
        Ok(Extent::Whole) => {}
        Ok(Extent::Cut) => left_out.push(listing::cut(method, key)),
        Err(error) => {
            tracing::warn!(method, %error, "a list can't be had");
            left_out.push(missing(method, error.to_string()));
        }
    }
    (items, left_out)
}

fn missing(method: &str, reason: String) -> LeftOut {
    LeftOut { tool: method.to_owned(), reason }
}
