//! Prompts of the sources.

use axum::response::Response;
use drawgate_core::model::Operation;
use serde_json::{Map, Value};

use super::caller_view::CallerView;
use super::http::Peer;
use super::message::{RequestId, RpcError};
use super::requests::{self, CachePolicy};
use super::{Mcp, call};

/// `prompts/get`.
pub(super) async fn get(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    mut params: Map<String, Value>,
) -> Result<Response, RpcError> {
    let name = requests::text(&params, "name")?.to_owned();
    let given = given(&mut params)?;
    let unknown = || requests::unknown("prompt", &name);
    let view = CallerView::of(mcp, &peer.caller);
    let open = view.open(Operation::GetPrompt);
    let (source, own) = requests::only(view.snapshot.find_prompt(&name, &open), unknown)?;
    let mut arguments = Map::new();
    arguments.insert("name".to_owned(), own.into());
    if let Some(given) = given {
        arguments.insert("arguments".to_owned(), given.into());
    }
    let asked = (&source, Operation::GetPrompt);
    let call = requests::invocation(peer.era, id, &mut params, asked, arguments)?;
    let result = call::perform_operation(mcp, peer, id, call).await?;
    match &result.error {
        Some(error) => Err(requests::failure(error, unknown)),
        None => Ok(requests::respond(peer.era, id, result, CachePolicy::Unspecified)),
    }
}

/// The prompt's arguments, all of them texts.
fn given(params: &mut Map<String, Value>) -> Result<Option<Map<String, Value>>, RpcError> {
    match params.shift_remove("arguments") {
        None => Ok(None),
        Some(Value::Object(given)) if given.values().all(Value::is_string) => Ok(Some(given)),
        Some(_) => Err(requests::invalid("`arguments` must be an object of strings")),
    }
}
