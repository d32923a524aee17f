//! Whether any process of the box has run: what has not run has taken nothing, and need not be counted.

use std::fs;
use std::time::Duration;

use super::sys::ProcessClock;

/// What was seen at the last look.
#[derive(Default)]
pub(super) struct Activity {
    /// The number of the process or thread that was started last.
    newest: Option<String>,
    clocks: Vec<(ProcessClock, Option<Duration>)>,
}

impl Activity {
    /// Whether a process was started, has run or has ended since the last look.
    pub(super) fn look(&mut self) -> bool {
        let newest = newest();
        let is_same = newest.is_some()
            && newest == self.newest
            && self.clocks.iter().all(|(clock, time)| clock.time() == *time);
        if is_same {
            return false;
        }
        // In this order: one that is started after the number was read changes it.
        self.newest = newest;
        self.clocks = others().map(|clock| (clock, clock.time())).collect();
        true
    }
}

fn newest() -> Option<String> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    Some(load.split_ascii_whitespace().next_back()?.to_owned())
}

/// The clocks of all processes of this namespace but this one, which runs in order to look.
fn others() -> impl Iterator<Item = ProcessClock> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(move |pid| *pid != own).filter_map(|pid| ProcessClock::of(pid.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_is_told_from_one_that_waits() {
        let (start, wait) = std::sync::mpsc::channel::<()>();
        let own = ProcessClock::of(std::process::id().try_into().unwrap()).unwrap();
        let before = own.time();
        let worker = std::thread::spawn(move || {
            wait.recv().unwrap();
            (0..1_000_000_u64).map(std::hint::black_box).sum::<u64>()
        });
        start.send(()).unwrap();
        worker.join().unwrap();
        assert!(own.time() > before, "threads that have ended count");
        // The kernel gives no process this number.
        assert_eq!(ProcessClock::of(4 << 20).and_then(ProcessClock::time), None);
    }

    #[test]
    fn what_has_changed_is_seen_once_it_is_there() {
        let clock = |pid: u32| ProcessClock::of(pid.try_into().unwrap()).unwrap();
        let init = clock(1);
        let mut seen = Activity { newest: Some("never".to_owned()), clocks: Vec::new() };
        assert!(seen.look(), "something was started");
        seen.clocks = vec![(init, Some(Duration::MAX))];
        seen.newest = newest();
        assert!(seen.look(), "something has run");
        assert!(seen.clocks.iter().all(|(_, time)| *time != Some(Duration::MAX)));
    }
}
