//! Certificates of the town's server: the right one for most names, and wrong ones for some.
//!
//! All are of one key. `authority.pem` vouches for all but `foreign.pem`; those that are valid are so
//! until 2120.

use std::sync::Arc;

use drawgate_host::egress::Authorities;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::{ServerConfig, sign::CertifiedKey};

/// Who vouches for the town.
pub(super) fn authority() -> Authorities {
    Authorities::from_pem(include_bytes!("certificates/authority.pem")).unwrap()
}

/// A server that has all of them.
pub(super) fn acceptor() -> TlsAcceptor {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ByName));
    Arc::new(config).into()
}

#[derive(Debug)]
struct ByName;

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let pem: &[u8] = match hello.server_name()? {
            "expired.tg.test" => include_bytes!("certificates/expired.pem"),
            "early.tg.test" => include_bytes!("certificates/early.pem"),
            "foreign.tg.test" => include_bytes!("certificates/foreign.pem"),
            "wrongname.tg.test" => include_bytes!("certificates/elsewhere.pem"),
            _ => include_bytes!("certificates/server.pem"),
        };
        let certificate = CertificateDer::from_pem_slice(pem).unwrap();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("certificates/key.pem")).unwrap();
        let provider = ring::default_provider();
        CertifiedKey::from_der(vec![certificate], key, &provider).ok().map(Arc::new)
    }
}
