//! Whole messages to and from a server, whatever carries them.
//!
//! A transport gives a [`Link`](super::Link) one writer and one reader.

use drawgate_core::source::SourceError;

/// Carries messages to the server, one after the other.
pub trait MessageWriter: Send + 'static {
    /// Sends one message, which is a whole JSON text without an end of line.
    fn send(&mut self, message: Vec<u8>) -> impl Future<Output = SendOutcome> + Send;

    /// Says farewell, where the transport has a word for it. The caller bounds its time.
    fn close(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// What became of a message to the server.
#[derive(Debug)]
pub enum SendOutcome {
    /// It is on its way.
    Sent,
    /// The server did not take this one; others may pass.
    Refused(SourceError),
    /// Nothing can be sent any more.
    Over(Option<String>),
}

/// Brings messages from the server.
pub trait MessageReader: Send + 'static {
    /// Waits for the next message and puts it into `buffer`. The transport bounds its size.
    fn next(&mut self, buffer: &mut Vec<u8>) -> impl Future<Output = Received> + Send;
}

/// What came from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A message is in the buffer.
    Message,
    /// Something other than a message, which is ignored.
    Noise,
    /// A message that was longer than allowed, and is lost.
    TooLong,
    /// Nothing more comes, for this reason if the transport knows one.
    End(Option<String>),
}
