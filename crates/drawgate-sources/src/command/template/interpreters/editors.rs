//! `awk` and `sed`: their first argument is a program, which must be fixed but for numbers, as in
//! `sed -n {{from}},{{to}}p`. To know which argument is the first, their options must be known.

use super::carriers::{is_flag, is_list};
use super::{Command, Form, Parameter, Piece, TemplateError, Word, refuse};

/// The options of a family of editors.
struct Options {
    /// Letters without a value.
    flags: &'static str,
    /// Letters with a value only in the same word.
    joined: &'static str,
    /// Letters and names with a value that is data.
    data: (&'static str, &'static [&'static str]),
    /// The same with one that is a library, which is code beside the program.
    libraries: (&'static str, &'static [&'static str]),
    /// The same with one that is the program, or a file of it.
    code: (&'static str, &'static [&'static str]),
    /// Names without a value.
    names: &'static [&'static str],
}

const SED: Options = Options {
    flags: "nErsuzba",
    joined: "i",
    data: ("l", &["line-length"]),
    libraries: ("", &[]),
    code: ("ef", &["expression", "file"]),
    names: &[
        "binary",
        "debug",
        "follow-symlinks",
        "in-place",
        "null-data",
        "posix",
        "quiet",
        "regexp-extended",
        "sandbox",
        "separate",
        "silent",
        "unbuffered",
        "zero-terminated",
    ],
};
const AWK: Options = Options {
    flags: "bcCgIkMnNOPrsSt",
    joined: "dDLop",
    data: ("Fv", &["field-separator", "assign"]),
    libraries: ("ilW", &["include", "load"]),
    code: ("feE", &["file", "source", "exec"]),
    names: &[
        "bignum",
        "characters-as-bytes",
        "csv",
        "lint",
        "no-optimize",
        "non-decimal-data",
        "optimize",
        "posix",
        "re-interval",
        "sandbox",
        "traditional",
        "use-lc-numeric",
    ],
};

/// What an option means for the words around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    Flag,
    DataNext,
    LibraryNext,
    CodeNext,
    /// It has brought the program in its own word.
    CodeHere,
    DataHere,
    Unknown,
}

pub(super) fn check(command: &Command<'_>) -> Result<(), TemplateError> {
    let options = if command.name.ends_with("awk") { &AWK } else { &SED };
    let mut reader =
        Reader { command, options, before: Means::Flag, is_found: false, is_end: false };
    command.arguments.iter().try_for_each(|word| reader.take(word))
}

struct Reader<'a> {
    command: &'a Command<'a>,
    options: &'static Options,
    /// What the word before asks for.
    before: Means,
    /// Whether the program has come.
    is_found: bool,
    /// Whether `--` has come.
    is_end: bool,
}

impl Reader<'_> {
    fn take(&mut self, word: &Word) -> Result<(), TemplateError> {
        match std::mem::replace(&mut self.before, Means::Flag) {
            Means::CodeNext => {
                self.is_found = true;
                return self.must(self.is_fixed(word));
            }
            Means::LibraryNext => return self.must(self.is_fixed(word)),
            // A list could go on with the program.
            Means::DataNext => return self.must(self.is_found || !is_list(word)),
            Means::Unknown if !self.is_end && !word.begins_with("-") => {
                // Perhaps its value, perhaps the program.
                return self.must(self.is_found || self.is_fixed(word));
            }
            Means::Unknown | Means::Flag | Means::CodeHere | Means::DataHere => {}
        }
        if !self.is_end && (word.begins_with("-") || is_flag(word)) {
            return self.option(word);
        }
        if self.is_found {
            return Ok(());
        }
        // `sed -i '' …`: elsewhere than in GNU, that is the ending of a copy's name.
        self.is_found = word.literal().is_none_or(|word| !word.is_empty());
        self.must(self.is_fixed(word))
    }

    fn option(&mut self, word: &Word) -> Result<(), TemplateError> {
        if let [Piece::Placeholder { form: Form::Flag(flag), .. }] = word.pieces.as_slice() {
            let is_plain = matches!(self.options.read(flag), Means::Flag | Means::DataHere);
            return self.must(is_plain);
        }
        let text = word.first_literal().unwrap_or_default();
        let is_whole = word.literal().is_some();
        if is_whole && text == "--" {
            self.is_end = true;
            return Ok(());
        }
        let read = self.options.read(text);
        match read {
            Means::DataHere if !is_whole => return Ok(()),
            Means::CodeHere => self.is_found = true,
            Means::Flag
            | Means::DataNext
            | Means::LibraryNext
            | Means::CodeNext
            | Means::DataHere
            | Means::Unknown => self.before = read,
        }
        self.must(self.is_fixed(word))
    }

    /// Numbers can't hold code, but one that is left out would make the next word the program.
    fn is_fixed(&self, word: &Word) -> bool {
        let is_number = |name: &str| {
            let parameter = self.command.parameter(name);
            parameter.is_some_and(|it| Parameter::is_numeric(it) && it.is_always_there())
        };
        word.pieces.iter().all(|piece| match piece {
            Piece::Literal(_) => true,
            Piece::Placeholder { name, form: Form::Value } => is_number(name),
            Piece::Placeholder { form: Form::Splat | Form::Flag(_), .. } => false,
        })
    }

    fn must(&self, is_good: bool) -> Result<(), TemplateError> {
        if is_good {
            return Ok(());
        }
        refuse(format!(
            "`{}` runs its first argument, which must be fixed, or made of numbers that are always given; write it before everything that a caller gives",
            self.command.name
        ))
    }
}

impl Options {
    fn read(&self, option: &str) -> Means {
        match option.strip_prefix("--") {
            Some(long) => self.long(long),
            None => self.cluster(option.trim_start_matches('-')),
        }
    }

    /// Names may be shortened: `--expr`.
    fn long(&self, long: &str) -> Means {
        let (long, is_joined) = match long.split_once('=') {
            Some((long, _)) => (long, true),
            None => (long, false),
        };
        let is_in = |names: &[&str]| names.iter().any(|name| name.starts_with(long));
        match is_joined {
            true if is_in(self.code.1) => Means::CodeHere,
            false if is_in(self.code.1) => Means::CodeNext,
            true if is_in(self.libraries.1) => Means::Flag,
            false if is_in(self.libraries.1) => Means::LibraryNext,
            true if is_in(self.data.1) => Means::DataHere,
            false if is_in(self.data.1) => Means::DataNext,
            true | false if is_in(self.names) => Means::Flag,
            true | false => Means::Unknown,
        }
    }

    fn cluster(&self, letters: &str) -> Means {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let is_last = rest.as_str().is_empty();
            match letter {
                letter if self.flags.contains(letter) => {}
                letter if self.joined.contains(letter) => return Means::Flag,
                letter if self.data.0.contains(letter) && is_last => return Means::DataNext,
                letter if self.data.0.contains(letter) => return Means::DataHere,
                letter if self.libraries.0.contains(letter) && is_last => {
                    return Means::LibraryNext;
                }
                letter if self.libraries.0.contains(letter) => return Means::Flag,
                letter if self.code.0.contains(letter) && is_last => return Means::CodeNext,
                letter if self.code.0.contains(letter) => return Means::CodeHere,
                _ => return Means::Unknown,
            }
        }
        Means::Flag
    }
}
