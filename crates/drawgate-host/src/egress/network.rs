//! Connections: a name is resolved once, every address in the answer is checked, and only those
//! addresses are connected to.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::error::{EgressError, Refusal};
use super::ranges::{is_inner, is_public};
use super::{CONNECT_TIMEOUT, LOOKUP_TIMEOUT, PROBE_AFTER, PROBES};

/// How long an address may be silent before the next one is tried beside it.
const STAGGER: Duration = Duration::from_millis(250);
/// Addresses of one name that are tried.
const MAX_TRIED: usize = 8;

/// Names and connections, as the operating system has them. Tests put others in its place.
///
/// What it resolves is checked before it is asked to connect.
#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// All addresses of a name.
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>>;

    /// Connects to one address.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;

    /// Whether an address is open to requests that may reach the public internet alone.
    fn is_open(&self, address: IpAddr) -> bool {
        is_public(address)
    }
}

/// Lookups that are under way in this process, whose answer all share who ask for the same name meanwhile. A
/// package manager opens dozens of connections at once, and resolvers drop bursts of questions.
static LOOKUPS: Lookups = Lookups(Mutex::new(BTreeMap::new()));

struct Lookups(Mutex<BTreeMap<(String, u16), Weak<Answer>>>);

type Answer = OnceCell<Vec<SocketAddr>>;

impl Lookups {
    /// Waits for the lookup of this name that is under way. Without one, or where it fails, runs `look_up`.
    async fn shared(
        &self,
        name: &str,
        port: u16,
        look_up: impl Future<Output = io::Result<Vec<SocketAddr>>>,
    ) -> io::Result<Vec<SocketAddr>> {
        let answer = self.under_way(name, port);
        answer.get_or_try_init(|| look_up).await.cloned()
    }

    fn under_way(&self, name: &str, port: u16) -> Arc<Answer> {
        let mut all = self.0.lock();
        all.retain(|_, answer| answer.strong_count() > 0);
        let key = (name.to_owned(), port);
        if let Some(answer) = all.get(&key).and_then(Weak::upgrade) {
            return answer;
        }
        let answer = Arc::default();
        all.insert(key, Arc::downgrade(&answer));
        answer
    }
}

/// The operating system's.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

#[async_trait]
impl Network for System {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let look_up = async { Ok(tokio::net::lookup_host((name, port)).await?.collect()) };
        LOOKUPS.shared(name, port, look_up).await
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}

/// The operating system's, where a name may point to any address but one of this machine or of a network
/// around it: for what fetches from registries, which some networks mirror at addresses that are not public.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mirrored;

#[async_trait]
impl Network for Mirrored {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        System.resolve(name, port).await
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        System.connect(address).await
    }

    fn is_open(&self, address: IpAddr) -> bool {
        !is_inner(address)
    }
}

/// Which addresses a connection may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Those of the public internet.
    Public,
    /// All.
    Anywhere,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("its address is one of this machine or of a private network")]
    Private,
    #[error("the name can't be resolved")]
    Unknown,
    #[error("{0}")]
    Failed(String),
    #[error("it took too long")]
    Slow,
}

impl DialError {
    /// The same, for who wanted to reach host and port.
    pub(super) fn explain(&self, authority: String) -> EgressError {
        match self {
            Self::Private => EgressError::Refused { host: authority, reason: Refusal::Private },
            Self::Slow => EgressError::Slow(authority),
            Self::Unknown | Self::Failed(_) => {
                EgressError::Connect { authority, reason: self.to_string() }
            }
        }
    }
}

/// Connects to a host, which is an address or a name.
pub(super) async fn dial(
    network: &Arc<dyn Network>,
    host: &str,
    port: u16,
    scope: Scope,
) -> Result<TcpStream, DialError> {
    let looked_up = timeout(LOOKUP_TIMEOUT, resolve(network.as_ref(), host, port)).await;
    let addresses = looked_up.unwrap_or(Err(DialError::Slow))?;
    let work = async {
        // One inner address among public ones is enough: somebody wants to be let in by chance.
        if scope == Scope::Public && !addresses.iter().all(|address| network.is_open(address.ip()))
        {
            return Err(DialError::Private);
        }
        let stream = race(network, addresses).await?;
        tune(&stream).map_err(|error| DialError::Failed(error.to_string()))?;
        Ok(stream)
    };
    timeout(CONNECT_TIMEOUT, work).await.unwrap_or(Err(DialError::Slow))
}

async fn resolve(
    network: &dyn Network,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, DialError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let addresses = network.resolve(host, port).await.unwrap_or_default();
    if addresses.is_empty() { Err(DialError::Unknown) } else { Ok(addresses) }
}

/// Tries the addresses in their order, the next when one fails or is slow.
async fn race(
    network: &Arc<dyn Network>,
    addresses: Vec<SocketAddr>,
) -> Result<TcpStream, DialError> {
    let mut waiting = addresses.into_iter().take(MAX_TRIED);
    let mut trying = JoinSet::new();
    let mut last = DialError::Unknown;
    loop {
        let more = waiting.next();
        if let Some(address) = more {
            let network = Arc::clone(network);
            trying.spawn(async move { network.connect(address).await });
        }
        tokio::select! {
            () = sleep(STAGGER), if more.is_some() => {}
            ended = trying.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => last = DialError::Failed(error.to_string()),
                Some(Err(_)) => last = DialError::Failed("the attempt broke off".to_owned()),
                None => return Err(last),
            },
        }
    }
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    // Without it, the kernel holds a small request back for up to 40 ms.
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn lookups_of_a_name_at_one_time_are_one() {
        let lookups = Arc::new(Lookups(Mutex::default()));
        let (asked, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let address: SocketAddr = "192.0.2.7:443".parse().unwrap();
        let mut asking = JoinSet::new();
        for _ in 0..50 {
            let (lookups, asked, gate) =
                (Arc::clone(&lookups), Arc::clone(&asked), Arc::clone(&gate));
            asking.spawn(async move {
                let look_up = async {
                    let is_first = asked.fetch_add(1, Ordering::Relaxed) == 0;
                    let _open = gate.acquire().await.unwrap();
                    // A lookup that fails is made again for those who waited for it.
                    if is_first { Err(io::ErrorKind::TimedOut.into()) } else { Ok(vec![address]) }
                };
                lookups.shared("registry.example", 443, look_up).await
            });
        }
        while lookups.0.lock().values().next().is_none_or(|answer| answer.strong_count() < 50) {
            tokio::task::yield_now().await;
        }
        gate.add_permits(1);
        let answers = asking.join_all().await;
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        let good = answers.iter().filter_map(|answer| answer.as_ref().ok());
        assert_eq!(good.filter(|found| ***found == [address]).count(), 49);
        assert!(lookups.0.lock().values().all(|answer| answer.strong_count() == 0));
    }
}
