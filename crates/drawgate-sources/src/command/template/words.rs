//! A template as words. Quotes group, blanks separate; nothing is expanded, and whatever only a shell
//! could mean is refused, so that an author does not rely on it.

use drawgate_core::registry::visible_text;

use super::TemplateError;

/// What a shell would act upon outside of quotes.
const META: &str = "$`|;&<>()*?[]{}\\";
/// What it would act upon at the beginning of a word.
const META_AT_START: &str = "~#";
/// What it would act upon even in double quotes.
const META_IN_DOUBLE: &str = "$`\\";
/// What may follow the name in `{{name?--flag}}`, beside letters and digits.
const FLAG_MARKS: &str = "-_=.,:/@%+";

/// One argument of the command, or several where it is a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) pieces: Vec<Piece>,
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// As the author wrote it.
    Literal(String),
    /// What the caller gives.
    Placeholder { name: String, form: Form },
}

/// How a parameter is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// `{{name}}`: its value.
    Value,
    /// `{{name...}}`: each element of a list, as an argument of its own.
    Splat,
    /// `{{name?--flag}}`: this text if it is true.
    Flag(String),
}

impl Word {
    /// The text of a word without placeholders.
    pub(super) fn literal(&self) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Placeholder { .. } => return None,
            }
        }
        Some(text)
    }

    /// Whether it is exactly this text.
    pub(super) fn is(&self, text: &str) -> bool {
        self.literal().as_deref() == Some(text)
    }

    /// The author's own text at its beginning, or the flag of `{{name?--flag}}`, if that is an option.
    pub(super) fn option(&self) -> Option<&str> {
        let text = match self.pieces.first()? {
            Piece::Literal(text) | Piece::Placeholder { form: Form::Flag(text), .. } => text,
            Piece::Placeholder { form: Form::Value | Form::Splat, .. } => return None,
        };
        Some(text.as_str()).filter(|text| text.len() > 1 && text.starts_with(['-', '+']))
    }

    /// `{{name?--flag}}`: a flag or nothing.
    pub(super) fn is_flag(&self) -> bool {
        matches!(self.pieces.as_slice(), [Piece::Placeholder { form: Form::Flag(_), .. }])
    }

    /// `{{name...}}`: as many words as callers like.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.pieces.as_slice(), [Piece::Placeholder { form: Form::Splat, .. }])
    }

    /// The first parameter in it.
    pub(super) fn parameter(&self) -> &str {
        let name = self.pieces.iter().find_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Placeholder { name, .. } => Some(name.as_str()),
        });
        name.unwrap_or_default()
    }

    pub(super) fn fixed(text: String) -> Self {
        Self { pieces: vec![Piece::Literal(text)] }
    }

    fn push(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Literal(last)) => last.push_str(text),
            Some(Piece::Placeholder { .. }) | None => {
                self.pieces.push(Piece::Literal(text.to_owned()));
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    Single,
    Double,
}

/// Splits a template.
pub(super) fn split(template: &str) -> Result<Vec<Word>, TemplateError> {
    if let Some(control) = template.chars().find(|c| c.is_control() && *c != '\t') {
        return Err(TemplateError::ShellMeta(control));
    }
    if let Some(hidden) = template.chars().find(|c| is_hidden(*c)) {
        return Err(TemplateError::Hidden(hidden));
    }
    let mut splitter = Splitter { words: Vec::new(), word: None, quote: Quote::None };
    let mut rest = template;
    while let Some(next) = rest.chars().next() {
        rest = if let Some(inner) = rest.strip_prefix("{{") {
            let (piece, after) = placeholder(inner)?;
            splitter.word.get_or_insert_default().pieces.push(piece);
            after
        } else if let (Quote::None, Some(after)) = (splitter.quote, rest.strip_prefix("{}")) {
            // What `find -exec` replaces; no shell touches it.
            splitter.word.get_or_insert_default().push("{}");
            after
        } else if splitter.quote == Quote::None && rest.starts_with("}}") {
            return Err(TemplateError::Placeholder("`}}` without `{{`"));
        } else {
            splitter.take(next)?;
            rest.strip_prefix(next).unwrap_or_default()
        };
    }
    splitter.finish()
}

struct Splitter {
    words: Vec<Word>,
    word: Option<Word>,
    quote: Quote,
}

impl Splitter {
    fn take(&mut self, c: char) -> Result<(), TemplateError> {
        match (self.quote, c) {
            (Quote::None, ' ' | '\t') => self.words.extend(self.word.take()),
            // It looks like the end of a word, and is none.
            (Quote::None, c) if c.is_whitespace() => return Err(TemplateError::Hidden(c)),
            (Quote::None, '\'') => self.open(Quote::Single),
            (Quote::None, '"') => self.open(Quote::Double),
            (Quote::Single, '\'') | (Quote::Double, '"') => self.quote = Quote::None,
            (Quote::None, c) if META.contains(c) => return Err(TemplateError::ShellMeta(c)),
            (Quote::None, c) if self.word.is_none() && META_AT_START.contains(c) => {
                return Err(TemplateError::ShellMeta(c));
            }
            (Quote::Double, c) if META_IN_DOUBLE.contains(c) => {
                return Err(TemplateError::ShellMeta(c));
            }
            (Quote::None | Quote::Single | Quote::Double, c) => {
                self.word.get_or_insert_default().push(c.encode_utf8(&mut [0; 4]));
            }
        }
        Ok(())
    }

    /// Even empty quotes are a word.
    fn open(&mut self, quote: Quote) {
        self.quote = quote;
        self.word.get_or_insert_default();
    }

    fn finish(mut self) -> Result<Vec<Word>, TemplateError> {
        if self.quote != Quote::None {
            return Err(TemplateError::Quote);
        }
        self.words.extend(self.word.take());
        Ok(self.words)
    }
}

/// Reads what follows `{{`, and returns what follows `}}`.
fn placeholder(text: &str) -> Result<(Piece, &str), TemplateError> {
    let bad = TemplateError::Placeholder;
    if text.starts_with('{') {
        return Err(bad("three braces, or a placeholder within a placeholder"));
    }
    let (inner, rest) = text.split_once("}}").ok_or_else(|| bad("`{{` without `}}`"))?;
    if rest.starts_with('}') || inner.contains(['{', '}']) {
        return Err(bad("three braces, or a placeholder within a placeholder"));
    }
    let inner = inner.trim_matches(' ');
    let (name, form) = if let Some((name, flag)) = inner.split_once('?') {
        if !is_flag(flag) {
            return Err(bad("after `?` comes one word, as in `{{verbose?--verbose}}`"));
        }
        (name, Form::Flag(flag.to_owned()))
    } else if let Some(name) = inner.strip_suffix("...") {
        (name, Form::Splat)
    } else {
        (inner, Form::Value)
    };
    if !is_name(name) {
        return Err(bad("a placeholder holds the name of one parameter and nothing else"));
    }
    Ok((Piece::Placeholder { name: name.to_owned(), form }, rest))
}

fn is_hidden(c: char) -> bool {
    !visible_text(c.encode_utf8(&mut [0; 4])).chars().eq([c])
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn is_flag(flag: &str) -> bool {
    !flag.is_empty() && flag.chars().all(|c| c.is_ascii_alphanumeric() || FLAG_MARKS.contains(c))
}
