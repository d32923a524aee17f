//! Completion of the arguments of prompts and of families of resources.

use drawgate_core::model::{Operation, SourceId};
use drawgate_core::registry::Item;
use serde_json::{Map, Value, json};

use super::gate::{self, CachePolicy};
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::caller::view::CallerView;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::message::{RequestId, RpcError};
use crate::surface::mcp::wire::stateless::with_meta;

/// `completion/complete`.
pub(crate) async fn complete(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    mut params: Map<String, Value>,
) -> Result<Answer, RpcError> {
    let mut subject = object(&mut params, "ref")?;
    let argument = object(&mut params, "argument")?;
    gate::text(&argument, "name")?;
    gate::text(&argument, "value")?;
    let view = CallerView::of(&mcp.inner.gateway, &peer.caller);
    let Some(source) = resolve(&view, &mut subject)? else {
        let nothing = json!({ "completion": { "values": [], "total": 0, "hasMore": false } });
        return Ok(Answer::Value(with_meta(peer.era, nothing)));
    };
    let mut arguments = Map::new();
    arguments.insert("ref".to_owned(), subject.into());
    arguments.insert("argument".to_owned(), argument.into());
    if params.contains_key("context") {
        let context = object(&mut params, "context")?;
        arguments.insert("context".to_owned(), context.into());
    }
    let asked = (&source, Operation::Complete);
    let call = gate::invocation(peer.era, id, &mut params, asked, arguments)?;
    peer.reaches_gate();
    let result = gate::call_gate(mcp, &peer.caller, call).await;
    match &result.error {
        Some(error) => Err(gate::failure(error, || gate::invalid("`ref` leads nowhere"))),
        None => Ok(gate::answer(peer.era, result, CachePolicy::Unspecified)),
    }
}

/// Whom to ask, with `ref` turned into the source's own name for it. `None` if the subject is known
/// and its source does not complete.
fn resolve(
    view: &CallerView<'_>,
    subject: &mut Map<String, Value>,
) -> Result<Option<SourceId>, RpcError> {
    let snapshot = &view.snapshot;
    let kind = gate::text(subject, "type")?.to_owned();
    let (key, place, known) = match kind.as_str() {
        "ref/prompt" => {
            let name = gate::text(subject, "name")?;
            ("name", snapshot.find_prompt(name, &view.open(Operation::GetPrompt)), false)
        }
        "ref/resource" => {
            let uri = gate::text(subject, "uri")?;
            let open = view.open(Operation::ReadResource);
            let listed = snapshot.templates().iter().chain(snapshot.resources());
            let is_it = |item: &Item| item.shown == uri && open.contains(&item.source);
            let known = listed.into_iter().any(is_it);
            ("uri", snapshot.find_template(uri, &open), known)
        }
        _ => return Err(gate::invalid("`ref.type` must be `ref/prompt` or `ref/resource`")),
    };
    let unknown = gate::invalid("`ref` leads nowhere");
    match gate::only(place, || unknown.clone()) {
        Ok((source, own)) => {
            subject.insert(key.to_owned(), own.into());
            Ok(Some(source).filter(|source| snapshot.can(source, Operation::Complete)))
        }
        Err(error) if error == unknown && known => Ok(None),
        Err(error) => Err(error),
    }
}

fn object(params: &mut Map<String, Value>, key: &str) -> Result<Map<String, Value>, RpcError> {
    match params.shift_remove(key) {
        Some(Value::Object(object)) => Ok(object),
        _ => Err(gate::invalid(format!("`{key}` must be an object"))),
    }
}
