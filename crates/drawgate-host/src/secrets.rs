//! `env:NAME` references in what the operator writes, and the memory of every value they gave.
//!
//! The variables come from an [`Environment`] that the embedder gives. Values leave this module inside
//! [`Resolved`], which does not print them; [`Secrets::known_values`] is for the redactor, which must
//! know what to mask.

use std::collections::BTreeMap;
use std::ffi::OsString;

use drawgate_core::redact::Redactor;
use drawgate_core::secret::Secret;
use parking_lot::Mutex;

/// What a reference to a variable begins with.
const REFERENCE: &str = "env:";

/// Why a reference can't stand in a command line, and what to do.
pub const NOT_IN_COMMAND_LINES: &str = "`env:NAME` can't stand in a command line, which other users of \
     this machine can read; write it in `env`, in a header of a server with `url`, or in a file that the \
     program reads";

/// Whether a string is a reference to a variable, good or bad.
#[must_use]
pub fn is_reference(text: &str) -> bool {
    text.starts_with(REFERENCE)
}

/// Whether a word of a command line refers to a variable: as a whole, or behind `=` as in `--key=env:NAME`.
#[must_use]
pub fn has_reference(word: &str) -> bool {
    let value = word.split_once('=').and_then(|(_, value)| value.strip_prefix(REFERENCE));
    is_reference(word) || value.is_some_and(is_name)
}

/// Where variables come from.
pub trait Environment: Send + Sync + 'static {
    /// The variable's value, if it is set.
    fn get(&self, name: &str) -> Option<OsString>;

    /// All variables whose names are text.
    fn all(&self) -> Vec<(String, OsString)>;
}

impl Environment for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<OsString> {
        self.get(name).map(OsString::from)
    }

    fn all(&self) -> Vec<(String, OsString)> {
        self.iter().map(|(name, value)| (name.clone(), value.into())).collect()
    }
}

/// A configured string after its reference, if it was one, has been followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// It stood in the configuration as it is.
    Plain(String),
    /// It came from the environment.
    Secret(Secret<String>),
}

impl Resolved {
    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(secret) => secret.expose(),
        }
    }
}

/// Why a reference can't be followed. Never contains a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The variable is not set.
    #[error(
        "the environment variable `{0}` is not set; set it, or change the `env:{0}` that refers to it"
    )]
    Missing(String),
    /// The variable is not text.
    #[error("the environment variable `{0}` is not valid UTF-8")]
    NotText(String),
    /// What follows `env:` can't be a variable's name.
    #[error("`env:` must be followed by a variable's name, such as `env:API_TOKEN`")]
    Name,
}

/// Where a known value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Environment,
    Told,
}

/// Who hears of every change.
type Listener = Box<dyn Fn(&[&str]) + Send + Sync>;

/// Follows references and remembers what they gave.
pub struct Secrets {
    environment: Box<dyn Environment>,
    known: Mutex<BTreeMap<String, Origin>>,
    listener: Mutex<Option<Listener>>,
}

impl Secrets {
    /// Secrets that come from this environment.
    pub fn new(environment: impl Environment) -> Self {
        Self {
            environment: Box::new(environment),
            known: Mutex::default(),
            listener: Mutex::default(),
        }
    }

    /// A string that starts with `env:` is replaced whole by the variable's value.
    pub fn resolve(&self, text: &str) -> Result<Resolved, SecretError> {
        let Some(name) = text.strip_prefix(REFERENCE) else {
            return Ok(Resolved::Plain(text.to_owned()));
        };
        if !is_name(name) {
            return Err(SecretError::Name);
        }
        let value =
            self.environment.get(name).ok_or_else(|| SecretError::Missing(name.to_owned()))?;
        let value = value.into_string().map_err(|_| SecretError::NotText(name.to_owned()))?;
        let is_new = self.note(&value, Origin::Environment);
        if is_new && Redactor::is_too_short(&value) {
            tracing::warn!(
                variable = name,
                "the value of this variable is too short to be masked in logs and results; use a longer secret"
            );
        }
        Ok(Resolved::Secret(Secret::new(value)))
    }

    /// The user's home folder.
    #[must_use]
    pub fn home(&self) -> Option<std::path::PathBuf> {
        self.environment.get("HOME").filter(|home| !home.is_empty()).map(Into::into)
    }

    /// Adds a value that must be masked wherever it appears.
    pub fn remember(&self, value: &str) {
        self.note(value, Origin::Told);
    }

    /// Forgets a value that is worth nothing any more, such as a token that was renewed long ago. One
    /// that came from the environment stays known.
    pub fn forget(&self, value: &str) {
        let mut known = self.known.lock();
        if known.get(value) == Some(&Origin::Told) {
            known.remove(value);
            self.tell_of(&known);
        }
    }

    /// Every value that was resolved or remembered, in order.
    #[must_use]
    pub fn known_values(&self) -> Vec<String> {
        self.known.lock().keys().cloned().collect()
    }

    /// Has a listener told all known values, now and after each change. It has heard of a value when
    /// the call that gave it returns: nobody can use a secret that is not masked yet.
    pub fn tell(&self, listener: impl Fn(&[&str]) + Send + Sync + 'static) {
        let known = self.known.lock();
        *self.listener.lock() = Some(Box::new(listener));
        self.tell_of(&known);
    }

    /// The caller's lock keeps the changes in order.
    fn tell_of(&self, known: &BTreeMap<String, Origin>) {
        if let Some(listener) = &*self.listener.lock() {
            listener(&known.keys().map(String::as_str).collect::<Vec<_>>());
        }
    }

    /// Adds a value; `false` if there is none, or if it was known before.
    fn note(&self, value: &str, origin: Origin) -> bool {
        if value.is_empty() {
            return false;
        }
        let mut known = self.known.lock();
        let before = known.get(value).copied();
        known.insert(value.to_owned(), before.map_or(origin, |before| before.min(origin)));
        if before.is_none() {
            self.tell_of(&known);
        }
        before.is_none()
    }

    /// Whether a variable has a value.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.environment.get(name).is_some_and(|value| !value.is_empty())
    }

    /// All variables.
    pub(crate) fn variables(&self) -> Vec<(String, OsString)> {
        self.environment.all()
    }

    /// A variable that is no secret, such as `PATH`.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        self.environment.get(name)
    }
}

fn is_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        Secrets::new(BTreeMap::from([
            ("TOKEN".to_owned(), "hunter2".to_owned()),
            ("EMPTY".to_owned(), String::new()),
        ]))
    }

    #[test]
    fn a_reference_is_replaced_whole_and_not_printed() {
        let secrets = secrets();
        let resolved = secrets.resolve("env:TOKEN").unwrap();
        assert_eq!(resolved.expose(), "hunter2");
        assert!(!format!("{resolved:?}").contains("hunter2"));
        assert_eq!(
            secrets.resolve("Bearer env:TOKEN").unwrap(),
            Resolved::Plain("Bearer env:TOKEN".to_owned())
        );
    }

    #[test]
    fn errors_name_the_variable() {
        let secrets = secrets();
        let message = |text| secrets.resolve(text).unwrap_err().to_string();
        assert!(message("env:ABSENT").contains("`ABSENT` is not set"));
        for bad in ["env:", "env:1A", "env:A B", "env:A=B", "env:${A}"] {
            assert_eq!(secrets.resolve(bad).unwrap_err(), SecretError::Name, "{bad}");
        }
    }

    /// What a listener is told, time after time.
    fn listen(secrets: &Secrets) -> std::sync::Arc<Mutex<Vec<String>>> {
        let heard = std::sync::Arc::new(Mutex::new(Vec::new()));
        let told = heard.clone();
        secrets.tell(move |known| told.lock().push(known.join(" ")));
        heard
    }

    #[test]
    fn every_value_is_remembered_once_and_announced() {
        let secrets = secrets();
        let heard = listen(&secrets);
        for _ in 0..2 {
            secrets.resolve("env:TOKEN").unwrap();
            secrets.resolve("env:EMPTY").unwrap();
        }
        secrets.remember("other");
        assert_eq!(secrets.known_values(), ["hunter2", "other"]);
        assert_eq!(*heard.lock(), ["", "hunter2", "hunter2 other"]);
    }

    #[test]
    fn what_is_worth_nothing_is_forgotten() {
        let secrets = secrets();
        let heard = listen(&secrets);
        secrets.remember("hunter2");
        secrets.resolve("env:TOKEN").unwrap();
        secrets.remember("other");
        for value in ["hunter2", "other", "absent"] {
            secrets.forget(value);
        }
        assert_eq!(secrets.known_values(), ["hunter2"], "the environment still has it");
        assert_eq!(*heard.lock(), ["", "hunter2", "hunter2 other", "hunter2"]);
    }
}
