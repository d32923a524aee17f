//! Programs that run another one, which stands among their arguments: `docker exec box ls`. They are of
//! use as tools, so the inner command is looked at like an outer one.

mod rows;

use super::names::{self, Kind, kind};
use crate::command::template::words::{Form, Piece, Word};

/// One such program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carrier {
    /// What the inner command stands after.
    verbs: &'static [&'static str],
    pub(super) begins: Begins,
    pub(super) place: Place,
    /// Whether its own arguments end with `--`.
    has_dashes: bool,
    /// Its options with a value in a word of its own.
    valued: &'static [&'static str],
    /// Whether it is only taken for one, because of its words.
    pub(super) is_guess: bool,
}

/// Where the inner command begins, after the verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    /// After options and so many other words.
    After(usize),
    /// After `--`. If there is none, after options and so many other words, where that is known.
    Dashes(Option<usize>),
    /// As in `After`, but options that are not known could have a value, so looked for as well.
    Likely(usize),
    /// Not known: at the first word that names an interpreter.
    Somewhere,
    /// After options; its words are put together and read by a shell.
    Shell,
    /// The same after `--`.
    ShellAfterDashes,
    /// What follows are arguments of a program that it builds.
    Nowhere,
}

/// Where the inner command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the workspace, where callers may write.
    Here,
    /// In a container, or on another machine.
    Elsewhere,
}

const FIND: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];
const FD: &[&str] = &["-x", "-X", "--exec", "--exec-batch"];
/// Options that certainly have none.
const PLAIN: &[&str] = &[
    "-T",
    "-d",
    "-exec",
    "-execdir",
    "-i",
    "-it",
    "-ok",
    "-okdir",
    "-t",
    "-ti",
    "--detach",
    "--init",
    "--interactive",
    "--privileged",
    "--read-only",
    "--rm",
    "--tty",
];

/// How a program carries another one with these arguments, and which word is its verb.
pub(super) fn find(name: &str, arguments: &[Word]) -> Option<(Carrier, usize)> {
    let rows = rows::of(name);
    rows.into_iter().find_map(|carrier| Some((carrier, carrier.verb(arguments, 0)?)))
}

impl Carrier {
    /// The place of the next verb.
    pub(super) fn verb(self, arguments: &[Word], from: usize) -> Option<usize> {
        // What follows an option may be its value: `git log --grep run`.
        let is_value = |at: usize| {
            self.is_doubtful()
                && literal(arguments, at.wrapping_sub(1)).is_some_and(|word| has_value(&word))
        };
        (from..arguments.len()).find(|at| {
            let word = literal(arguments, *at).unwrap_or_default();
            self.verbs.contains(&word.as_str()) && !is_value(*at)
        })
    }

    fn is_doubtful(self) -> bool {
        self.is_guess || self.verbs.contains(&"foreach") || self.verbs.contains(&"tool")
    }

    /// The words after this verb that can belong to the inner command.
    pub(super) fn carried(self, arguments: &[Word], verb: usize) -> &[Word] {
        let rest = arguments.get(verb + 1..).unwrap_or_default();
        if self.verbs != FIND && self.verbs != FD {
            return rest;
        }
        let ends = |word: &Word| word.literal().is_some_and(|word| word == ";" || word == "+");
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    }

    /// The words before the inner command's program among these, options left out; and where it
    /// stands.
    pub(super) fn skip(self, words: &[Word], others: usize) -> (Vec<&Word>, usize) {
        let mut before = Vec::new();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            if literal(words, at).is_some_and(|word| self.takes_next(&word)) {
                // A list as a value could go on with the program.
                before.extend(words.get(at + 1).filter(|value| is_list(value)));
                at += 2;
            } else if word.begins_with("-") || is_flag(word) {
                at += 1;
            } else if before.len() < others {
                before.push(word);
                at += 1;
            } else {
                break;
            }
        }
        (before, at)
    }

    /// Whether the next word is this option's value: `-u`, and `-itu`, but not `-uroot`.
    fn takes_next(self, option: &str) -> bool {
        let is_valued = |letter: char| {
            self.valued
                .iter()
                .any(|it| it.strip_prefix('-').is_some_and(|it| it.chars().eq([letter])))
        };
        let mut letters = option.strip_prefix('-').unwrap_or_default().chars();
        let last = letters.next_back();
        let is_cluster = letters.all(|letter| letter.is_ascii_alphabetic() && !is_valued(letter));
        self.valued.contains(&option) || (is_cluster && last.is_some_and(is_valued))
    }
}

/// How many `--` only end the arguments of an outer program, so that a dash after it is an option of
/// the inner one.
pub(in crate::command::template) fn foreign_dashes(program: &str, arguments: &[Word]) -> usize {
    let inner = arguments.iter().enumerate().filter(|(at, word)| {
        let name = word.literal().map(|word| names::name(&word)).unwrap_or_default();
        let rest = arguments.get(at + 1..).unwrap_or_default();
        let carrier = find(&name, rest);
        carrier.is_some_and(|(carrier, _)| carrier.has_dashes && !carrier.is_guess)
    });
    let inner = inner.count();
    let name = names::name(program);
    let dashes = arguments.iter().position(|word| word.literal().as_deref() == Some("--"));
    let is_before_all = || {
        let first = dashes.and_then(|at| arguments.get(..at)).unwrap_or_default();
        first.iter().all(|word| word.begins_with("-") || is_verb_of_runner(word))
    };
    let own = match kind(&name) {
        Some(Kind::Runner) if matches!(name.as_str(), "npm" | "pnpm" | "yarn") => true,
        Some(Kind::Runner) => is_before_all(),
        Some(_) => false,
        None => find(&name, arguments).is_some_and(|(carrier, _)| carrier.has_dashes),
    };
    inner + usize::from(own)
}

fn is_verb_of_runner(word: &Word) -> bool {
    word.literal().is_some_and(|word| super::languages::RUNS.contains(&word.as_str()))
}

/// `{{name?--flag}}`: an option or nothing.
pub(super) fn is_flag(word: &Word) -> bool {
    matches!(word.pieces.as_slice(), [Piece::Placeholder { form: Form::Flag(flag), .. }] if flag.starts_with('-'))
}

/// `{{name...}}`: as many words as callers like.
pub(super) fn is_list(word: &Word) -> bool {
    word.pieces.iter().any(|piece| matches!(piece, Piece::Placeholder { form: Form::Splat, .. }))
}

/// Whether the word after this one may be an option's value.
pub(super) fn has_value(word: &str) -> bool {
    word.starts_with('-') && !word.contains('=') && word != "--" && !PLAIN.contains(&word)
}

fn literal(words: &[Word], at: usize) -> Option<String> {
    words.get(at).and_then(Word::literal)
}
