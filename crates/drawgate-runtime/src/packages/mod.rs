//! Packages of servers that a package runner starts (`npx`, `uvx` and the like): what they are asked
//! for, the lock file that pins them, and the folders that they run from.
//!
//! A package is fetched once, by a command of the operator's. Then the gateway starts the installed
//! program in place of the runner, after it has compared the folder with the lock. Fetching itself is
//! left to the program, which has the operator's own npm, uv and pip.

mod lock;
mod request;
mod tree;

/// How the reason begins why a server is not started whose package was not fetched.
pub const NOT_FETCHED: &str = "its package has not been fetched";
/// How the reason begins why a server is not started whose files are not those that were pinned.
pub const NOT_PINNED: &str = "its package is not what was pinned";

pub use lock::{PackageLock, Pin, PinnedPackage, Pins};
pub use request::{Ecosystem, EnvPrefix, PackageRequest, RequestError, RunnerCommand};
pub use tree::{TreeError, content_hash, links_out};
