//! The plain hop: a proxy that forwards method, path, headers and body, and streams the answer back.
//!
//! It is the floor for anything that stands between a client and a server: one more pair of sockets
//! and no duty at all.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use http::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::listen;

/// Options of the role `hop`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Address of the server to forward to, as `HOST:PORT`
    #[arg(long)]
    to: String,
}

struct Hop {
    client: Client<HttpConnector, Incoming>,
    authority: String,
}

/// Forwards until killed.
pub(crate) async fn main(args: Args) -> Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let hop = Arc::new(Hop { client, authority: args.to });
    listen::serve(args.listen, move |request| forward(Arc::clone(&hop), request)).await
}

async fn forward(hop: Arc<Hop>, mut request: Request<Incoming>) -> Result<Response<Incoming>> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = Uri::builder()
        .scheme("http")
        .authority(hop.authority.as_str())
        .path_and_query(path)
        .build()?;
    // These belong to one connection, not to the message; the client sets its own.
    for name in [CONNECTION, HOST, TRANSFER_ENCODING] {
        request.headers_mut().remove(name);
    }
    hop.client.request(request).await.with_context(|| format!("no answer from `{}`", hop.authority))
}
