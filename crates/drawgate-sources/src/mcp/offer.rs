//! What a server offers beside tools: resources, families of resources, prompts.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_core::model::shape::{self, Form};
use drawgate_core::model::{Offer, Operation};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::changes::Changes;
use super::diagnostics::{LeftOut, Omissions};
use super::listing::{self, Extent, MAX_ITEMS};
use super::wire::{Era, ServerInfo, method_of};
use super::{LIST_TIMEOUT, Peer, SHOWN_NAME};

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
    fresh: Option<(Offer, Omissions)>,
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
    ) -> (Offer, Omissions) {
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
        (Offer { operations, instructions, pending: true, ..known }, Omissions::default())
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
async fn list(peer: &Peer, info: &ServerInfo, deadline: Instant) -> (Offer, Omissions) {
    let (resources, prompts) = (info.can("resources"), info.can("prompts"));
    let (resources, templates, prompts) = tokio::join!(
        items(peer, resources, RESOURCES, deadline),
        items(peer, resources, TEMPLATES, deadline),
        items(peer, prompts, PROMPTS, deadline),
    );
    let mut omissions = Omissions::default();
    let mut keep = |(items, missing): (Vec<Value>, Omissions)| {
        omissions.extend(missing);
        items
    };
    let offer = Offer {
        resources: keep(resources),
        templates: keep(templates),
        prompts: keep(prompts),
        ..at_once(info)
    };
    (offer, omissions)
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

/// How things of one kind are listed: the method, the member of the answer that holds them, the member of
/// each that is its name, and all members.
type Kind = (&'static str, &'static str, &'static str, Form);
const RESOURCES: Kind = ("resources/list", "resources", "uri", shape::RESOURCE);
const TEMPLATES: Kind =
    ("resources/templates/list", "resourceTemplates", "uriTemplate", shape::TEMPLATE);
const PROMPTS: Kind = ("prompts/list", "prompts", "name", shape::PROMPT);

/// One list, and what is wrong with it.
async fn items(
    peer: &Peer,
    has: bool,
    (method, key, name, form): Kind,
    deadline: Instant,
) -> (Vec<Value>, Omissions) {
    let (mut items, mut omissions) = (Vec::new(), Omissions::default());
    if !has {
        return (items, omissions);
    }
    let add = |page: Vec<Value>| {
        for item in page {
            if items.len() + omissions.left_out.len() >= MAX_ITEMS {
                return ControlFlow::Break(());
            }
            let named = item.get(name).and_then(Value::as_str).unwrap_or_default();
            let shown: String = named.chars().take(SHOWN_NAME).collect();
            match omissions.inspect(&shown, form, &item) {
                Ok(()) => items.push(item),
                Err(misfit) => {
                    let reason = format!("the entry `{shown}` {misfit}");
                    omissions.left_out.push(missing(method, reason));
                }
            }
        }
        ControlFlow::Continue(())
    };
    match listing::pages(peer, (method, key), deadline, add).await {
        Ok(Extent::Whole) => {}
        Ok(Extent::Cut) => omissions.left_out.push(listing::cut(method, key)),
        Err(error) => {
            tracing::warn!(method, %error, "a list can't be had");
            omissions.left_out.push(missing(method, error.to_string()));
        }
    }
    (items, omissions)
}

fn missing(method: &str, reason: String) -> LeftOut {
    LeftOut { tool: method.to_owned(), reason }
}
