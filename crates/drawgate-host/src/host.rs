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

/// Says before a start why it must not be. It may take its time.
pub type Guard = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The machine, as the rest of the program sees it.
pub struct Host {
    /// References to the environment.
    pub secrets: Arc<Secrets>,
    /// Outgoing HTTP.
    pub egress: Arc<Egress>,
    /// Child processes.
    pub processes: Processes,
    /// Who watches over the programs that [`start`](Self::start) starts.
    pub guard: Option<Guard>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New names.
    pub ids: Arc<dyn Ids>,
    /// Credentials for protected servers, where there is a store to keep them.
    pub credentials: Option<Arc<dyn Credentials>>,
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
            guard: None,
            clock: Arc::new(SystemClock::new()),
            ids: Arc::new(SystemIds::new()?),
            credentials: None,
        })
    }

    /// Starts a command as [`Processes::spawn`] does, if the guard lets it. The guard may read many
    /// files, and is asked on a blocking thread; the start is on the caller's, which must outlive it.
    pub async fn start(&self, spawn: &Spawn) -> Result<Running, SpawnError> {
        if let Some(guard) = self.guard.clone() {
            let asked = spawn_blocking(move || guard()).await;
            let asked = asked.unwrap_or_else(|error| Err(error.to_string()));
            asked.map_err(SpawnError::Refused)?;
        }
        self.processes.spawn(spawn)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;

    fn guarded(guard: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Host {
        let host = Host::new(Secrets::from_process(), None).unwrap();
        Host { guard: Some(Arc::new(guard)), ..host }
    }

    #[tokio::test]
    async fn a_guard_that_takes_its_time_holds_up_no_other_task() {
        let (sender, receiver) = mpsc::channel();
        let receiver = Mutex::new(receiver);
        let host = guarded(move || {
            let word = receiver.lock().recv_timeout(Duration::from_secs(20));
            word.map_err(|error| error.to_string())
        });
        let spawn = Spawn { program: "true".to_owned(), ..Spawn::default() };
        // There is one thread, and the guard waits for the second task.
        let (started, ()) = tokio::join!(host.start(&spawn), async { sender.send(()).unwrap() });
        assert!(started.unwrap().wait().await.unwrap().success());
    }

    #[tokio::test]
    async fn what_the_guard_refuses_is_not_started() {
        let host = guarded(|| Err("not now".to_owned()));
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
