//! The town: a resolver that knows its names, one server behind all public addresses, and a count of
//! who was led to an inner address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use drawgate_host::egress::network::Network;
use drawgate_host::egress::ranges::is_public;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::{answers, certificates};

/// The address of everybody in town.
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Clone)]
pub(super) struct Town(Arc<Inner>);

struct Inner {
    plain: SocketAddr,
    secure: SocketAddr,
    visits: Arc<AtomicUsize>,
    ledger: Arc<Ledger>,
    asked: AtomicUsize,
    breaches: AtomicUsize,
}

/// What the server has seen and done.
#[derive(Default)]
pub(super) struct Ledger {
    heads: Mutex<Vec<String>>,
    arrived: Notify,
    /// Pieces that it has written, of what comes in pieces.
    pub(super) pieces: AtomicUsize,
}

impl Town {
    /// A town with its server, which also speaks TLS, by the certificates of `certificates.rs`.
    pub(super) async fn start() -> Self {
        let visits = Arc::new(AtomicUsize::new(0));
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let secure = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let town = Self::at(plain.local_addr().unwrap(), secure.local_addr().unwrap(), &visits);
        let ledger = Arc::clone(&town.0.ledger);
        tokio::spawn(async move {
            while let Ok((stream, _)) = plain.accept().await {
                visits.fetch_add(1, Ordering::SeqCst);
                let ledger = Arc::clone(&ledger);
                tokio::spawn(async move { serve(stream, &ledger).await });
            }
        });
        let (acceptor, ledger) = (certificates::acceptor(), Arc::clone(&town.0.ledger));
        tokio::spawn(async move {
            while let Ok((stream, _)) = secure.accept().await {
                let (acceptor, ledger) = (acceptor.clone(), Arc::clone(&ledger));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, &ledger).await;
                    }
                });
            }
        });
        town
    }

    /// Names without anybody behind them.
    pub(super) fn deserted() -> Self {
        let nobody = SocketAddr::new(LOOPBACK, 1);
        Self::at(nobody, nobody, &Arc::default())
    }

    fn at(plain: SocketAddr, secure: SocketAddr, visits: &Arc<AtomicUsize>) -> Self {
        let visits = Arc::clone(visits);
        let (asked, breaches) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let ledger = Arc::default();
        Self(Arc::new(Inner { plain, secure, visits, ledger, asked, breaches }))
    }

    pub(super) fn network(&self) -> Arc<dyn Network> {
        Arc::new(self.clone())
    }

    /// Where the server really is.
    pub(super) fn address(&self) -> SocketAddr {
        self.0.plain
    }

    /// The heads of all requests that the server has read.
    pub(super) fn heads(&self) -> Vec<String> {
        self.0.ledger.heads.lock().clone()
    }

    /// Waits for a request.
    pub(super) async fn arrival(&self) {
        self.0.ledger.arrived.notified().await;
    }

    /// Pieces that the server has written, of what comes in pieces.
    pub(super) fn pieces(&self) -> usize {
        self.0.ledger.pieces.load(Ordering::SeqCst)
    }

    /// Connections that the server has seen.
    pub(super) fn visits(&self) -> usize {
        self.0.visits.load(Ordering::SeqCst)
    }

    /// Connections to inner addresses that nobody was allowed.
    pub(super) fn breaches(&self) -> usize {
        self.0.breaches.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Network for Town {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let addresses = match name {
            "slowdns.tg.test" => std::future::pending().await,
            "nowhere.tg.test" => vec![],
            "inner.tg.test" | "127.0.0.1.tg.test" | "cname.tg.test" => vec![LOOPBACK],
            "mixed.tg.test" => vec![PUBLIC, LOOPBACK],
            "rebind.tg.test" => {
                let first = self.0.asked.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
                vec![if first { PUBLIC } else { LOOPBACK }]
            }
            _ => vec![PUBLIC],
        };
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let Inner { plain, secure, breaches, .. } = &*self.0;
        if !is_public(address.ip()) {
            // Tests that allow an inner host count its visits instead.
            breaches.fetch_add(1, Ordering::SeqCst);
        }
        TcpStream::connect(if address.port() == 443 { secure } else { plain }).await
    }
}

/// One connection: requests one after the other, each with its body if it says how long that is.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, ledger: &Ledger) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if !matches!(stream.read(&mut byte).await, Ok(1)) {
                return;
            }
            head.extend(byte);
            // The first byte of TLS, which is spoken elsewhere.
            if head == [0x16] {
                let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
                return;
            }
        }
        let head = String::from_utf8(head).unwrap();
        ledger.heads.lock().push(head.clone());
        ledger.arrived.notify_one();
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
        });
        let mut body = vec![0; length.unwrap_or(0)];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let answered = answers::answer(&mut stream, &head, &body, ledger).await;
        if answered.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}
