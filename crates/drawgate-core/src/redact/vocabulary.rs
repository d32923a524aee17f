//! The words by which secrets are known, read once from `vocabulary.txt`: names of values, words that take
//! them back, and programs with the flags that take a password. A new word needs no code.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::args::Program;
use super::keys::{Begin, Class};
use super::spoken::Trust;

static TEXT: &str = include_str!("vocabulary.txt");

/// The vocabulary of this build.
pub(super) static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let mut vocabulary = Vocabulary::default();
    // A test makes sure that every line is read.
    for line in lines() {
        let _ = vocabulary.read(line);
    }
    vocabulary
});

type Words = HashSet<&'static str>;

/// All words, by their use.
#[derive(Default)]
pub(super) struct Vocabulary {
    /// Words in names of secret values.
    pub(super) names: Vec<(&'static str, Class, Begin)>,
    /// After a name these make it a fact about the secret.
    pub(super) benign: Words,
    /// Before `token` these make it a unit of measure.
    pub(super) quantities: Words,
    /// What may follow a name without a boundary.
    pub(super) tails: Words,
    /// Unquoted values in text that say something about a secret, or are a type.
    pub(super) plain: Words,
    /// Words that announce a secret in a sentence.
    pub(super) announcing: Vec<(&'static str, Trust)>,
    /// Programs with flags of their own.
    pub(super) programs: Vec<Program>,
    /// Flags that take `user:password`.
    pub(super) login_flags: Words,
    /// What follows a flag when a sentence speaks about it.
    pub(super) prose: Words,
}

fn lines() -> impl Iterator<Item = &'static str> {
    TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn words(column: &'static str) -> impl Iterator<Item = &'static str> {
    column.split_ascii_whitespace()
}

impl Vocabulary {
    /// Reads a line; `None` if it has not the form of its kind.
    fn read(&mut self, line: &'static str) -> Option<()> {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        match *columns.as_slice() {
            ["name", class, begin, list] => {
                let (class, begin) = (Class::named(class)?, Begin::named(begin)?);
                self.names.extend(words(list).map(|word| (word, class, begin)));
            }
            ["announce", trust, word] => self.announcing.push((word, Trust::named(trust)?)),
            ["program", names, flags, attached] => self.programs.push(Program {
                names: words(names).collect(),
                flags: words(flags).collect(),
                attached: words(attached).collect(),
            }),
            [kind, list] => self.set(kind)?.extend(words(list)),
            _ => return None,
        }
        Some(())
    }

    fn set(&mut self, kind: &str) -> Option<&mut Words> {
        match kind {
            "benign" => Some(&mut self.benign),
            "quantity" => Some(&mut self.quantities),
            "tail" => Some(&mut self.tails),
            "plain" => Some(&mut self.plain),
            "login" => Some(&mut self.login_flags),
            "prose" => Some(&mut self.prose),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_and_every_kind_has_words() {
        for line in lines() {
            assert!(Vocabulary::default().read(line).is_some(), "{line}");
        }
        let all = &*VOCABULARY;
        for words in
            [&all.benign, &all.quantities, &all.tails, &all.plain, &all.login_flags, &all.prose]
        {
            assert!(!words.is_empty());
        }
        assert!(!all.names.is_empty() && !all.announcing.is_empty() && !all.programs.is_empty());
        let names: HashSet<&str> = all.names.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names.len(), all.names.len(), "each name once");
    }
}
