//! Sends the signed head of the audit log to places that this machine's user can't rewrite: the system
//! log and a URL. A log that was set back is then found by `drawgate audit verify --anchor`.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use drawgate_core::audit::SignedHead;
use drawgate_core::store::AuditLog;
use drawgate_host::Host;
use drawgate_host::egress::{Body, Reach};
use http::Request;
use tokio::sync::Mutex;

use crate::config;

/// How long the receiver may take.
const SEND_TIME: Duration = Duration::from_secs(5);
/// `authpriv.notice`, as the syslog protocol numbers it.
const PRIORITY: u8 = 10 * 8 + 5;

/// Where heads go. Without a place it does nothing.
pub struct Anchors {
    syslog: Option<PathBuf>,
    url: Option<String>,
    every: Duration,
    log: Arc<dyn AuditLog>,
    host: Arc<Host>,
    /// The newest sequence that was sent; held while sending, so that heads leave in order.
    sent: Mutex<Option<u64>>,
}

impl Anchors {
    /// As configured.
    #[must_use]
    pub fn new(config: &config::Audit, log: &Arc<dyn AuditLog>, host: &Arc<Host>) -> Self {
        Self {
            syslog: config.anchor_syslog.clone(),
            url: config.anchor_url.clone(),
            every: Duration::from_secs(config.anchor_every_seconds),
            log: Arc::clone(log),
            host: Arc::clone(host),
            sent: Mutex::default(),
        }
    }

    /// Sends the head now and from time to time.
    pub async fn follow(&self) {
        if self.syslog.is_none() && self.url.is_none() {
            return;
        }
        loop {
            self.send().await;
            tokio::time::sleep(self.every).await;
        }
    }

    /// Sends the head, unless it was sent already. What can't be sent is reported, and sent the next
    /// time.
    pub async fn send(&self) {
        if self.syslog.is_none() && self.url.is_none() {
            return;
        }
        let mut sent = self.sent.lock().await;
        let head = self.log.signed_head();
        if *sent == Some(head.sequence) {
            return;
        }
        let mut done = true;
        if let Some(path) = &self.syslog
            && let Err(error) = to_syslog(path, &head)
        {
            done = false;
            tracing::warn!(error = %error, path = %path.display(), "the audit log's head could not be sent to the system log");
        }
        if let Some(url) = &self.url
            && let Err(problem) = self.to_url(url, &head).await
        {
            done = false;
            tracing::warn!(problem, "the audit log's head could not be sent to `audit.anchor_url`");
        }
        if done {
            *sent = Some(head.sequence);
        }
    }

    async fn to_url(&self, url: &str, head: &SignedHead) -> Result<(), String> {
        let request = Request::post(url)
            .header("content-type", "application/json")
            .body(Body::from(Bytes::from(head.to_json())))
            .map_err(|error| error.to_string())?;
        // The operator wrote the address.
        let reach = Reach::own(request.uri());
        let deadline = Instant::now() + SEND_TIME;
        let answer = self.host.egress.request(request, &reach, deadline).await;
        match answer.map_err(|error| error.to_string())?.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("the answer was {status}")),
        }
    }
}

/// One datagram, which a full socket refuses instead of waiting.
fn to_syslog(path: &Path, head: &SignedHead) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(path)?;
    let pid = std::process::id();
    let line = format!("<{PRIORITY}>drawgate[{pid}]: audit head {}", head.to_json());
    socket.send(line.as_bytes()).map(drop)
}
