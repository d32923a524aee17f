//! Completion of the arguments of prompts and of families of resources.

use axum::response::Response;
use drawgate_core::model::{Operation, SourceId};
use drawgate_core::registry::Item;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::Mcp;
use super::caller_view::CallerView;
use super::http::{Peer, json as json_response};
use super::message::{RequestId, RpcError, result_bytes};
use super::methods::with_meta;
use super::requests::{self, CachePolicy};

/// `completion/complete`.
pub(super) async fn complete(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    mut params: Map<String, Value>,
) -> Result<Response, RpcError> {
    let mut subject = object(&mut params, "ref")?;
    let argument = object(&mut params, "argument")?;
    requests::text(&argument, "name")?;
    requests::text(&argument, "value")?;
    let view = CallerView::of(mcp, &peer.caller);
    let Some(source) = resolve(&view, &mut subject)? else {
        let nothing = json!({ "completion": { "values": [], "total": 0, "hasMore": false } });
        let result = with_meta(peer.era, nothing);
        return Ok(json_response(StatusCode::OK, result_bytes(id, &result)));
    };
    let mut arguments = Map::new();
    arguments.insert("ref".to_owned(), subject.into());
    arguments.insert("argument".to_owned(), argument.into());
    if params.contains_key("context") {
        let context = object(&mut params, "context")?;
        arguments.insert("context".to_owned(), context.into());
    }
    let asked = (&source, Operation::Complete);
    let call = requests::invocation(peer.era, id, &mut params, asked, arguments)?;
    peer.reaches_gate();
    let result = requests::call_gate(mcp, &peer.caller, call).await;
    match &result.error {
        Some(error) => Err(requests::failure(error, || requests::invalid("`ref` leads nowhere"))),
        None => Ok(requests::respond(peer.era, id, result, CachePolicy::Unspecified)),
    }
}

/// Whom to ask, with `ref` turned into the source's own name for it. `None` if the subject is known
/// and its source does not complete.
fn resolve(
    view: &CallerView<'_>,
    subject: &mut Map<String, Value>,
) -> Result<Option<SourceId>, RpcError> {
    let snapshot = &view.snapshot;
    let kind = requests::text(subject, "type")?.to_owned();
    let (key, place, known) = match kind.as_str() {
        "ref/prompt" => {
            let name = requests::text(subject, "name")?;
            ("name", snapshot.find_prompt(name, &view.open(Operation::GetPrompt)), false)
        }
        "ref/resource" => {
            let uri = requests::text(subject, "uri")?;
            let open = view.open(Operation::ReadResource);
            let listed = snapshot.templates().iter().chain(snapshot.resources());
            let is_it = |item: &Item| item.shown == uri && open.contains(&item.source);
            let known = listed.into_iter().any(is_it);
            ("uri", snapshot.find_template(uri, &open), known)
        }
        _ => return Err(requests::invalid("`ref.type` must be `ref/prompt` or `ref/resource`")),
    };
    let unknown = requests::invalid("`ref` leads nowhere");
    match requests::only(place, || unknown.clone()) {
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
        _ => Err(requests::invalid(format!("`{key}` must be an object"))),
    }
}
