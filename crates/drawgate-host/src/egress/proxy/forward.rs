//! Requests with an absolute `http` address, each over a connection of its own.

use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Scheme, Uri};
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::tunnel::Counted;
use super::{Answer, IDLE_TIME, Proxy, Seat};
use crate::egress::address::{AddressError, bare_host, port};
use crate::egress::error::EgressError;
use crate::egress::head::{check_head, count_informational};
use crate::egress::{MAX_HEAD, MAX_HEADERS};

/// Headers that are meant for the next hop only.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];
/// The same, in the words of old programs.
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

impl Proxy {
    pub(super) async fn forward(
        &self,
        mut request: Request<Incoming>,
        seat: Seat,
    ) -> Result<Answer, EgressError> {
        let uri = request.uri().clone();
        let authority = check(&uri)?;
        let host = bare_host(&uri).unwrap_or_default();
        let upstream = self.connect(host, port(&uri)).await?;
        let patience = if upstream.may_be_silent() { Duration::MAX } else { IDLE_TIME };
        let (upstream, moved) = Counted::new(upstream);
        let lost = |error: hyper::Error| EgressError::Lost(error.to_string());
        let (mut sender, connection) = http1::Builder::new()
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEAD)
            .handshake(TokioIo::new(upstream))
            .await
            .map_err(lost)?;
        let stop = self.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = moved.idle() => {}
                // What matters of its end, the program sees.
                _ended = connection => {}
            }
            drop(seat);
        });
        drop_hop_by_hop(request.headers_mut());
        // What was checked is what is asked for, whatever the program wrote beside it.
        request.headers_mut().insert(header::HOST, authority);
        *request.version_mut() = Version::HTTP_11;
        let path = uri.path_and_query().cloned();
        *request.uri_mut() = path.unwrap_or(PathAndQuery::from_static("/")).into();
        let chatter = count_informational(&mut request);
        let answer = tokio::select! {
            answer = timeout(patience, sender.send_request(request)) => answer,
            error = chatter => return Err(error),
        };
        let mut answer = answer.map_err(|_| EgressError::Deadline)?.map_err(lost)?;
        check_head(answer.headers())?;
        if answer.status().is_informational() {
            return Err(EgressError::Protocol("it changes the protocol unasked".to_owned()));
        }
        drop_hop_by_hop(answer.headers_mut());
        Ok(answer.map(http_body_util::BodyExt::boxed))
    }
}

fn check(uri: &Uri) -> Result<HeaderValue, EgressError> {
    if uri.scheme() != Some(&Scheme::HTTP) {
        let scheme = uri.scheme_str().ok_or(AddressError::Malformed("it is not absolute"))?;
        return Err(AddressError::Scheme(scheme.chars().take(20).collect()).into());
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err(AddressError::Userinfo.into());
    }
    let bad = |_| AddressError::Malformed("its host can't be read");
    Ok(HeaderValue::from_str(authority).map_err(bad)?)
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP).chain([&PROXY_CONNECTION]) {
        headers.remove(name);
    }
}
