//! What a program in a sandbox asked for and was not given, as far as that can be seen: hosts by the
//! sandbox's proxy; files, folders and variables by what the program says about its failures.
//!
//! A program's words are believed only where they fit: the path must be there and closed to it, the
//! variable must be set where the gateway runs. Nothing is opened here; an operator is told.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_host::Host;
use drawgate_host::egress::{HostRule, RefusedHosts};
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::protected::is_secret;
use drawgate_host::sandbox::{Confinement, Profile};
use parking_lot::Mutex;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most that is remembered of one server.
const MAX_REFUSALS: usize = 32;
/// How much of a text is looked at.
const MAX_TEXT: usize = 16 * 1024;
/// The longest path and the longest name of a variable.
const MAX_PATH: usize = 1024;
const MAX_NAME: usize = 128;
/// Folders that every sandbox has of its own, so that those of the machine can't be given.
const OWN: [&str; 6] = ["/boot", "/dev", "/etc", "/proc", "/run", "/sys"];
/// Ports that a host without one means.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// Something that a program asked for and was not given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "what", rename_all = "snake_case")]
pub enum Refusal {
    /// A host, in the form of `permissions.hosts`.
    Host(String),
    /// A file or folder, for reading.
    Read(PathBuf),
    /// A folder, for writing.
    Write(PathBuf),
    /// A variable of the gateway's environment.
    Variable(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "the host `{host}`"),
            Self::Read(path) => write!(f, "reading `{}`", path.display()),
            Self::Write(path) => write!(f, "writing in `{}`", path.display()),
            Self::Variable(name) => write!(f, "the variable `{name}`"),
        }
    }
}

/// Collects what one server was refused.
pub(super) struct Refusals {
    id: SourceId,
    host: Arc<Host>,
    spawn: Spawn,
    known: Mutex<BTreeSet<Refusal>>,
}

impl Refusals {
    /// Watches a program, if it runs in a sandbox.
    pub(super) fn of(id: &SourceId, spawn: &Spawn, host: &Arc<Host>) -> Option<Arc<Self>> {
        let confinement = spawn.confinement.as_ref()?;
        (confinement.profile != Profile::None).then(|| {
            let (id, host, spawn) = (id.clone(), Arc::clone(host), spawn.clone());
            Arc::new(Self { id, host, spawn, known: Mutex::default() })
        })
    }

    /// All that was refused so far.
    pub(super) fn list(&self) -> Vec<Refusal> {
        self.known.lock().iter().cloned().collect()
    }

    /// Looks for reasons in what the program says about a failure.
    pub(super) fn hear(&self, text: &str) {
        let end = text.floor_char_boundary(MAX_TEXT);
        let text = text.get(..end).unwrap_or_default();
        let Some(confinement) = &self.spawn.confinement else { return };
        for path in paths(text) {
            if let Some(refusal) = self.file(confinement, path, text) {
                self.note(&refusal);
            }
        }
        for name in variables(text) {
            if !self.spawn.env.contains_key(name) && self.host.secrets.is_set(name) {
                self.note(&Refusal::Variable(name.to_owned()));
            }
        }
    }

    /// The same for the content of a result.
    pub(super) fn hear_content(&self, content: &[Value]) {
        for text in content.iter().filter_map(|block| block["text"].as_str()) {
            self.hear(text);
        }
    }

    fn file(&self, confinement: &Confinement, path: &Path, text: &str) -> Option<Refusal> {
        let (missing, denied) = (says(text, &MISSING), says(text, &DENIED));
        if confinement.may_write(path) || OWN.iter().any(|own| path.starts_with(own)) {
            return None;
        }
        let trusted = self.host.processes.trusted();
        let home = self.host.secrets.home();
        let is_secret = home.as_deref().is_some_and(|home| is_secret(home, path));
        if confinement.may_read(path, &self.spawn.args, home.as_deref()) {
            let folder = denied.then(|| self.folder_of(path)).flatten()?;
            let is_given = folder.starts_with("/usr") || trusted.check_writable(&folder).is_err();
            return (!is_given && !is_secret).then_some(Refusal::Write(folder));
        }
        let may_be_given = path.exists() && trusted.check_readable(path).is_ok() && !is_secret;
        ((missing || denied) && may_be_given).then(|| Refusal::Read(path.to_owned()))
    }

    /// The folder that the operator named around a path, else the one that it is in.
    fn folder_of(&self, path: &Path) -> Option<PathBuf> {
        let named = self.spawn.args.iter().map(Path::new);
        let named = named.filter(|folder| folder.is_absolute() && path.starts_with(folder));
        let mut named = named.filter(|folder| folder.is_dir());
        let own = || path.ancestors().find(|above| above.is_dir());
        named.next().or_else(own).map(Path::to_owned)
    }

    fn note(&self, refusal: &Refusal) {
        let mut known = self.known.lock();
        if known.len() < MAX_REFUSALS && known.insert(refusal.clone()) {
            drop(known);
            let setting = self.setting(refusal);
            tracing::warn!(server = %self.id, "a server was refused {refusal}; it is allowed by `{setting}` in `[servers.{}]`", self.id);
        }
    }

    /// The line of the configuration that gives it, with what it gives already.
    fn setting(&self, refusal: &Refusal) -> String {
        let confinement = self.spawn.confinement.as_ref();
        let list = |key: &str, given: Option<&Vec<PathBuf>>, path: &PathBuf| {
            let all: Vec<&PathBuf> = given.into_iter().flatten().chain([path]).collect();
            format!("permissions.{key} = {all:?}")
        };
        match refusal {
            Refusal::Host(host) => {
                let given = confinement.into_iter().flat_map(|held| held.reach.rules());
                let all: Vec<String> =
                    given.map(ToString::to_string).chain([host.clone()]).collect();
                format!("sandbox = \"network\"` and `permissions.hosts = {all:?}")
            }
            Refusal::Read(path) => list("read", confinement.map(|held| &held.read), path),
            Refusal::Write(path) => list("write", confinement.map(|held| &held.write), path),
            Refusal::Variable(name) => format!("env.{name} = \"env:{name}\""),
        }
    }
}

impl RefusedHosts for Refusals {
    fn refused(&self, host: &str, port: u16) {
        let is_address = host.contains(':');
        let host = if is_address { format!("[{host}]") } else { host.to_owned() };
        let rule = if USUAL_PORTS.contains(&port) { host } else { format!("{host}:{port}") };
        // What the configuration would not take is not worth a line.
        if rule.len() <= MAX_NAME && rule.parse::<HostRule>().is_ok() && !rule.contains('*') {
            self.note(&Refusal::Host(rule));
        }
    }
}

impl fmt::Debug for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusals").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Failures of the system that a program names by their sign or in words.
const MISSING: [(&str, Errno); 2] = [("ENOENT", Errno::NOENT), ("ENOTDIR", Errno::NOTDIR)];
const DENIED: [(&str, Errno); 3] =
    [("EROFS", Errno::ROFS), ("EACCES", Errno::ACCESS), ("EPERM", Errno::PERM)];

fn says(text: &str, failures: &[(&str, Errno)]) -> bool {
    let lower = text.to_ascii_lowercase();
    failures.iter().any(|(sign, errno)| {
        // `No such file or directory (os error 2)`, of which the number is our own.
        let words = std::io::Error::from(*errno).to_string().to_ascii_lowercase();
        let words = words.split(" (").next().unwrap_or_default();
        text.contains(sign) || lower.contains(words)
    })
}

/// The absolute paths that a text mentions: between quotes, or up to the next blank.
fn paths(text: &str) -> Vec<&Path> {
    let mut found = BTreeSet::new();
    for quote in ['\'', '"', '`'] {
        found.extend(text.split(quote).skip(1).filter(|part| !part.contains('\n')));
    }
    let is_end = |c: char| c.is_whitespace() || "'\"`<>()[]{},;|".contains(c);
    found.extend(text.split(is_end).map(|word| word.trim_end_matches(['.', ':', '!', '?'])));
    let paths = found.into_iter().filter(|word| word.len() <= MAX_PATH && !word.contains('\0'));
    let is_plain =
        |path: &&Path| path.is_absolute() && path.components().all(|part| part.as_os_str() != "..");
    paths.map(Path::new).filter(is_plain).filter(|path| path.parent().is_some()).collect()
}

/// The names of variables that a text mentions: in capitals, and either with an underscore or in a text that
/// speaks of its environment.
fn variables(text: &str) -> BTreeSet<&str> {
    let speaks_of_environment = text.to_ascii_lowercase().contains("environment");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| (3..=MAX_NAME).contains(&word.len()))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
        .filter(|word| {
            word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        })
        .filter(|word| speaks_of_environment || word.contains('_'))
        .collect()
}

#[cfg(test)]
#[path = "refusals_tests.rs"]
mod tests;
