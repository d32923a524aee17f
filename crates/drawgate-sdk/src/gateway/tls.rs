//! TLS towards the gateway: rustls with ring, HTTP/2 only.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{ConnectionError, Gateway};

const HTTP2: &[u8] = b"h2";

/// Speaks TLS on a fresh connection.
pub(super) async fn handshake(
    gateway: &Gateway,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, ConnectionError> {
    let authority = gateway.authority();
    let name = ServerName::try_from(gateway.address.host().to_owned()).map_err(|error| {
        ConnectionError::Certificate { authority: authority.to_owned(), reason: error.to_string() }
    })?;
    let connector = TlsConnector::from(Arc::new(config(gateway.ca_file.as_ref())?));
    let stream =
        connector.connect(name, stream).await.map_err(|error| explained(authority, &error))?;
    if stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
        return Err(ConnectionError::Protocol {
            authority: authority.to_owned(),
            reason: "it did not agree to HTTP/2".to_owned(),
        });
    }
    Ok(stream)
}

fn config(ca_file: Option<&PathBuf>) -> Result<ClientConfig, ConnectionError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectionError::roots(ca_file, &error))?
        .with_root_certificates(roots(ca_file)?)
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(config)
}

fn roots(ca_file: Option<&PathBuf>) -> Result<RootCertStore, ConnectionError> {
    let mut store = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            let bad = |error: &dyn ToString| ConnectionError::roots(ca_file, error);
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))? {
                let certificate = certificate.map_err(|error| bad(&error))?;
                store.add(certificate).map_err(|error| bad(&error))?;
            }
        }
        None => {
            // Some systems carry certificates that cannot be read; the others still count.
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if store.is_empty() {
        return Err(ConnectionError::roots(ca_file, &"there are none"));
    }
    Ok(store)
}

/// A certificate that is refused once is refused again; all else may pass.
fn explained(authority: &str, error: &io::Error) -> ConnectionError {
    let authority = authority.to_owned();
    let certificate = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match certificate {
        Some(reason @ rustls::Error::InvalidCertificate(_)) => {
            ConnectionError::Certificate { authority, reason: reason.to_string() }
        }
        _ => ConnectionError::Dial { authority, reason: error.to_string() },
    }
}
