//! Opens the authenticator of packs and agents.

use std::sync::Arc;

use drawgate_core::store::AuditLog;
use drawgate_host::Host;
use drawgate_host::store::DataDir;

use super::Start;
use crate::config::{Auth, Loaded};
use crate::peers::{self, KeyFile, PeerAuthenticator, PeerAuthenticatorParts};

/// The file with the gateway's own key.
const IDENTITY: &str = "identity.key";

/// Opens the authenticator with the keys of the data folder. A gateway that starts its sources also
/// follows edits of them.
pub(super) fn open(
    loaded: &Loaded,
    dir: &DataDir,
    host: &Host,
    audit: &Arc<dyn AuditLog>,
    start: Start,
) -> anyhow::Result<Arc<PeerAuthenticator>> {
    let config = &loaded.config;
    let parts = PeerAuthenticatorParts {
        // An absolute path stays as it is.
        keys: KeyFile::new(dir.path().join(&config.grpc.keys)).with_home(host.secrets.home()),
        identity: dir.file(IDENTITY),
        reserved: config.auth.as_ref().map(|auth: &Auth| auth.principal_prefix.clone()),
        audit: audit.clone(),
        clock: Arc::clone(&host.clock),
        ids: Arc::clone(&host.ids),
    };
    let authenticator = PeerAuthenticator::open(parts)?;
    if start == Start::Sources {
        tokio::spawn(peers::follow(Arc::downgrade(&authenticator)));
    }
    Ok(authenticator)
}
