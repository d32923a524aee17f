//! What sources and stores need of the machine, in one value that they share.

use std::path::PathBuf;
use std::sync::Arc;

use drawgate_core::clock::{Clock, Ids};

use crate::clock::{NoRandomness, SystemClock, SystemIds};
use crate::egress::Egress;
use crate::oauth::Logins;
use crate::process::Processes;
use crate::secrets::Secrets;

/// The machine, as the rest of the program sees it.
pub struct Host {
    /// References to the environment.
    pub secrets: Arc<Secrets>,
    /// Outgoing HTTP.
    pub egress: Arc<Egress>,
    /// Child processes.
    pub processes: Processes,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New names.
    pub ids: Arc<dyn Ids>,
    /// Logins at protected servers, where there is a store to keep them.
    pub logins: Option<Arc<Logins>>,
}

impl Host {
    /// This machine. With a launcher (this program's own path), children die with the gateway even
    /// when it is killed; see [`process::launcher`](crate::process::launcher).
    pub fn new(secrets: Secrets, launcher: Option<PathBuf>) -> Result<Self, NoRandomness> {
        let egress = Arc::new(Egress::new());
        let processes = Processes::new(&secrets, launcher).with_egress(Arc::clone(&egress));
        Ok(Self {
            secrets: Arc::new(secrets),
            egress,
            processes,
            clock: Arc::new(SystemClock::new()),
            ids: Arc::new(SystemIds::new()?),
            logins: None,
        })
    }
}
