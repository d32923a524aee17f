//! Prompts of the sources.

use drawgate_core::model::Operation;
use serde_json::{Map, Value};

use super::gate::{self, CachePolicy};
use super::perform::perform_operation;
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::caller::view::CallerView;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::message::{RequestId, RpcError};

/// `prompts/get`.
pub(crate) async fn get(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    mut params: Map<String, Value>,
) -> Result<Answer, RpcError> {
    let name = gate::text(&params, "name")?.to_owned();
    let given = given(&mut params)?;
    let unknown = || gate::unknown("prompt", &name);
    let view = CallerView::of(&mcp.inner.gateway, &peer.caller);
    let open = view.open(Operation::GetPrompt);
    let (source, own) = gate::only(view.snapshot.find_prompt(&name, &open), unknown)?;
    let mut arguments = Map::new();
    arguments.insert("name".to_owned(), own.into());
    if let Some(given) = given {
        arguments.insert("arguments".to_owned(), given.into());
    }
    let asked = (&source, Operation::GetPrompt);
    let call = gate::invocation(peer.era, id, &mut params, asked, arguments)?;
    let result = perform_operation(mcp, peer, id, call).await?;
    match &result.error {
        Some(error) => Err(gate::failure(error, unknown)),
        None => Ok(gate::answer(peer.era, result, CachePolicy::Unspecified)),
    }
}

/// The prompt's arguments, all of them texts.
fn given(params: &mut Map<String, Value>) -> Result<Option<Map<String, Value>>, RpcError> {
    match params.shift_remove("arguments") {
        None => Ok(None),
        Some(Value::Object(given)) if given.values().all(Value::is_string) => Ok(Some(given)),
        Some(_) => Err(gate::invalid("`arguments` must be an object of strings")),
    }
}
