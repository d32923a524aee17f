//! What a program in a sandbox asked for and was not given, as far as that can be seen: hosts by the
//! sandbox's proxy; files, folders and variables by what the program says about its failures.
//!
//! A program's words are believed only where they fit: the path must be there and closed to it, the
//! variable must be set where the gateway runs. Nothing is opened here; the operator is told, and the caller
//! whose call failed.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use drawgate_core::model::SourceId;
use drawgate_host::Host;
use drawgate_host::egress::{Admission, HostRule, RefusedHosts};
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::protected::is_secret;
use drawgate_host::sandbox::{Confinement, Profile};
use drawgate_host::store::DataDir;
use http::Uri;
use parking_lot::Mutex;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::places::{self, PlaceVariable};

/// The most that is remembered of one server.
const MAX_REFUSALS: usize = 32;
/// How much of a text is looked at.
const MAX_TEXT: usize = 16 * 1024;
/// The longest path and the longest name of a variable.
const MAX_PATH: usize = 1024;
const MAX_NAME: usize = 128;
/// How many refusals one caller is told about.
const MAX_TOLD: usize = 4;
/// Folders that every sandbox has of its own, so that nothing in those of the machine can be given for writing.
const OWN: [&str; 6] = ["/boot", "/dev", "/etc", "/proc", "/run", "/sys"];
/// The one of them of which files and folders can be given for reading.
const SETTINGS: &str = "/etc";
/// Whether all users may read a file.
const ALL_READ: u32 = 0o004;
/// Ports that a host without one means.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// How the advice begins that has what an operator can do.
pub const ALLOWED_BY: &str = "an operator can allow it by";
/// What is said before it of a host that leads to this machine or a private network.
const INSIDE: &str = "its address is one of this machine or of a network around it, which a rule for all hosts does not open; ";

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
    /// A folder of its own package, for writing. Nothing can allow it: packages stay as they were fetched.
    OwnPackage(PathBuf),
    /// The same, where a variable of the program names another place for the file.
    OwnFile {
        /// The folder of the package that it tried to write in.
        folder: PathBuf,
        /// The variable.
        variable: String,
        /// A place in the folder that the program has of its own.
        place: PathBuf,
    },
}

impl Refusal {
    /// The option of [`Host::allow_command`] that gives it, as a shell takes it; nothing if none does.
    #[must_use]
    pub fn option(&self) -> Option<String> {
        let path = |path: &Path| shell_word(&path.to_string_lossy());
        match self {
            Self::Host(host) => Some(format!("--host {}", shell_word(host))),
            Self::Read(file) => Some(format!("--read {}", path(file))),
            Self::Write(folder) => Some(format!("--write {}", path(folder))),
            Self::Variable(name) => Some(format!("--env {name}")),
            Self::OwnFile { variable, place, .. } => {
                Some(format!("--env {variable}={}", path(place)))
            }
            Self::OwnPackage(_) => None,
        }
    }

    /// The key of a server's settings that gives it.
    const fn key(&self) -> &'static str {
        match self {
            Self::Host(_) => "permissions.hosts",
            Self::Read(_) => "permissions.read",
            Self::Write(_) => "permissions.write",
            Self::Variable(_) | Self::OwnFile { .. } | Self::OwnPackage(_) => "env",
        }
    }
}

/// A word as a shell takes it.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@+=,".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "the host `{host}`"),
            Self::Read(path) => write!(f, "reading `{}`", path.display()),
            Self::Write(path) => write!(f, "writing in `{}`", path.display()),
            Self::Variable(name) => write!(f, "the variable `{name}`"),
            Self::OwnPackage(folder) | Self::OwnFile { folder, .. } => {
                write!(f, "writing in its own package, `{}`", folder.display())
            }
        }
    }
}

/// Collects what one server was refused.
pub(super) struct Refusals {
    id: SourceId,
    host: Arc<Host>,
    spawn: Spawn,
    known: Mutex<BTreeSet<Refusal>>,
    /// The hosts that were refused last, each with its number.
    hosts: Mutex<VecDeque<(u64, Refusal)>>,
    /// The variable that names another place than its own package; looked for once.
    place: OnceLock<Option<PlaceVariable>>,
}

impl Refusals {
    /// Watches a program, if it runs in a sandbox.
    pub(super) fn of(id: &SourceId, spawn: &Spawn, host: &Arc<Host>) -> Option<Arc<Self>> {
        let confinement = spawn.confinement.as_ref()?;
        (confinement.profile != Profile::None).then(|| {
            let (id, host, spawn) = (id.clone(), Arc::clone(host), spawn.clone());
            let (known, hosts, place) = (Mutex::default(), Mutex::default(), OnceLock::new());
            Arc::new(Self { id, host, spawn, known, hosts, place })
        })
    }

    /// All that was refused so far.
    pub(super) fn list(&self) -> Vec<Refusal> {
        self.known.lock().iter().cloned().collect()
    }

    /// Looks for reasons in what the program says about a failure.
    pub(super) fn hear(&self, text: &str) -> BTreeSet<Refusal> {
        let end = text.floor_char_boundary(MAX_TEXT);
        let text = text.get(..end).unwrap_or_default();
        let Some(confinement) = &self.spawn.confinement else { return BTreeSet::new() };
        let files = paths(text).into_iter().filter_map(|path| self.file(confinement, path, text));
        let variables = variables(text)
            .into_iter()
            .filter(|name| !self.spawn.env.contains_key(*name) && self.host.secrets.is_set(name));
        let mut found: BTreeSet<Refusal> =
            files.chain(variables.map(|name| Refusal::Variable(name.to_owned()))).collect();
        if says_any(text, &READ_ONLY_DATABASE) {
            found.extend(self.databases(confinement));
        }
        for refusal in &found {
            self.note(refusal);
        }
        found
    }

    /// The same for the content of a result.
    pub(super) fn hear_content(&self, content: &[Value]) -> BTreeSet<Refusal> {
        let texts = content.iter().filter_map(|block| block["text"].as_str());
        texts.flat_map(|text| self.hear(text)).collect()
    }

    /// A mark before a call, for [`hosts_since`](Self::hosts_since).
    pub(super) fn mark(&self) -> u64 {
        self.hosts.lock().back().map_or(0, |(number, _)| *number)
    }

    /// The hosts that were refused since a mark.
    pub(super) fn hosts_since(&self, mark: u64) -> BTreeSet<Refusal> {
        let hosts = self.hosts.lock();
        let later = hosts.iter().filter(|(number, _)| *number > mark);
        later.map(|(_, refusal)| refusal.clone()).collect()
    }

    /// What the caller of a call that failed is told about them; nothing without any.
    pub(super) fn told(&self, refusals: &BTreeSet<Refusal>) -> Option<String> {
        let told =
            |refusal: &Refusal| format!("the sandbox refused {refusal}; {}", self.advice(refusal));
        let lines: Vec<String> = refusals.iter().take(MAX_TOLD).map(told).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn file(&self, confinement: &Confinement, path: &Path, text: &str) -> Option<Refusal> {
        let (missing, denied) = (says(text, &MISSING), says(text, &DENIED));
        if confinement.may_write(path) || !(missing || denied) {
            return None;
        }
        // Some programs say of what they could not make that it is missing.
        let writes = denied || says_any(text, &WRITING);
        if writes && self.package().is_some_and(|package| path.starts_with(package)) {
            return self.in_package(confinement, path);
        }
        let is_own = OWN.iter().any(|own| path.starts_with(own));
        if is_own && !(missing && path.starts_with(SETTINGS) && is_public(path)) {
            return None;
        }
        // What the box does not show is missing there; what it shows can only be refused for writing.
        if is_own && says_any(text, &WRITING) {
            return None;
        }
        if writes {
            let home = self.host.secrets.home();
            let is_shown = confinement.may_read(path, &self.spawn.args, home.as_deref());
            return if denied || !is_shown { self.write_in(self.folder_of(path)?) } else { None };
        }
        self.read(confinement, path)
    }

    /// Writing in the program's own package: with the variable that names another place, if it has one.
    fn in_package(&self, confinement: &Confinement, path: &Path) -> Option<Refusal> {
        // Files may have a new name at each try, so that the folder is named.
        let folder = path.parent()?.to_owned();
        let found = self.place.get_or_init(|| places::variable_for(path)).as_ref();
        Some(match found.filter(|it| !self.spawn.env.contains_key(&it.name)) {
            Some(variable) => {
                let place = variable.place_in(&confinement.workspace);
                Refusal::OwnFile { folder, variable: variable.name.clone(), place }
            }
            None => Refusal::OwnPackage(folder),
        })
    }

    /// Reading a file or folder, if it is there, is not shown, and could be.
    fn read(&self, confinement: &Confinement, path: &Path) -> Option<Refusal> {
        let home = self.host.secrets.home();
        let is_shown = !path.starts_with(SETTINGS)
            && confinement.may_read(path, &self.spawn.args, home.as_deref());
        let may_be_given = path.exists()
            && self.host.processes.trusted().check_readable(path).is_ok()
            && !self.is_secret(path);
        (!is_shown && may_be_given).then(|| Refusal::Read(path.to_owned()))
    }

    /// Writing in a folder, if it could be given.
    fn write_in(&self, folder: PathBuf) -> Option<Refusal> {
        let is_top = folder.parent().is_none_or(|above| above.parent().is_none());
        let is_given = is_top
            || folder.starts_with("/usr")
            || self.host.processes.trusted().check_writable(&folder).is_err();
        (!is_given && !self.is_secret(&folder)).then_some(Refusal::Write(folder))
    }

    /// The folders of the files that the program's own settings name. A database is not named where it can't be
    /// written, and its folder must be writable with it.
    fn databases(&self, confinement: &Confinement) -> Vec<Refusal> {
        let values = self.spawn.args.iter().chain(self.spawn.env.values());
        let words = values.flat_map(|value| value.split('=')).map(Path::new);
        let files = words.filter(|path| path.is_absolute() && !confinement.may_write(path));
        let folders = files.filter(|path| !path.is_dir()).filter_map(Path::parent);
        let folders: BTreeSet<&Path> = folders.filter(|folder| folder.is_dir()).collect();
        let own = self.package();
        let folders = folders.into_iter().filter(|folder| {
            own.is_none_or(|own| !folder.starts_with(own)) && !folder.starts_with("/usr")
        });
        folders.filter_map(|folder| self.write_in(folder.to_owned())).collect()
    }

    fn is_secret(&self, path: &Path) -> bool {
        self.host.secrets.home().is_some_and(|home| is_secret(&home, path))
    }

    /// The folder that the program's package was fetched into, if it was.
    fn package(&self) -> Option<&Path> {
        Path::new(&self.spawn.program).ancestors().find(|tree| {
            let name = |path: Option<&Path>| path.and_then(Path::file_name).map(ToOwned::to_owned);
            let server = tree.parent();
            name(server).is_some_and(|name| name == self.id.as_str())
                && name(server.and_then(Path::parent)).is_some_and(|it| it == DataDir::PACKAGES)
        })
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
            tracing::warn!(server = %self.id, "a server was refused {refusal}; {}", self.advice(refusal));
        }
    }

    /// Whether a host was refused that the program may reach if it is a public one.
    fn leads_inside(&self, refusal: &Refusal) -> bool {
        let Refusal::Host(host) = refusal else { return false };
        let named = host.parse::<Uri>().ok();
        let named = named.as_ref().and_then(|uri| Some((uri.host()?, uri.port_u16())));
        let Some((name, port)) = named else { return false };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        self.spawn.confinement.as_ref().is_some_and(|confinement| {
            let usual = USUAL_PORTS.iter().copied();
            let mut ports = port.into_iter().chain(usual.filter(|_| port.is_none()));
            ports.any(|port| confinement.reach.admits(name, port) == Admission::Public)
        })
    }

    /// What an operator can do about it.
    fn advice(&self, refusal: &Refusal) -> String {
        let id = &self.id;
        if let Some(option) = refusal.option() {
            let inside = if self.leads_inside(refusal) { INSIDE } else { "" };
            return match self.host.allow_command {
                Some(command) => format!("{inside}{ALLOWED_BY} `{command} {id} {option}`"),
                None => format!("{inside}{ALLOWED_BY} `{}` of `{id}`", refusal.key()),
            };
        }
        let own = self.spawn.confinement.as_ref().map(|held| held.workspace.display());
        let own = own.map(|own| format!(", such as `{own}`")).unwrap_or_default();
        format!(
            "packages stay as they were fetched; an operator can name it another place{own}, by the variable (`env`) or argument (`args`) that it has for that, in `[servers.{id}]`"
        )
    }
}

impl RefusedHosts for Refusals {
    fn refused(&self, host: &str, port: u16) {
        let is_address = host.contains(':');
        let host = if is_address { format!("[{host}]") } else { host.to_owned() };
        let rule = if USUAL_PORTS.contains(&port) { host } else { format!("{host}:{port}") };
        // What the configuration would not take is not worth a line.
        if rule.len() <= MAX_NAME && rule.parse::<HostRule>().is_ok() && !rule.contains('*') {
            let refusal = Refusal::Host(rule);
            self.note(&refusal);
            let mut hosts = self.hosts.lock();
            let number = hosts.back().map_or(0, |(number, _)| *number) + 1;
            hosts.push_back((number, refusal));
            if hosts.len() > MAX_REFUSALS {
                hosts.pop_front();
            }
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
/// How shells begin the words for a file that is missing.
const NO_SUCH_FILE: &str = "no such file";
const DENIED: [(&str, Errno); 3] =
    [("EROFS", Errno::ROFS), ("EACCES", Errno::ACCESS), ("EPERM", Errno::PERM)];

fn says(text: &str, failures: &[(&str, Errno)]) -> bool {
    let lower = text.to_ascii_lowercase();
    failures.iter().any(|(sign, errno)| {
        // `No such file or directory (os error 2)`, of which the number is our own.
        let words = std::io::Error::from(*errno).to_string().to_ascii_lowercase();
        let words = words.split(" (").next().unwrap_or_default();
        let is_missing = *errno == Errno::NOENT && lower.contains(NO_SUCH_FILE);
        text.contains(sign) || lower.contains(words) || is_missing
    })
}

/// Words by which programs name what they tried when it was to change files.
const WRITING: [&str; 9] = [
    "mkdir",
    "rmdir",
    "unlink",
    "rename",
    "copyfile",
    "symlink",
    "truncate",
    "unable to create",
    "write",
];
/// How `SQLite`, which names no file, says that it can't write one.
const READ_ONLY_DATABASE: [&str; 2] = ["readonly database", "unable to open database file"];

fn says_any(text: &str, words: &[&str]) -> bool {
    let lower = text.to_ascii_lowercase();
    words.iter().any(|word| lower.contains(word))
}

/// Whether all users of the machine may read it.
fn is_public(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.mode() & ALL_READ != 0)
}

/// The absolute paths that a text mentions: between quotes, or up to the next blank. Of a pattern, the folder.
fn paths(text: &str) -> Vec<&Path> {
    let mut found = BTreeSet::new();
    for quote in ['\'', '"', '`'] {
        found.extend(text.split(quote).skip(1).filter(|part| !part.contains('\n')));
    }
    let is_end = |c: char| c.is_whitespace() || "'\"`<>()[]{},;|".contains(c);
    found.extend(text.split(is_end).map(|word| word.trim_end_matches(['.', ':', '!', '?'])));
    let paths = found.into_iter().filter(|word| word.len() <= MAX_PATH && !word.contains('\0'));
    let paths = paths.map(|word| match word.split_once('*') {
        Some((before, _)) => before.rsplit_once('/').map_or("", |(folder, _)| folder),
        None => word,
    });
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
