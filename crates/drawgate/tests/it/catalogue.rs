//! Attacks that others have met, by the names that they have in our catalogues, against the whole
//! program. What is not here has its test elsewhere: `index` says where.

mod authentication;
mod consent;
mod credentials;
mod definitions;
mod differential;
mod index;
mod recorder;
mod results;
mod upstream;

pub(crate) use upstream::descendants;

use crate::support::TestFolder;

/// A server called `x` whose tools attack their callers. It keeps a record at [`record`].
fn attacker(place: &TestFolder, settings: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/attacker.py");
    format!(
        "[servers.x]\ncommand = \"python3\"\nsandbox = \"none\"\nargs = [\"{script}\", \"{}\"]\n{settings}\n",
        place.path().join("record").display()
    )
}

/// Everything that the server `x` was sent, and its environment.
fn record(place: &TestFolder) -> String {
    std::fs::read_to_string(place.path().join("record")).unwrap_or_default()
}

/// A server that misbehaves in one of its ways.
fn misbehaving(name: &str, mode: &str, settings: &str) -> String {
    let script =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../drawgate-sources/tests/fixtures/mcp_server.py");
    format!(
        "[servers.{name}]\ncommand = \"python3\"\nsandbox = \"none\"\nargs = [\"{script}\", \"{mode}\"]\n{settings}\n"
    )
}
