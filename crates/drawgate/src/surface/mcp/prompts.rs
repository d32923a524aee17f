//! Prompts of the sources.

use axum::response::Response;
use drawgate_core::model::Operation;
use serde_json::{Map, Value};

use super::http::Peer;
use super::message::{RequestId, RpcError};
use super::shelf::{self, Kept, Shelf};
use super::{Mcp, call};

/// `prompts/get`.
pub(super) async fn get(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    mut params: Map<String, Value>,
) -> Result<Response, RpcError> {
    let name = shelf::text(&params, "name")?.to_owned();
    let given = given(&mut params)?;
    let unknown = || shelf::unknown("prompt", &name);
    let shelf = Shelf::of(mcp, &peer.caller);
    let open = shelf.open(Operation::GetPrompt);
    let (source, own) = shelf::only(shelf.snapshot.find_prompt(&name, &open), unknown)?;
    let mut arguments = Map::new();
    arguments.insert("name".to_owned(), own.into());
    if let Some(given) = given {
        arguments.insert("arguments".to_owned(), given.into());
    }
    let asked = (&source, Operation::GetPrompt);
    let call = shelf::invocation(peer.era, id, &mut params, asked, arguments)?;
    let result = call::perform_operation(mcp, peer, id, call).await?;
    match &result.error {
        Some(error) => Err(shelf::failure(error, unknown)),
        None => Ok(shelf::respond(peer.era, id, result, Kept::Unsaid)),
    }
}

/// The prompt's arguments, all of them texts.
fn given(params: &mut Map<String, Value>) -> Result<Option<Map<String, Value>>, RpcError> {
    match params.shift_remove("arguments") {
        None => Ok(None),
        Some(Value::Object(given)) if given.values().all(Value::is_string) => Ok(Some(given)),
        Some(_) => Err(shelf::invalid("`arguments` must be an object of strings")),
    }
}
