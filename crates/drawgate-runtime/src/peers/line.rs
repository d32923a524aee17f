//! One line of the list: options, key type, base64, comment, as in sshd's `authorized_keys`.
//!
//! A line counts only if all of it is understood: an option that is not known may be a restriction
//! that its author relies on.

use drawgate_core::model::{Capability, IdError, Principal, SourceId};
use drawgate_sdk::statement::Purpose;
use ssh_key::PublicKey;

use super::KeyTerms;
use super::key::{KeyFault, fingerprint, read_key};
use super::patterns::{PatternError, ToolPatterns};

/// Longest line, in bytes: the largest key with more options than anybody writes.
pub(super) const MAX_LINE: usize = 16 * 1024;

/// Why a line does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// Too long.
    #[error("it is longer than 16384 bytes")]
    TooLong,
    /// Not UTF-8, or with control characters.
    #[error("it is not plain text")]
    NotText,
    /// An option can't be read.
    #[error(transparent)]
    Option(#[from] OptionFault),
    /// It is nobody's, or of two.
    #[error("it must say exactly one of `pack=\"NAME\"` and `agent=\"NAME\"`")]
    Whose,
    /// The name is none.
    #[error(transparent)]
    Name(#[from] IdError),
    /// The name is taken by the gateway itself.
    #[error("`{0}` is kept for other callers; choose another name")]
    Reserved(String),
    /// A pack that may offer nothing.
    #[error("a pack needs `tools=\"PATTERN …\"`, the names that it may offer; `*` means any")]
    NoTools,
    /// An agent offers no tools.
    #[error("`tools` is for packs; what an agent may hold is `capabilities=\"…\"`")]
    ToolsOfAgent,
    /// A pattern is none.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A capability is none.
    #[error("{0}")]
    Capability(String),
    /// The key is not taken.
    #[error(transparent)]
    Key(#[from] KeyFault),
    /// An earlier line says the same of the same key.
    #[error("line {0} has the same key for the same name already, and that one counts")]
    Again(usize),
}

/// What is wrong with an option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionFault {
    /// It has no value in quotes.
    #[error("option `{0}` needs a value in double quotes")]
    Unquoted(String),
    /// The options don't end before the key.
    #[error("there is something after the value of option `{0}` that belongs nowhere")]
    Trailing(String),
    /// Nobody knows it.
    #[error("option `{0}` is not known; use `pack`, `agent`, `tools` and `capabilities`")]
    Unknown(String),
    /// It stands there twice.
    #[error("option `{0}` stands there twice")]
    Twice(&'static str),
}

/// What a line says: nothing, or a key and what it stands for.
pub(super) fn read_line(bytes: &[u8]) -> Result<Option<(PublicKey, KeyTerms)>, LineFault> {
    if bytes.len() > MAX_LINE {
        return Err(LineFault::TooLong);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| LineFault::NotText)?;
    let text = text.trim_matches([' ', '\t', '\r']);
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    if text.contains(|c: char| c.is_control() && c != '\t') {
        return Err(LineFault::NotText);
    }
    let (options, rest) = Options::read(text)?;
    let key = read_key(rest)?;
    let terms = options.terms(&key)?;
    Ok(Some((key, terms)))
}

#[derive(Default)]
struct Options {
    pack: Option<String>,
    agent: Option<String>,
    tools: Option<String>,
    capabilities: Option<String>,
}

impl Options {
    /// Reads the options, if the line begins with some, and returns the rest of it.
    fn read(line: &str) -> Result<(Self, &str), OptionFault> {
        let mut options = Self::default();
        let mut rest = line;
        if is_key_type(rest) {
            return Ok((options, rest));
        }
        loop {
            let end = rest.find(['=', ',', ' ', '\t']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            let name = name.to_ascii_lowercase();
            let shown = || drawgate_core::model::shown_name(&name);
            let Some(slot) = options.slot(&name) else {
                return Err(OptionFault::Unknown(shown()));
            };
            let quoted = after.strip_prefix("=\"").ok_or_else(|| OptionFault::Unquoted(shown()))?;
            let (value, after) = unquote(quoted).ok_or_else(|| OptionFault::Unquoted(shown()))?;
            slot.set(value)?;
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None if after.starts_with([' ', '\t']) || after.is_empty() => {
                    return Ok((options, after.trim_start()));
                }
                None => return Err(OptionFault::Trailing(shown())),
            }
        }
    }

    fn slot(&mut self, name: &str) -> Option<OptionTarget<'_>> {
        let (name, value) = match name {
            "pack" => ("pack", &mut self.pack),
            "agent" => ("agent", &mut self.agent),
            "tools" => ("tools", &mut self.tools),
            "capabilities" => ("capabilities", &mut self.capabilities),
            _ => return None,
        };
        Some(OptionTarget { name, value })
    }

    fn terms(self, key: &PublicKey) -> Result<KeyTerms, LineFault> {
        let tools = self.tools.as_deref().map(ToolPatterns::parse).transpose()?;
        let (purpose, name, tools) = match (self.pack, self.agent) {
            (Some(name), None) => {
                let tools = tools.filter(|tools| !tools.is_empty()).ok_or(LineFault::NoTools)?;
                (Purpose::Pack, SourceId::new(&name)?.as_str().to_owned(), tools)
            }
            (None, Some(name)) if tools.is_none() => {
                let name = Principal::new(&name)?;
                if name == Principal::local() {
                    return Err(LineFault::Reserved(name.into()));
                }
                (Purpose::Agent, name.into(), ToolPatterns::default())
            }
            (None, Some(_)) => return Err(LineFault::ToolsOfAgent),
            (Some(_), Some(_)) | (None, None) => return Err(LineFault::Whose),
        };
        Ok(KeyTerms {
            purpose,
            name,
            tools,
            capabilities: capabilities(self.capabilities.as_deref().unwrap_or_default())?,
            fingerprint: fingerprint(key.key_data()),
            comment: key.comment().to_owned(),
        })
    }
}

/// Where an option's value goes.
struct OptionTarget<'a> {
    name: &'static str,
    value: &'a mut Option<String>,
}

impl OptionTarget<'_> {
    fn set(self, value: String) -> Result<(), OptionFault> {
        match self.value.replace(value) {
            None => Ok(()),
            Some(_) => Err(OptionFault::Twice(self.name)),
        }
    }
}

fn capabilities(text: &str) -> Result<Vec<Capability>, LineFault> {
    let words = text.split_ascii_whitespace().map(Capability::new);
    let all: Result<Vec<Capability>, _> = words.collect();
    let mut all = all.map_err(|error| LineFault::Capability(error.to_string()))?;
    all.sort();
    all.dedup();
    Ok(all)
}

/// Whether the line begins with the key itself. No option of ours has such a name.
fn is_key_type(line: &str) -> bool {
    let word = line.split([' ', '\t']).next().unwrap_or_default();
    !word.contains(['=', ',', '"'])
        && ["ssh-", "ecdsa-", "sk-"].iter().any(|prefix| word.starts_with(prefix))
}

/// The value up to its closing quote, and what follows. `\"` is a quote inside.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' if characters.as_str().starts_with('"') => {
                characters.next();
                value.push('"');
            }
            other => value.push(other),
        }
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
