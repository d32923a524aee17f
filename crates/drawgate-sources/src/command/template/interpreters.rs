//! Programs that run what their arguments say.
//!
//! Splitting a template keeps an argument one argument; it does not help if the program itself reads
//! that argument as code. So these programs may run a fixed script and nothing else, or are refused.
//! The same holds where such a program stands among the arguments of another one.

mod carriers;
mod editors;
mod languages;
mod names;
mod options;

use super::TemplateError;
use super::parameters::{Parameter, Parameters};
use super::words::{Form, Piece, Word};
pub(super) use carriers::foreign_dashes;
use carriers::{Begins, Carrier, Place};
use names::{Kind, kind, name};

/// Refuses a template whose arguments would be run. Returns the place of an interpreter's script
/// among the arguments.
pub(super) fn check(
    program: &str,
    arguments: &[Word],
    parameters: &Parameters,
) -> Result<Option<usize>, TemplateError> {
    nothing_hidden(arguments)?;
    Command::new(program, arguments, parameters, Place::Here).check()
}

/// A program with its arguments, alone or within another command.
struct Command<'a> {
    name: String,
    arguments: &'a [Word],
    parameters: &'a Parameters,
    place: Place,
}

impl<'a> Command<'a> {
    fn new(program: &str, arguments: &'a [Word], parameters: &'a Parameters, place: Place) -> Self {
        Self { name: name(program), arguments, parameters, place }
    }

    fn check(&self) -> Result<Option<usize>, TemplateError> {
        let name = &self.name;
        options::check(self)?;
        options::safe_database(self)?;
        match kind(name) {
            Some(Kind::Wrapper) => refuse(format!(
                "`{name}` runs what its arguments name; write that program itself (variables go into `env`, time into `timeout_seconds`)"
            )),
            Some(Kind::Shell) => languages::script(self, 0).map(Some),
            Some(Kind::Language) => languages::language(self),
            Some(Kind::Runner) => languages::runner(self).map(|()| None),
            Some(Kind::Editor) => editors::check(self).map(|()| None),
            Some(Kind::Maker) => self.maker().map(|()| None),
            None => self.carried().map(|()| None),
        }
    }

    /// `make X={{x}}`: `$(shell …)` in a value is run.
    fn maker(&self) -> Result<(), TemplateError> {
        if self.arguments.iter().all(|word| self.is_chosen(word)) {
            return Ok(());
        }
        refuse(format!(
            "`{}` evaluates its arguments, as in `X=$(shell …)`; list what a caller may choose in `enum`",
            self.name
        ))
    }

    /// The commands among the arguments.
    fn carried(&self) -> Result<(), TemplateError> {
        let Some((carrier, first)) = carriers::find(&self.name, self.arguments) else {
            return Ok(());
        };
        let mut next = Some(first);
        while let Some(verb) = next {
            let inner = carrier.carried(self.arguments, verb);
            match carrier.begins {
                Begins::After(others) => self.after(carrier, verb, inner, others)?,
                Begins::Dashes(others) => match (after_dashes(inner), others) {
                    (Some(inner), _) => self.after(carrier, verb, inner, 0)?,
                    (None, Some(others)) => self.likely(carrier, verb, inner, others)?,
                    (None, None) => self.somewhere(carrier, inner)?,
                },
                Begins::Likely(others) => self.likely(carrier, verb, inner, others)?,
                Begins::Somewhere => self.somewhere(carrier, inner)?,
                Begins::Shell => {
                    let (_, at) = carrier.skip(inner, 0);
                    self.shell(verb, inner.get(at..).unwrap_or_default())?;
                }
                Begins::ShellAfterDashes => {
                    self.shell(verb, after_dashes(inner).unwrap_or_default())?;
                }
                Begins::Nowhere => {}
            }
            // Words that one inner command has taken are no business of another.
            next = carrier.verb(self.arguments, verb + 1 + inner.len());
        }
        Ok(())
    }

    /// An inner command whose program stands in a known place.
    fn after(
        &self,
        carrier: Carrier,
        verb: usize,
        words: &'a [Word],
        others: usize,
    ) -> Result<(), TemplateError> {
        let (before, at) = carrier.skip(words, others);
        let verb = self.text(verb);
        if !before.iter().all(|word| self.is_one_word(word)) {
            return refuse(format!(
                "the word after `{verb}` must always be there, or the next one takes its place; make its parameter required, and no list"
            ));
        }
        let Some(program) = words.get(at) else { return Ok(()) };
        let Some(program) = program.literal() else {
            return refuse(format!(
                "the program after `{verb}` must be fixed; write one tool for each program"
            ));
        };
        self.inner(carrier, &program, words.get(at + 1..).unwrap_or_default())
    }

    /// An inner command whose program stands in a known place, if no option is unheard of.
    fn likely(
        &self,
        carrier: Carrier,
        verb: usize,
        words: &'a [Word],
        others: usize,
    ) -> Result<(), TemplateError> {
        self.after(carrier, verb, words, others)?;
        self.somewhere(carrier, words)
    }

    /// `adb shell ls {{x}}`: the words are put together, and a shell reads them.
    fn shell(&self, verb: usize, words: &[Word]) -> Result<(), TemplateError> {
        if words.iter().all(|word| self.is_chosen(word)) {
            return Ok(());
        }
        refuse(format!(
            "a shell reads the words after `{} {}`; fix them in the template, or list what a caller may choose in `enum`",
            self.name,
            self.text(verb)
        ))
    }

    /// An inner command that begins with the first word that names an interpreter.
    fn somewhere(&self, carrier: Carrier, words: &'a [Word]) -> Result<(), TemplateError> {
        let mut before = String::new();
        for (at, word) in words.iter().enumerate() {
            let text = word.literal().unwrap_or_default();
            let found = name(&text);
            let is_value = carriers::has_value(&before);
            let is_doubtful = names::is_ordinary_word(&found) && (is_value || carrier.is_guess);
            let is_carrier = carriers::find(&found, words.get(at + 1..).unwrap_or_default())
                .is_some_and(|(carrier, _)| !carrier.is_guess);
            let is_database = options::is_database(&found) && !is_value && !carrier.is_guess;
            if (kind(&found).is_some() || is_carrier || is_database) && !is_doubtful {
                return self.inner(carrier, &text, words.get(at + 1..).unwrap_or_default());
            }
            let rest = words.get(at + 1..).unwrap_or_default();
            options::check(&Command::new(&text, rest, self.parameters, self.place))?;
            before = text;
        }
        Ok(())
    }

    fn inner(
        &self,
        carrier: Carrier,
        program: &str,
        arguments: &'a [Word],
    ) -> Result<(), TemplateError> {
        // Fixed code is the author's own. `find` puts names of files in the place of `{}`.
        let is_fixed = |word: &Word| word.literal().is_some_and(|word| !word.contains("{}"));
        if arguments.iter().all(is_fixed) {
            return Ok(());
        }
        let place = match (self.place, carrier.place) {
            (Place::Here, Place::Here) => Place::Here,
            (Place::Elsewhere, _) | (_, Place::Elsewhere) => Place::Elsewhere,
        };
        Command::new(program, arguments, self.parameters, place).check().map(drop)
    }

    /// Whether callers can only choose among what the author has listed.
    fn is_chosen(&self, word: &Word) -> bool {
        word.pieces.iter().all(|piece| match piece {
            Piece::Literal(_) | Piece::Placeholder { form: Form::Flag(_), .. } => true,
            Piece::Placeholder { name, form: Form::Value | Form::Splat } => {
                self.parameter(name).is_some_and(Parameter::is_chosen)
            }
        })
    }

    /// Whether it is one argument, whatever callers give.
    fn is_one_word(&self, word: &Word) -> bool {
        word.pieces.iter().all(|piece| match piece {
            Piece::Literal(_) => true,
            Piece::Placeholder { name, form: Form::Value } => {
                self.parameter(name).is_some_and(Parameter::is_always_there)
            }
            Piece::Placeholder { form: Form::Flag(_) | Form::Splat, .. } => false,
        })
    }

    fn text(&self, at: usize) -> String {
        self.arguments.get(at).and_then(Word::literal).unwrap_or_default()
    }

    fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.all.get(name)
    }
}

/// An interpreter among the arguments of a program that is not known, with an option that takes code:
/// `PROGRAM sh -x -c {{x}}`.
fn nothing_hidden(arguments: &[Word]) -> Result<(), TemplateError> {
    for (at, word) in arguments.iter().enumerate() {
        let Some(text) = word.literal() else { continue };
        let inner = name(&text);
        let rest = arguments.get(at + 1..).unwrap_or_default();
        let before = arguments.get(at.wrapping_sub(1)).and_then(Word::literal);
        let is_value = before.is_some_and(|before| carriers::has_value(&before));
        let code = match kind(&inner) {
            // `rg --type java -e {{x}}`.
            Some(_) if is_value && names::is_ordinary_word(&inner) => None,
            Some(Kind::Shell | Kind::Language) if names::can_be_program(&text) => {
                languages::code_option(&inner, rest)
            }
            Some(Kind::Wrapper) if !is_value && names::starts_next(&text) => {
                let is_next = rest.first().is_some_and(|word| word.literal().is_none());
                is_next.then(String::new)
            }
            Some(
                Kind::Shell
                | Kind::Language
                | Kind::Wrapper
                | Kind::Runner
                | Kind::Editor
                | Kind::Maker,
            )
            | None => None,
        };
        if let Some(option) = code {
            let run = format!("{text} {option}");
            return refuse(format!(
                "`{}` runs an argument as code; let a fixed script do that",
                run.trim_end()
            ));
        }
    }
    Ok(())
}

fn refuse<T>(reason: String) -> Result<T, TemplateError> {
    Err(TemplateError::Interpreter(reason))
}

/// The words after the first `--`.
fn after_dashes(words: &[Word]) -> Option<&[Word]> {
    let at = words.iter().position(|word| is_literally(word, &["--"]))?;
    words.get(at + 1..)
}

fn is_literally(word: &Word, texts: &[&str]) -> bool {
    word.literal().is_some_and(|word| texts.contains(&word.as_str()))
}

#[cfg(test)]
#[path = "interpreters_tests.rs"]
mod tests;
