//! A future is copied when it is made and when it is boxed, and holds all that it waits for: one large
//! value in a rare branch costs every call.

use super::gateway::{CallOptions, Gateway};
use crate::model::{Caller, ToolInvocation};

/// Bytes that the future of a call may have.
const MOST: usize = 3072;

fn size_of_future<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn the_future_of_a_call_is_small() {
    type Parts = (&'static Gateway, &'static Caller, Box<ToolInvocation>, CallOptions);
    let size = size_of_future(|(gateway, caller, call, options): Parts| {
        gateway.call(caller, call, options)
    });
    assert!(size <= MOST, "the future of a call has {size} bytes; at most {MOST} are allowed");
}
