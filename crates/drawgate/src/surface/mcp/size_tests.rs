//! Futures are copied when they are made and when they are boxed, and each holds all that it waits for:
//! one large value in a rare branch costs every call.

use std::sync::LazyLock;

use ::http::Request;
use axum::body::Body;
use drawgate_runtime::callers::Identity;
use serde_json::{Map, Value};

use super::caller::peer::Peer;
use super::methods::{self, tools};
use super::wire::message::RequestId;
use super::wire::method::MethodName;
use super::{Mcp, Transport, handle};

/// Bytes that a future on the way of a call may have.
const MOST: usize = 4096;

fn size_of_future<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn the_futures_of_a_call_are_small() {
    type Parts = (&'static Mcp, &'static Peer, &'static RequestId, Map<String, Value>);
    static CALL: LazyLock<MethodName> = LazyLock::new(|| MethodName::new("tools/call".to_owned()));
    type Whole = (&'static Mcp, Identity, Request<Body>);
    let request = size_of_future(|(mcp, identity, request): Whole| {
        handle(mcp, identity, Transport::Http, request)
    });
    let dispatch = size_of_future(|(mcp, peer, id, params): Parts| {
        methods::dispatch(mcp, peer, id, &CALL, params)
    });
    let tool = size_of_future(|(mcp, peer, id, params): Parts| tools::tool(mcp, peer, id, params));
    let sizes = [("handle", request), ("dispatch", dispatch), ("tools::tool", tool)];
    let large: Vec<_> = sizes.iter().filter(|(_, size)| *size > MOST).collect();
    assert!(large.is_empty(), "futures of more than {MOST} bytes: {large:?}, all: {sizes:?}");
}
