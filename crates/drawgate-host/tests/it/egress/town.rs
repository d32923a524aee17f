//! The town: a resolver that knows its names, one server behind all public addresses, and a count of
//! who was led to an inner address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use drawgate_host::egress::network::Network;
use drawgate_host::egress::ranges::is_public;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::answers;

/// The address of everybody in town.
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Clone)]
pub(super) struct Town(Arc<Inner>);

struct Inner {
    plain: SocketAddr,
    secure: SocketAddr,
    visits: Arc<AtomicUsize>,
    asked: AtomicUsize,
    breaches: AtomicUsize,
}

impl Town {
    /// A town with its server, which also speaks TLS, in the name of somebody else.
    pub(super) async fn start() -> Self {
        let visits = Arc::new(AtomicUsize::new(0));
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let secure = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let town = Self::at(plain.local_addr().unwrap(), secure.local_addr().unwrap(), &visits);
        tokio::spawn(async move {
            while let Ok((stream, _)) = plain.accept().await {
                visits.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream));
            }
        });
        let acceptor = acceptor();
        tokio::spawn(async move {
            while let Ok((stream, _)) = secure.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream).await;
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
        Self(Arc::new(Inner { plain, secure, visits, asked, breaches }))
    }

    pub(super) fn network(&self) -> Arc<dyn Network> {
        Arc::new(self.clone())
    }

    /// Where the server really is.
    pub(super) fn address(&self) -> SocketAddr {
        self.0.plain
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

fn acceptor() -> tokio_rustls::TlsAcceptor {
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ServerConfig, crypto::ring};
    let certificate = CertificateDer::from_pem_slice(include_bytes!("certificate.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Arc::new(config).into()
}

/// One connection: requests one after the other, each with its body if it says how long that is.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if !matches!(stream.read(&mut byte).await, Ok(1)) {
                return;
            }
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
        });
        let mut body = vec![0; length.unwrap_or(0)];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let answered = answers::answer(&mut stream, &head, &body).await;
        if answered.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}
