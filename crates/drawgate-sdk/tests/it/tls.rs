//! TLS between a pack and a gateway.
//!
//! `server.pem` is for `localhost` and vouched for by `authority.pem`; `stranger.pem` vouches for
//! nobody. All are valid for a hundred years.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use drawgate_sdk::{ConnectionError, Event, Gateway, Pack, PackClient};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::fake::{Fake, key};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/certificates").join(name)
}

fn acceptor(protocols: &[&str]) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = vec![CertificateDer::from_pem_file(file("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// How the first attempt fails.
async fn failure(gateway: Gateway) -> String {
    let (events, mut told) = mpsc::unbounded_channel();
    let client = PackClient::new(gateway, key()).observe(move |event| {
        let (Event::Lost { error, .. } | Event::Refused { error }) = event else { return };
        let kind = match error {
            ConnectionError::Certificate { .. } => "certificate",
            ConnectionError::Roots { .. } => "roots",
            ConnectionError::Protocol { .. } => "protocol",
            ConnectionError::Dial { .. } => "dial",
            _ => "else",
        };
        events.send(format!("{kind}: {error}")).unwrap();
    });
    let serving = tokio::spawn(async move { client.serve(Pack::new("p", "1")).await });
    let failure = told.recv().await.unwrap();
    serving.abort();
    failure
}

#[tokio::test]
async fn a_gateway_with_a_good_certificate_is_served() {
    let mut fake = Fake::start_with(Some(acceptor(&["h2"]))).await;
    let url = format!("https://localhost:{}", fake.port());
    let gateway = Gateway::at(&url).unwrap().ca_file(file("authority.pem"));
    let client = PackClient::new(gateway.identity(fake.identity()), key());
    let serving = tokio::spawn(async move { client.serve(Pack::new("p", "1")).await });
    assert_eq!(fake.packs.recv().await.unwrap().manifest.pack_id, "p");
    serving.abort();
}

#[tokio::test]
async fn a_gateway_that_is_not_vouched_for_gets_nothing() {
    let fake = Fake::start_with(Some(acceptor(&["h2"]))).await;
    let port = fake.port();
    let cases = [
        (format!("https://localhost:{port}"), Some("stranger.pem"), "certificate: "),
        (format!("https://127.0.0.1:{port}"), Some("authority.pem"), "certificate: "),
        (format!("https://localhost:{port}"), Some("absent.pem"), "roots: "),
        (format!("https://localhost:{port}"), Some("server.key"), "roots: "),
        (format!("http://localhost:{port}"), None, "protocol: "),
    ];
    for (url, ca_file, expected) in cases {
        let gateway = Gateway::at(&url).unwrap();
        let gateway = match ca_file {
            Some(name) => gateway.ca_file(file(name)),
            None => gateway,
        };
        let failure = failure(gateway).await;
        assert!(failure.starts_with(expected), "{url} {ca_file:?}: {failure}");
    }
    assert_eq!(fake.logins(), [""; 0]);
}

#[tokio::test]
async fn a_server_without_http2_is_told_apart() {
    let fake = Fake::start_with(Some(acceptor(&[]))).await;
    let url = format!("https://localhost:{}", fake.port());
    let failure = failure(Gateway::at(&url).unwrap().ca_file(file("authority.pem"))).await;
    assert!(failure.starts_with("protocol: "), "{failure}");
}
