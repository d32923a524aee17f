//! Command lines, as one string or as an array: the value after `--token`, the password in
//! `-u user:password`, and the short flags of programs that take a password.

use super::extent::{byte, skip};
use super::keys::{Class, classify};
use super::spans::Spans;
use super::vocabulary::VOCABULARY;
use super::words::{is_no_secret, looks_random};

/// What to hide of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    Keep,
    All,
    /// From this byte on.
    From(usize),
}

/// What the flag before an argument says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Nothing,
    Secret,
    /// `user:password`
    Login,
    /// `-p` of an unknown program: a port, a path, a project or a password.
    Perhaps,
}

/// Reads arguments one after the other.
#[derive(Debug)]
pub(super) struct Arguments {
    program: Option<&'static Program>,
    expect: Expect,
    prose: bool,
}

/// Programs, and the flags by which they take a password.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) names: Vec<&'static str>,
    /// Flags whose next argument is a password.
    pub(super) flags: Vec<&'static str>,
    /// Flags that have the password attached.
    pub(super) attached: Vec<&'static str>,
}

impl Arguments {
    /// Arguments that were separate from the start.
    pub(super) const fn argv() -> Self {
        Self { program: None, expect: Expect::Nothing, prose: false }
    }

    const fn line() -> Self {
        Self { prose: true, ..Self::argv() }
    }

    /// What to hide of the next argument.
    pub(super) fn next(&mut self, word: &str) -> Argument {
        let hidden = match std::mem::replace(&mut self.expect, Expect::Nothing) {
            Expect::Nothing => None,
            Expect::Secret => self.secret(word),
            Expect::Login => password_of(word),
            Expect::Perhaps => perhaps(word),
        };
        hidden.unwrap_or_else(|| self.flag(word))
    }

    fn secret(&self, word: &str) -> Option<Argument> {
        let spoken = self.prose && VOCABULARY.prose.contains(word);
        (!word.starts_with("--") && !spoken && !is_no_secret(word)).then_some(Argument::All)
    }

    fn flag(&mut self, word: &str) -> Argument {
        if !word.starts_with('-') {
            let base = word.rsplit('/').next().unwrap_or(word);
            if let Some(found) =
                VOCABULARY.programs.iter().find(|program| program.names.contains(&base))
            {
                self.program = Some(found);
            }
            return Argument::Keep;
        }
        if let Some(program) = self.program {
            if program.flags.contains(&word) {
                self.expect = Expect::Secret;
                return Argument::Keep;
            }
            let attached = program.attached.iter().find(|flag| word.starts_with(**flag));
            if let Some(flag) = attached.filter(|flag| word.len() > flag.len()) {
                return Argument::From(flag.len());
            }
        }
        self.general_flag(word)
    }

    fn general_flag(&mut self, word: &str) -> Argument {
        let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        if VOCABULARY.login_flags.contains(name) {
            self.expect = if value.is_none() { Expect::Login } else { Expect::Nothing };
            let at = value.and_then(password_at).map(|at| name.len() + 1 + at);
            return at.map_or(Argument::Keep, Argument::From);
        }
        let secret = is_secret_flag(name);
        match value {
            Some(value) if secret && !is_no_secret(value) => Argument::From(name.len() + 1),
            None if secret => {
                self.expect = Expect::Secret;
                Argument::Keep
            }
            None if name == "-p" && self.program.is_none() => {
                self.expect = Expect::Perhaps;
                Argument::Keep
            }
            None => attached_login(word).map_or(Argument::Keep, Argument::From),
            Some(_) => Argument::Keep,
        }
    }
}

/// `-uadmin:password`
fn attached_login(word: &str) -> Option<usize> {
    let login = word.strip_prefix("-u")?;
    password_at(login).map(|at| at + 2)
}

fn is_secret_flag(name: &str) -> bool {
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    match classify(name) {
        Class::Secret | Class::Header => is_name,
        Class::Counting => is_name && name.ends_with("pass"),
        Class::Plain | Class::Weak => false,
    }
}

/// Where the password of `user:password` begins. `1000:1000` is a user and a group.
fn password_at(login: &str) -> Option<usize> {
    let at = login.find(':').or_else(|| login.find('%'))?;
    let password = login.get(at + 1..)?;
    let ids = login.bytes().all(|b| b.is_ascii_digit() || b == b':');
    (!ids && !is_no_secret(password)).then_some(at + 1)
}

fn password_of(word: &str) -> Option<Argument> {
    password_at(word).map(Argument::From)
}

fn perhaps(word: &str) -> Option<Argument> {
    let path = word.contains('/') || word.starts_with(['.', '-']) || word.contains(':');
    (!path && looks_random(word, 10)).then_some(Argument::All)
}

/// Notes the secrets of command lines in the text.
pub(super) fn find(text: &str, spans: &mut Spans) {
    if !text.starts_with('-') && !text.contains(" -") && !text.contains("\t-") {
        return;
    }
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        find_in_line(text, line, start, spans);
        start += line.len();
    }
}

fn find_in_line(text: &str, line: &str, offset: usize, spans: &mut Spans) {
    let bytes = line.as_bytes();
    let mut arguments = Arguments::line();
    let mut at = 0;
    loop {
        let start = skip(bytes, at, |b| b.is_ascii_whitespace());
        let Some(first) = byte(bytes, start) else { return };
        if is_operator(first) {
            // What follows is a command of its own.
            arguments = Arguments::line();
            at = start + 1;
            continue;
        }
        let (from, to, next) = word(bytes, start, first);
        let hidden = match arguments.next(line.get(from..to).unwrap_or_default()) {
            Argument::Keep => to,
            Argument::All => from,
            Argument::From(at) => from + at,
        };
        spans.push_value(text, offset + hidden..offset + to);
        at = next;
    }
}

/// What ends a word of a shell and begins another command, or names a file.
const fn is_operator(byte: u8) -> bool {
    matches!(byte, b';' | b'|' | b'&' | b'<' | b'>')
}

/// The content of the word at `start`, and where to go on.
fn word(bytes: &[u8], start: usize, first: u8) -> (usize, usize, usize) {
    if matches!(first, b'"' | b'\'') {
        let end = skip(bytes, start + 1, |b| b != first);
        return (start + 1, end.max(start + 1), end + 1);
    }
    let mut end = start;
    while let Some(next) = byte(bytes, end) {
        if next.is_ascii_whitespace() || is_operator(next) {
            break;
        }
        // A quote in the middle, as in `--token="a b"`, takes the spaces up to its end.
        let quoted =
            matches!(next, b'"' | b'\'') && end > start && byte(bytes, end - 1) == Some(b'=');
        end = if quoted { skip(bytes, end + 1, |b| b != next) + 1 } else { end + 1 };
    }
    let end = end.min(bytes.len());
    // A quote that only closes belongs to what is around the word.
    let is_quote = |b: &u8| matches!(b, b'"' | b'\'' | b'`');
    let quotes = bytes.get(start..end).unwrap_or_default().iter().filter(|b| is_quote(b)).count();
    let closes = quotes == 1 && byte(bytes, end - 1).is_some_and(|b| is_quote(&b));
    let trimmed = if closes { end - 1 } else { end };
    (start, trimmed, end)
}
