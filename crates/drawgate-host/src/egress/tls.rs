//! By which certificates servers are believed, and what is said of those that are not.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_native_certs::{CertificateResult, ErrorKind, load_native_certs};

use super::client::Client;
use super::network::{Network, Scope};

/// Certificates of authorities that an operator trusts beside those of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authorities(Vec<CertificateDer<'static>>);

/// Why a file holds no authorities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthoritiesError {
    /// It is something else.
    #[error("it holds no certificate; they begin with `-----BEGIN CERTIFICATE-----`")]
    Empty,
    /// One of its certificates is none.
    #[error("its certificate number {0} can't be read; leave it out or get it anew")]
    Damaged(usize),
}

impl Authorities {
    /// Reads certificates in PEM form. Other things between them, such as comments, are passed over.
    pub fn from_pem(text: &[u8]) -> Result<Self, AuthoritiesError> {
        let mut all = Vec::new();
        for (index, read) in CertificateDer::pem_slice_iter(text).enumerate() {
            let damaged = || AuthoritiesError::Damaged(index + 1);
            let certificate = read.map_err(|_| damaged())?;
            RootCertStore::empty().add(certificate.clone()).map_err(|_| damaged())?;
            all.push(certificate);
        }
        if all.is_empty() { Err(AuthoritiesError::Empty) } else { Ok(Self(all)) }
    }
}

/// The clients for `https`. All that believe the same authorities are here, so that no connection
/// outlives the trust in who made it.
#[derive(Default)]
pub(super) struct Trust {
    authorities: Authorities,
    kept: Mutex<Kept>,
}

/// What was made of certificates that could all be read.
#[derive(Default)]
struct Kept {
    config: Option<ClientConfig>,
    public: Option<Client>,
    anywhere: Option<Client>,
}

impl Trust {
    pub(super) fn new(authorities: Authorities) -> Self {
        Self { authorities, ..Self::default() }
    }

    /// Whether these are the authorities beside those of the machine.
    pub(super) fn believes(&self, authorities: &Authorities) -> bool {
        self.authorities == *authorities
    }

    /// The client of a scope. Reading the machine's certificates takes milliseconds, and many gateways
    /// never need them.
    pub(super) fn client(
        &self,
        scope: Scope,
        network: &Arc<dyn Network>,
    ) -> Result<Client, String> {
        self.client_by(scope, network, load_native_certs)
    }

    fn client_by(
        &self,
        scope: Scope,
        network: &Arc<dyn Network>,
        load: impl FnOnce() -> CertificateResult,
    ) -> Result<Client, String> {
        let mut kept = self.kept.lock();
        let Kept { config, public, anywhere } = &mut *kept;
        let client = match scope {
            Scope::Public => public,
            Scope::Anywhere => anywhere,
        };
        if let Some(client) = client {
            return Ok(client.clone());
        }
        let secure = |config| Client::secure(Arc::clone(network), scope, config);
        let config = if let Some(config) = config {
            config.clone()
        } else {
            let CertificateResult { certs, errors, .. } = load();
            for error in &errors {
                tracing::warn!(%error, "certificates of this machine can't be read");
            }
            let made = believing(certs, &self.authorities)?;
            if errors.iter().any(may_pass) {
                return Ok(secure(made));
            }
            config.insert(made).clone()
        };
        Ok(client.insert(secure(config)).clone())
    }
}

/// Whether the next look may find more, such as when there are files to be opened again. Old machines
/// have certificates that nobody can read, now or later; the others will do.
fn may_pass(error: &rustls_native_certs::Error) -> bool {
    match &error.kind {
        ErrorKind::Io { inner, .. } => {
            !matches!(inner.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        }
        ErrorKind::Pem(_) => false,
        _ => true,
    }
}

fn believing(
    certificates: Vec<CertificateDer<'static>>,
    authorities: &Authorities,
) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    roots.add_parsable_certificates(authorities.0.iter().cloned());
    if roots.is_empty() {
        let advice = "install `ca-certificates`, or name a file in `[egress] ca_file`";
        return Err(format!("this machine has no certificates to check servers by; {advice}"));
    }
    let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

/// What is wrong with a server, in words for who has to put it right.
pub(super) fn explain(authority: &str, error: &rustls::Error) -> String {
    use CertificateError as Reason;
    let reason = match error {
        rustls::Error::InvalidCertificate(reason) => reason,
        rustls::Error::InvalidMessage(_) => return format!("`{authority}` does not speak TLS"),
        _ => return format!("`{authority}`: {error}"),
    };
    let why = match reason {
        Reason::Expired | Reason::ExpiredContext { .. } => "has expired".to_owned(),
        Reason::NotValidYet | Reason::NotValidYetContext { .. } => {
            "is not valid yet, by the clock of this machine".to_owned()
        }
        Reason::NotValidForName | Reason::NotValidForNameContext { .. } => {
            "is one for other names".to_owned()
        }
        // It names an authority that is trusted here, or one of the same name, and is not from it.
        Reason::UnknownIssuer
        | Reason::BadSignature
        | Reason::UnsupportedSignatureAlgorithmContext { .. }
        | Reason::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is from an authority that is not trusted here; an operator can name it in `[egress] ca_file`"
                .to_owned()
        }
        Reason::Revoked => "was revoked".to_owned(),
        other => format!("can't be accepted: {other}"),
    };
    format!("the certificate of `{authority}` {why}")
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
