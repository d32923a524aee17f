//! Edits of the list take effect while the gateway runs.

use std::sync::Weak;
use std::time::Duration;

use super::Door;

/// How often the file is looked at.
const PAUSE: Duration = Duration::from_millis(800);

/// Takes over edits of the file of authorised keys, until the door is gone.
pub async fn follow(door: Weak<Door>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(door) = door.upgrade() else { return };
        door.refresh().await;
    }
}
