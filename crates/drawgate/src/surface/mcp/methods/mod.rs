//! The methods of the protocol, in both eras: each is a function that returns an answer or an error.

mod approval_page;
mod completion;
mod finder;
mod gate;
pub(crate) mod handshake;
pub(crate) mod listen;
mod lists;
mod logging;
mod meta;
mod perform;
mod prompts;
mod questions;
mod resources;
mod source_reports;
mod subscriptions;
pub(crate) mod tasks;
pub(crate) mod tools;

use serde_json::{Map, Value};

use super::caller::peer::Peer;
use super::state::Mcp;
use super::wire::answer::Answer;
use super::wire::message::{RequestId, RpcError};
use super::wire::method::{Method, MethodName, Need};

/// Performs a request that is answered with a result.
pub(crate) async fn dispatch(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    name: &MethodName,
    params: Map<String, Value>,
) -> Result<Answer, RpcError> {
    if !name.needs().contains(&Need::Narrowing) {
        meta::check(&params)?;
    }
    if name.needs().contains(&Need::FirstLists) {
        Box::pin(mcp.first_lists()).await;
    }
    let unknown = || RpcError::unknown_method(name.as_str());
    let method = name.request_in(peer.era).ok_or_else(unknown)?;
    // What is not a call is boxed where it waits, so that calls do not pay for its room.
    match method {
        Method::CallTool => tools::tool(mcp, peer, id, params).await,
        Method::ListTools => lists::tools(mcp, peer, &params),
        Method::ListResources => Box::pin(resources::list(mcp, peer, &params)).await,
        Method::ListTemplates => lists::templates(mcp, peer, &params),
        Method::ReadResource => Box::pin(resources::read(mcp, peer, id, params)).await,
        Method::Subscribe => Box::pin(subscriptions::subscribe(mcp, peer, &params)).await,
        Method::Unsubscribe => Box::pin(subscriptions::unsubscribe(mcp, peer, &params)).await,
        Method::ListPrompts => lists::prompts(mcp, peer, &params),
        Method::GetPrompt => Box::pin(prompts::get(mcp, peer, id, params)).await,
        Method::Complete => Box::pin(completion::complete(mcp, peer, id, params)).await,
        Method::GetTask => tasks::get(mcp, peer, &params),
        Method::UpdateTask => tasks::update(mcp, peer, &params),
        Method::CancelTask => Box::pin(tasks::cancel(mcp, peer, &params)).await,
        Method::SetLogLevel => Box::pin(logging::set_level(mcp, peer, id, &params)).await,
        Method::Discover => Ok(handshake::discover(mcp, peer)),
        Method::Ping => Ok(handshake::ping(peer)),
        // These are answered with a session, with a stream, and not at all.
        Method::Initialize | Method::Listen | Method::Cancelled => Err(unknown()),
    }
}
