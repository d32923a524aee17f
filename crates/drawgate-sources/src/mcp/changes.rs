//! The channel that tells the gate to ask for the manifest again.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// Servers may announce changes as fast as they like; the gate hears of it once in this time.
const INTERVAL: Duration = Duration::from_secs(1);

/// A counter that others watch.
#[derive(Debug, Clone)]
pub(super) struct Changes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    version: watch::Sender<u64>,
    /// When the next announcement of a server may pass; in the future while one waits.
    quiet_until: Mutex<Option<Instant>>,
}

impl Changes {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner { version: watch::Sender::new(0), quiet_until: Mutex::default() }))
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }

    /// The connection came or went: the gate hears it at once.
    pub(super) fn bump(&self) {
        self.0.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    /// The server says that its tools changed: the gate hears it within the interval, once.
    pub(super) fn announce(&self) {
        match when(&mut self.0.quiet_until.lock(), Instant::now()) {
            When::Now => self.bump(),
            When::Already => {}
            When::At(time) => {
                let changes = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep_until(time).await;
                    changes.bump();
                });
            }
        }
    }
}

/// When an announcement is passed on.
#[derive(Debug, PartialEq, Eq)]
enum When {
    Now,
    At(Instant),
    /// One waits that will cover this one, too.
    Already,
}

fn when(quiet_until: &mut Option<Instant>, now: Instant) -> When {
    match *quiet_until {
        Some(until) if until > now + INTERVAL => When::Already,
        Some(until) if until > now => {
            *quiet_until = Some(until + INTERVAL);
            When::At(until)
        }
        Some(_) | None => {
            *quiet_until = Some(now + INTERVAL);
            When::Now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_announcements_is_heard_once_a_second() {
        let (start, mut quiet_until) = (Instant::now(), None);
        let decisions: Vec<When> = (0..5_000)
            .map(|ms| when(&mut quiet_until, start + Duration::from_millis(ms)))
            .collect();
        let heard = decisions.iter().filter(|decision| **decision != When::Already).count();
        assert!((5..=6).contains(&heard), "{heard}");
    }

    #[test]
    fn the_last_announcement_is_not_lost() {
        let (now, mut quiet_until) = (Instant::now(), None);
        assert_eq!(when(&mut quiet_until, now), When::Now);
        assert_eq!(when(&mut quiet_until, now), When::At(now + INTERVAL));
        assert_eq!(when(&mut quiet_until, now), When::Already);
    }
}
