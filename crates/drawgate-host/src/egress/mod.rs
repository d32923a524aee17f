//! Outgoing HTTP: one place through which everything leaves.
//!
//! Every request says whom it may [reach]; a name is resolved once, its addresses are checked, and the
//! connection goes to a checked one. Sizes and times are bounded, and an error says whether the request
//! may have reached its server. What requests and answers mean is the caller's business.

#![expect(clippy::disallowed_methods, reason = "this is the one place that makes HTTP clients")]

pub mod address;
mod admit;
mod body;
mod client;
mod decode;
mod error;
pub mod events;
mod fetch;
mod head;
mod internal;
mod kept;
pub mod network;
mod parent;
pub mod proxy;
pub mod ranges;
pub mod reach;
mod redirect;
mod tls;
mod upgrade;

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use address::AddressError;
use admit::Allowed;
pub use body::{Chunks, read_body};
use bytes::Bytes;
pub use client::AnswerBody;
use client::{Client, ClientError};
use error::causes;
pub use error::{Detour, EgressError, Refusal};
pub use fetch::{Excerpt, Fetch, Fetched, Follow};
use head::{check_head, count_informational};
use http::{Request, Response, Uri, uri::Scheme};
use http_body_util::Full;
pub use internal::{INTERNAL_HOST, Internal};
use network::{DialError, Network, Scope, System};
pub use parent::ParentProxy;
use parking_lot::RwLock;
pub use proxy::RefusedHosts;
pub use reach::{Admission, HostRule, HostRuleError, Reach};
pub use redirect::location;
use tls::Trust;
pub use tls::{Authorities, AuthoritiesError};
use tokio::time::timeout_at;
pub use upgrade::{Upgrade, UpgradedStream};

/// How long the address of a name may be looked up. The system asks again after five seconds where a question or an
/// answer was lost.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(12);

/// How long a connection may take, once the address is known.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept: shorter than the five seconds after which common servers
/// close theirs, so that a request is rarely written into a closing connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A connection on which nothing moves is probed after this time, and given up after
/// [`PROBES`] probes without an answer: streams that are open for hours would not notice otherwise.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBES: u32 = 3;

/// Idle connections kept for each server.
const IDLE_PER_HOST: usize = 256;

/// The largest head of an answer, and the most headers in it.
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;

/// The body of a request.
pub type Body = Full<Bytes>;

/// The way out. Cheap to call from many tasks at once.
pub struct Egress {
    network: Arc<dyn Network>,
    allowed: Allowed,
    trust: RwLock<Arc<Trust>>,
    /// What the proxies of sandboxes go through.
    parent: RwLock<Option<ParentProxy>>,
    public: Client,
    anywhere: Client,
}

impl Egress {
    /// A client without connections.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Arc::new(System))
    }

    /// The same over another network than the operating system's.
    #[must_use]
    pub fn over(network: Arc<dyn Network>) -> Self {
        Self {
            public: Client::plain(Arc::clone(&network), Scope::Public),
            anywhere: Client::plain(Arc::clone(&network), Scope::Anywhere),
            network,
            allowed: Allowed::default(),
            trust: RwLock::default(),
            parent: RwLock::default(),
        }
    }

    /// What the operator allows everybody, in place of what was allowed before: these hosts may be
    /// reached wherever they are, by requests that may reach the whole internet and by those that name
    /// them.
    pub fn allow(&self, rules: Vec<HostRule>) {
        self.allowed.replace(rules);
    }

    /// Has programs in sandboxes go through a proxy of the operator's, in place of the one before.
    pub fn go_through(&self, parent: Option<ParentProxy>) {
        *self.parent.write() = parent;
    }

    /// Whom the operator trusts to vouch for servers, beside the authorities that the machine trusts,
    /// in place of who was named before. Connections that others vouched for are not used again.
    pub fn trust(&self, authorities: Authorities) {
        let mut trust = self.trust.write();
        if !trust.believes(&authorities) {
            *trust = Arc::new(Trust::new(authorities));
        }
    }

    /// Sends a request and waits for the head of the answer. Redirects are answers like any other.
    pub async fn request(
        &self,
        request: Request<Body>,
        reach: &Reach,
        deadline: Instant,
    ) -> Result<Response<AnswerBody>, EgressError> {
        self.exchange(request, reach, deadline, Purpose::Answer).await
    }

    /// Everything that goes out goes this way, so that every answer is held to the same rules.
    async fn exchange(
        &self,
        mut request: Request<Body>,
        reach: &Reach,
        deadline: Instant,
        purpose: Purpose,
    ) -> Result<Response<AnswerBody>, EgressError> {
        let uri = request.uri().clone();
        let client = self.client(&uri, reach)?;
        let chatter = count_informational(&mut request);
        // Both hold the request more than once, and everybody's futures hold theirs.
        let answer: Pin<Box<dyn Future<Output = _> + Send>> = match purpose {
            Purpose::Answer => Box::pin(client.request(request)),
            Purpose::Upgrade => Box::pin(client.upgrade(request)),
        };
        let answer = async {
            tokio::select! {
                answer = answer => answer.map_err(|error| explain(&uri, &error)),
                error = chatter => Err(error),
            }
        };
        let answer =
            timeout_at(deadline.into(), answer).await.unwrap_or(Err(EgressError::Deadline))?;
        check_head(answer.headers())?;
        Ok(answer)
    }

    /// The client for an address that may be reached.
    fn client(&self, uri: &Uri, reach: &Reach) -> Result<Client, EgressError> {
        let scope = self.allowed.admit(uri, reach)?;
        if uri.scheme() != Some(&Scheme::HTTP) {
            let trust = Arc::clone(&self.trust.read());
            return trust.client(scope, &self.network).map_err(EgressError::Tls);
        }
        Ok(match scope {
            Scope::Public => self.public.clone(),
            Scope::Anywhere => self.anywhere.clone(),
        })
    }
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Answer,
    /// A connection that becomes something else.
    Upgrade,
}

impl Default for Egress {
    fn default() -> Self {
        Self::new()
    }
}

fn explain(uri: &Uri, error: &ClientError) -> EgressError {
    let authority = || uri.authority().map(ToString::to_string).unwrap_or_default();
    let causes = || causes(error);
    if let Some(dial) = causes().find_map(|cause| cause.downcast_ref::<DialError>()) {
        return dial.explain(authority());
    }
    if let Some(error) = causes().find_map(tls_error) {
        return EgressError::Tls(tls::explain(&authority(), error));
    }
    let reason = causes().last().map_or_else(|| error.to_string(), ToString::to_string);
    match error {
        ClientError::Connect(_) => EgressError::Connect { authority: authority(), reason },
        ClientError::Exchange(error) if error.is_parse() => EgressError::Protocol(reason),
        ClientError::Exchange(_) => EgressError::Lost(reason),
    }
}

/// TLS errors come inside those of input and output, which hide them from the chain of causes.
fn tls_error<'a>(mut cause: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    while let Some(inner) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        cause = inner;
    }
    cause.downcast_ref()
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
