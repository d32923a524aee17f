//! Moves the audit log's WAL into its database, keeps the signed head outside the log and looks whether
//! the files are still there, on a thread of its own, so that no commit does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use drawgate_core::store::StoreError;
use parking_lot::Mutex;
use rusqlite::Connection;

use super::super::lock::DataDir;
use super::commit::Writer;
use super::connection::{Durability, open_audit, unavailable};
use super::head_copies::HeadCopies;

/// So many pages are moved at once: 16 MiB of WAL. Each time the WAL is begun anew, a commit waits for
/// the disk; so this counts what was written, and not the events, of which many may share a page.
const PAGES: usize = 4096;
/// Beyond so many pages the writer is held for a moment, because only a WAL that was moved as a whole
/// is begun anew.
const MAX_PAGES: i64 = 8192;

/// The thread that moves the WAL and keeps the copies of the head.
pub(super) struct WalThread {
    thread: Mutex<Option<(SyncSender<()>, JoinHandle<()>)>>,
    written: AtomicUsize,
}

impl WalThread {
    /// Starts the thread.
    pub(super) fn start(
        dir: &DataDir,
        writer: Arc<Mutex<Writer>>,
        heads: Arc<Mutex<HeadCopies>>,
        pause: Duration,
    ) -> Result<Self, StoreError> {
        let connection = open_audit(dir, Durability::Process)?;
        let (wake, woken) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("audit-wal".to_owned())
            .spawn(move || run(&woken, pause, &connection, &writer, &heads))
            .map_err(|error| unavailable("start the audit log's thread", &error))?;
        Ok(Self { thread: Mutex::new(Some((wake, thread))), written: AtomicUsize::new(0) })
    }

    /// Counts pages, and wakes the thread when there is enough to move.
    pub(super) fn written(&self, pages: usize) {
        if self.written.fetch_add(pages, Ordering::Relaxed) + pages < PAGES {
            return;
        }
        self.written.store(0, Ordering::Relaxed);
        if let Some((wake, _)) = &*self.thread.lock() {
            // Full means that it is awake already.
            let _awake = wake.try_send(());
        }
    }

    /// Ends the thread and waits until its connection is closed.
    pub(super) fn stop(&self) {
        let Some((wake, thread)) = self.thread.lock().take() else { return };
        drop(wake);
        if thread.join().is_err() {
            tracing::error!("the audit log's thread panicked");
        }
    }
}

fn run(
    woken: &Receiver<()>,
    pause: Duration,
    connection: &Connection,
    writer: &Mutex<Writer>,
    heads: &Mutex<HeadCopies>,
) {
    let (mut kept, presence) = {
        let writer = writer.lock();
        (writer.chain.sequence(), Arc::clone(&writer.presence))
    };
    let mut is_failing = false;
    loop {
        match woken.recv_timeout(pause) {
            Ok(()) => {
                if let Err(error) = move_pages(connection, writer) {
                    tracing::warn!(error = %error, "the audit log's WAL could not be moved; it is tried again");
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        presence.look();
        if writer.lock().chain.sequence() == kept {
            continue;
        }
        let head = writer.lock().kept_head();
        let done = heads.lock().keep(&head);
        match &done {
            Ok(()) => kept = head.sequence,
            Err(error) if !is_failing => {
                tracing::warn!(error = %error, "the audit log's head could not be kept; it is tried again");
            }
            Err(_) => {}
        }
        is_failing = done.is_err();
    }
}

fn move_pages(connection: &Connection, writer: &Mutex<Writer>) -> rusqlite::Result<()> {
    if checkpoint(connection)? > MAX_PAGES {
        let _held = writer.lock();
        checkpoint(connection)?;
    }
    Ok(())
}

/// Moves what it can without waiting for anybody; returns the pages in the WAL.
fn checkpoint(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))
}
