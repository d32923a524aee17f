//! Edits of the list take effect while the gateway runs.

use std::sync::Weak;
use std::time::Duration;

use super::PeerAuthenticator;

/// How often the file is looked at.
const PAUSE: Duration = Duration::from_millis(800);

/// Reloads edits of the file of authorised keys, until the authenticator is dropped.
pub async fn follow(authenticator: Weak<PeerAuthenticator>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(authenticator) = authenticator.upgrade() else { return };
        authenticator.refresh().await;
    }
}
