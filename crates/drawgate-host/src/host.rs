//! What sources and stores need of the machine, in one value that they share.

use std::path::PathBuf;
use std::sync::Arc;

use drawgate_core::clock::{Clock, Ids};
use tokio::task::spawn_blocking;

use crate::clock::{NoRandomness, SystemClock, SystemIds};
use crate::credentials::Credentials;
use crate::egress::Egress;
use crate::process::{Processes, Running, Spawn, SpawnError};
use crate::secrets::Secrets;

/// Refuses the start of a program. It may read files: it runs on a blocking thread.
pub type StartCheck = Arc<dyn Fn() -> Result<(), SpawnError> + Send + Sync>;

/// The machine, as sources and stores see it. Clones share it.
#[derive(Clone)]
pub struct Host {
    /// References to the environment.
    pub secrets: Arc<Secrets>,
    /// Outgoing HTTP.
    pub egress: Arc<Egress>,
    /// Child processes.
    pub processes: Processes,
    /// Asked before each program that [`start`](Self::start) starts.
    pub start_check: Option<StartCheck>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Generates unique ids.
    pub ids: Arc<dyn Ids>,
    /// Credentials for protected servers, where there is a store to keep them.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// The command that gives a server more of the machine, as messages name it; the embedder's, if it has one.
    pub allow_command: Option<&'static str>,
}

impl Host {
    /// This machine. `launcher` is a program that calls [`launcher::main`](crate::process::launcher::main):
    /// with it, children die with the gateway even when it is killed, and programs can be sandboxed.
    /// Without one, a program that must be sandboxed is refused.
    pub fn new(secrets: Secrets, launcher: Option<PathBuf>) -> Result<Self, NoRandomness> {
        let egress = Arc::new(Egress::new());
        let processes = Processes::new(&secrets, launcher).with_egress(Arc::clone(&egress));
        Ok(Self {
            secrets: Arc::new(secrets),
            egress,
            processes,
            start_check: None,
            clock: Arc::new(SystemClock::new()),
            ids: Arc::new(SystemIds::new()?),
            credentials: None,
            allow_command: None,
        })
    }

    /// Starts a command as [`Processes::spawn`] does, unless the check refuses it. The check runs on a
    /// blocking thread; the start is on the caller's thread, which must outlive the child.
    pub async fn start(&self, spawn: &Spawn) -> Result<Running, SpawnError> {
        if let Some(check) = self.start_check.clone() {
            let checked = spawn_blocking(move || check()).await;
            checked.unwrap_or_else(|error| Err(SpawnError::Refused(error.to_string())))?;
        }
        self.processes.spawn(spawn)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;

    fn checked(check: impl Fn() -> Result<(), SpawnError> + Send + Sync + 'static) -> Host {
        let host = Host::new(Secrets::new(BTreeMap::new()), None).unwrap();
        Host { start_check: Some(Arc::new(check)), ..host }
    }

    #[tokio::test]
    async fn a_slow_check_holds_up_no_other_task() {
        let (sender, receiver) = mpsc::channel();
        let receiver = Mutex::new(receiver);
        let host = checked(move || {
            let read = receiver.lock().recv_timeout(Duration::from_secs(20));
            read.map_err(|error| SpawnError::Refused(error.to_string()))
        });
        let spawn = Spawn { program: "true".to_owned(), ..Spawn::default() };
        // There is one thread, and the check waits for the second task.
        let (started, ()) = tokio::join!(host.start(&spawn), async { sender.send(()).unwrap() });
        assert!(started.unwrap().wait().await.unwrap().success());
    }

    #[tokio::test]
    async fn what_the_check_refuses_is_not_started() {
        let host = checked(|| Err(SpawnError::Refused("not now".to_owned())));
        let folder = tempfile::tempdir().unwrap();
        let spawn = Spawn {
            program: "touch".to_owned(),
            args: vec!["started".to_owned()],
            working_dir: Some(folder.path().to_owned()),
            ..Spawn::default()
        };
        let refused = host.start(&spawn).await.unwrap_err();
        assert_eq!(refused.to_string(), "not now");
        assert!(!folder.path().join("started").exists());
    }
}
