//! How far a download is, on a terminal.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use drawgate_core::registry::visible_text;
use drawgate_runtime::toolpacks::Progress;

/// Bytes between two reports.
const STEP: u64 = 64 * 1024;

/// A line on standard error that is written over and over.
pub(super) struct ProgressLine {
    shown: AtomicU64,
    is_terminal: bool,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self { shown: AtomicU64::new(0), is_terminal: std::io::stderr().is_terminal() }
    }

    /// Says what happens now.
    pub(super) fn say(&self, what: &str) {
        if self.is_terminal {
            write(&format!("\r\u{1b}[K{}", visible_text(what)));
        }
    }

    /// Shows how far it is, now and then.
    pub(super) fn report(&self, progress: Progress) {
        let before = self.shown.load(Ordering::Relaxed);
        if progress.bytes.saturating_sub(before) < STEP && before > 0 {
            return;
        }
        self.shown.store(progress.bytes, Ordering::Relaxed);
        let kib = |bytes: u64| bytes.div_ceil(1024);
        let of = progress.total.map(|total| format!(" of {} KiB", kib(total)));
        let of = of.unwrap_or_else(|| " KiB".to_owned());
        self.say(&format!("downloading {}{of}", kib(progress.bytes)));
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.say("");
    }
}

fn write(text: &str) {
    let mut out = std::io::stderr().lock();
    // Progress is lost where standard error is closed.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
