//! Futures are copied when they are made and when they are boxed, and each holds all that it waits for:
//! one large value in a rare branch costs every call.

use drawgate_core::source::{CallContext, PermittedCall};

use super::calls::first_turn;
use super::wire::Form;
use super::{McpSource, Peer};

/// Bytes that the future of a call may have.
const MOST: usize = 3072;

fn size_of_future<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn the_futures_of_a_call_are_small() {
    type Call = (&'static PermittedCall, &'static CallContext);
    let perform =
        size_of_future(|(source, (call, cx)): (&'static McpSource, Call)| source.perform(call, cx));
    let converse =
        size_of_future(|(source, peer, (call, cx)): (&'static McpSource, &'static Peer, Call)| {
            source.converse(peer, call, cx)
        });
    let turn = size_of_future(|(peer, (call, cx)): (&'static Peer, Call)| {
        first_turn(peer, call, Form::Plain(None), cx)
    });
    let begin = size_of_future(|(peer, (call, cx)): (&'static Peer, Call)| {
        peer.begin(call, Form::Plain(None), cx)
    });
    let answer = size_of_future(|exchange: &'static mut super::exchange::Exchange| exchange.turn());
    let sizes = [
        ("perform", perform),
        ("converse", converse),
        ("first_turn", turn),
        ("begin", begin),
        ("turn", answer),
    ];
    let large: Vec<_> = sizes.iter().filter(|(_, size)| *size > MOST).collect();
    assert!(large.is_empty(), "futures of more than {MOST} bytes: {large:?}, all: {sizes:?}");
}
