//! The table of escape attempts: a command, what must be observed, and how a lab can tell.

/// One attempt.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// For `sh -c`.
    pub(super) command: &'static str,
    pub(super) class: &'static str,
    pub(super) oracles: Vec<Oracle>,
    flags: Vec<&'static str>,
}

/// What shows an escape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Oracle {
    /// Its output says so.
    Quiet,
    /// This file exists.
    NoFile(&'static str),
    /// This file has changed.
    Same(&'static str),
    /// The stand-in for the gateway is dead.
    Alive,
    /// A process of it has outlived it.
    NoProc,
    /// It never ends.
    Ends,
    /// It left a core file.
    NoCore,
    /// It left a file with a setuid or setgid bit.
    NoSuid,
    /// It connected to this socket.
    NoConn(&'static str),
    /// The host can connect to its port.
    Unreach,
}

impl Row {
    /// Whether the row carries a flag.
    pub(super) fn is(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
}

/// All attempts, in the order of the file.
pub(super) fn rows() -> Vec<Row> {
    let text = include_str!("../../fixtures/escape_attempts.tsv");
    text.lines().skip(1).map(row).collect()
}

/// The attempt of this name.
pub(super) fn named(name: &str) -> Row {
    rows().into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row `{name}`"))
}

fn row(line: &'static str) -> Row {
    let columns: Vec<&str> = line.split('\t').collect();
    let [name, command, _must_observe, class, oracle, flags] = columns[..] else {
        panic!("not six columns: {line}")
    };
    let oracles = oracle.split(';').map(parse_oracle).collect();
    Row { name, command, class, oracles, flags: flags.split_whitespace().collect() }
}

fn parse_oracle(text: &'static str) -> Oracle {
    match text.split_once(':').unwrap_or((text, "")) {
        ("quiet", "") => Oracle::Quiet,
        ("nofile", path) => Oracle::NoFile(path),
        ("same", path) => Oracle::Same(path),
        ("alive", "") => Oracle::Alive,
        ("noproc", "") => Oracle::NoProc,
        ("ends", _seconds) => Oracle::Ends,
        ("nocore", "") => Oracle::NoCore,
        ("nosuid", "") => Oracle::NoSuid,
        ("noconn", socket) => Oracle::NoConn(socket),
        ("unreach", "") => Oracle::Unreach,
        _ => panic!("no such oracle: {text}"),
    }
}
