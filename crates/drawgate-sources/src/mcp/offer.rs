//! What a server offers beside tools: resources, families of resources, prompts.

use std::collections::BTreeSet;
use std::time::Instant;

use drawgate_core::model::{Offer, Operation};
use drawgate_core::source::SourceError;
use serde_json::Value;

use super::Peer;
use super::diagnostics::LeftOut;
use super::listing::{self, MAX_ITEMS};
use super::wire::{Era, ServerInfo};

/// Asks for everything that the server says it has. A list that can't be had leaves the others
/// alone, and a note on what is missing.
pub(super) async fn list(
    peer: &Peer,
    info: &ServerInfo,
    deadline: Instant,
) -> (Offer, Vec<LeftOut>) {
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
        operations: operations(info),
    };
    (offer, left_out)
}

/// What the server can be asked to do.
fn operations(info: &ServerInfo) -> BTreeSet<Operation> {
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
    .filter_map(|(operation, can)| can.then_some(operation))
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
        if items.len() + left_out.len() + page.len() > MAX_ITEMS {
            let message = format!("the server offers more than {MAX_ITEMS} {key}");
            return Err(SourceError::Protocol(message));
        }
        for item in page {
            match item.get(name).and_then(Value::as_str) {
                Some(_) => items.push(item),
                None => left_out.push(missing(method, format!("an entry has no `{name}`"))),
            }
        }
        Ok(())
    };
    if let Err(error) = listing::pages(peer, (method, key), deadline, add).await {
        tracing::warn!(method, %error, "a list can't be had");
        left_out.push(missing(method, error.to_string()));
    }
    (items, left_out)
}

fn missing(method: &str, reason: String) -> LeftOut {
    LeftOut { tool: method.to_owned(), reason }
}
