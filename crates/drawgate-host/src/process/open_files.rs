//! How many files the gateway and its children may have open.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the gateway was started with, if it was changed.
static BEFORE: OnceLock<u64> = OnceLock::new();

/// Lets this process open as many files as it may at all. A gateway needs many; and a program in a
/// sandbox, which may open fewer, can then not use up what its user may have on the way in sockets.
/// Children that are started by the launcher get what this process was started with.
pub fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current.filter(|current| maximum.is_none_or(|most| *current < most)) else {
        return;
    };
    // A kernel may allow less than it says; then all stays as it is.
    if setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok() {
        let _first = BEFORE.set(current);
    }
}

/// How many files this process may open, if that is limited.
#[must_use]
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// For the launcher: the limit that a child gets; as it is if there is none.
pub(super) fn of_children() -> String {
    BEFORE.get().map_or_else(|| "-".to_owned(), u64::to_string)
}

/// In the launcher: takes that limit.
pub(super) fn lower(to: &str) {
    if let Ok(wanted) = to.parse() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let _as_it_is = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}
