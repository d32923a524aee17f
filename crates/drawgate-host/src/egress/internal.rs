//! The gateway itself, for programs in sandboxes that it runs as workers: a host of its own, which no
//! name server knows and no rule about hosts admits.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;

/// The name by which such a program reaches the gateway, at port 80.
pub const INTERNAL_HOST: &str = "drawgate.internal";
/// The port, since nothing of it leaves the machine and needs encryption.
pub(super) const INTERNAL_PORT: u16 = 80;

/// The way from one sandbox to the gateway.
pub trait Internal: Send + Sync + fmt::Debug + 'static {
    /// Opens a connection that the gateway serves. Must not block.
    fn connect(&self) -> DuplexStream;
}

/// What a connection of a sandbox leads to.
pub(super) enum Upstream {
    Network(TcpStream),
    Gateway(DuplexStream),
}

impl Upstream {
    /// Whether it may be silent for as long as it likes: the gateway has time limits of its own, and some
    /// of its answers wait for people.
    pub(super) const fn may_be_silent(&self) -> bool {
        match self {
            Self::Network(_) => false,
            Self::Gateway(_) => true,
        }
    }
}

impl AsyncRead for Upstream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Network(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Gateway(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Upstream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Network(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Gateway(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Network(stream) => Pin::new(stream).poll_flush(cx),
            Self::Gateway(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Network(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Gateway(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
