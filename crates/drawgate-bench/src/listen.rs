//! The HTTP server loop that the upstream and the hop share.
//!
//! Both must have the same cost here, so that a difference between two paths is never a difference
//! between two accept loops.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// What the line that names the bound address begins with.
pub(crate) const LISTENING: &str = "listening ";

/// Binds, prints `listening ADDRESS`, and answers every request with `handler` until killed.
pub(crate) async fn serve<F, Fut, B>(address: SocketAddr, handler: F) -> Result<()>
where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<Response<B>>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("can not bind `{address}`; choose another `--listen`"))?;
    println!("{LISTENING}{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let handler = handler.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(handler.clone(), request));
            let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            if let Err(error) = served.await
                && !error.is_incomplete_message()
            {
                eprintln!("a connection failed: {error}");
            }
        });
    }
}

/// Turns the handler's error into one that hyper can close the connection with.
async fn answer<F, Fut, B>(
    handler: F,
    request: Request<Incoming>,
) -> Result<Response<B>, Box<dyn Error + Send + Sync>>
where
    F: Fn(Request<Incoming>) -> Fut,
    Fut: Future<Output = Result<Response<B>>>,
{
    handler(request).await.map_err(Into::into)
}
