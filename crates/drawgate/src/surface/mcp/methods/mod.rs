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

use serde_json::{Map, Value, json};

use super::caller::peer::Peer;
use super::state::Mcp;
use super::wire::answer::Answer;
use super::wire::message::{RequestId, RpcError};
use super::wire::method::{Method, MethodName, Need};
use super::wire::stateless::{LIST_TTL_MS, with_ttl};

/// Performs any other request. What is not a call is boxed where it waits, so that calls do not pay for
/// its room.
pub(crate) async fn dispatch(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    method: &MethodName,
    params: Map<String, Value>,
) -> Result<Answer, RpcError> {
    let era = peer.era;
    if !method.needs().contains(&Need::Narrowing) {
        meta::check(&params)?;
    }
    if method.needs().contains(&Need::FirstLists) {
        Box::pin(mcp.first_lists()).await;
    }
    let unknown = || RpcError::unknown_method(method.as_str());
    let result = match method.request_in(era).ok_or_else(unknown)? {
        Method::CallTool => return tools::tool(mcp, peer, id, params).await,
        Method::ListTools => return lists::tools(mcp, peer, &params),
        Method::ListResources => {
            return Box::pin(resources::list(mcp, peer, &params)).await;
        }
        Method::ListTemplates => return lists::templates(mcp, peer, &params),
        Method::ReadResource => {
            return Box::pin(resources::read(mcp, peer, id, params)).await;
        }
        Method::ListPrompts => return lists::prompts(mcp, peer, &params),
        Method::GetPrompt => return Box::pin(prompts::get(mcp, peer, id, params)).await,
        Method::Complete => {
            return Box::pin(completion::complete(mcp, peer, id, params)).await;
        }
        Method::Subscribe => Box::pin(subscriptions::subscribe(mcp, peer, &params)).await?,
        Method::Unsubscribe => Box::pin(subscriptions::unsubscribe(mcp, peer, &params)).await?,
        Method::GetTask => return tasks::get(mcp, peer, &params),
        Method::UpdateTask => return tasks::update(mcp, peer, &params),
        Method::CancelTask => {
            return Box::pin(tasks::cancel(mcp, peer, &params)).await;
        }
        Method::Discover => handshake::discover(mcp, &peer.caller),
        Method::Ping => json!({}),
        Method::SetLogLevel => Box::pin(logging::set_level(mcp, peer, id, &params)).await?,
        // These are answered with a session, with a stream, and not at all.
        Method::Initialize | Method::Listen | Method::Cancelled => return Err(unknown()),
    };
    Ok(Answer::Value(with_ttl(era, LIST_TTL_MS, result)))
}
