//! The whole list: which keys count, what they stand for, and which lines can't be used.

use std::collections::BTreeMap;
use std::sync::Arc;

use drawgate_sdk::statement::Purpose;
use ssh_key::PublicKey;

use super::line::{LineFault, read_line};
use super::{FileProblem, KeyTerms, Refusal};

/// What some editors put before the first line.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A line that counts.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number, from 1.
    pub line: usize,
    /// The key.
    pub key: PublicKey,
    /// What it stands for.
    pub terms: Arc<KeyTerms>,
}

/// The authorised keys.
#[derive(Debug, Default)]
pub struct KeyList {
    entries: Vec<Entry>,
    by_key: BTreeMap<String, Vec<usize>>,
    faults: Vec<(usize, LineFault)>,
    problem: Option<FileProblem>,
}

/// Which keys are meant: all that fit everything that is said.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// This key.
    pub fingerprint: Option<String>,
    /// Keys of this name.
    pub name: Option<(Purpose, String)>,
}

impl KeyList {
    /// Reads a list. Agents may not have names that begin with `reserved`.
    #[must_use]
    pub fn read(bytes: &[u8], reserved: Option<&str>) -> Self {
        let mut list = Self::default();
        for (line, text) in lines(bytes) {
            match read_line(text).and_then(|read| list.admit(line, read, reserved)) {
                Ok(()) => {}
                Err(fault) => list.faults.push((line, fault)),
            }
        }
        list
    }

    /// No key counts, and this is why.
    #[must_use]
    pub fn unusable(problem: FileProblem) -> Self {
        Self { problem: Some(problem), ..Self::default() }
    }

    /// The lines that count.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The lines that don't, by number, and why.
    #[must_use]
    pub fn faults(&self) -> &[(usize, LineFault)] {
        &self.faults
    }

    /// Why no key counts.
    #[must_use]
    pub fn problem(&self) -> Option<&FileProblem> {
        self.problem.as_ref()
    }

    /// The line by which a key stands for a name.
    pub fn find(&self, key: &str, purpose: Purpose, name: &str) -> Result<&Entry, Refusal> {
        let lines = self.by_key.get(key).ok_or(Refusal::UnknownKey)?;
        let mut entries = lines.iter().filter_map(|at| self.entries.get(*at));
        let found =
            entries.find(|entry| entry.terms.purpose == purpose && entry.terms.name == name);
        found.ok_or(Refusal::WrongName)
    }

    /// Whether a key still stands for the same.
    #[must_use]
    pub fn has(&self, terms: &KeyTerms) -> bool {
        let found = self.find(&terms.fingerprint, terms.purpose, &terms.name);
        found.is_ok_and(|entry| entry.terms.is_same(terms))
    }

    fn admit(
        &mut self,
        line: usize,
        read: Option<(PublicKey, KeyTerms)>,
        reserved: Option<&str>,
    ) -> Result<(), LineFault> {
        let Some((key, terms)) = read else { return Ok(()) };
        let is_reserved = reserved.is_some_and(|prefix| terms.name.starts_with(prefix));
        if terms.purpose == Purpose::Agent && is_reserved {
            return Err(LineFault::Reserved(terms.name));
        }
        if let Ok(earlier) = self.find(&terms.fingerprint, terms.purpose, &terms.name) {
            return Err(LineFault::Again(earlier.line));
        }
        self.by_key.entry(terms.fingerprint.clone()).or_default().push(self.entries.len());
        self.entries.push(Entry { line, key, terms: Arc::new(terms) });
        Ok(())
    }
}

impl Selection {
    /// Whether it says nothing, and would mean all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.fingerprint.is_none() && self.name.is_none()
    }

    /// Whether these terms are meant.
    #[must_use]
    pub fn includes(&self, terms: &KeyTerms) -> bool {
        let by_key = self.fingerprint.as_ref().is_none_or(|it| *it == terms.fingerprint);
        let by_name = self
            .name
            .as_ref()
            .is_none_or(|(purpose, name)| *purpose == terms.purpose && *name == terms.name);
        by_key && by_name
    }
}

/// The text without the lines of the selected keys, and what those stood for. Every other byte stays.
pub(super) fn without(bytes: &[u8], selection: &Selection) -> (Vec<u8>, Vec<KeyTerms>) {
    let (mut kept, mut gone) = (Vec::with_capacity(bytes.len()), Vec::new());
    for whole in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        match read_line(line) {
            Ok(Some((_, terms))) if selection.includes(&terms) => gone.push(terms),
            _ => kept.extend_from_slice(whole),
        }
    }
    (kept, gone)
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    (1..).zip(bytes.split(|byte| *byte == b'\n'))
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
