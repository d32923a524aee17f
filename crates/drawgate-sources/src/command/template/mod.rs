//! A command's template: split into arguments when it is loaded, filled afterwards.
//!
//! `gh issue list --limit {{limit}}` is five arguments, whatever `limit` is. Quotes group words; no
//! shell is involved. `{{name}}` is a value, `{{name...}}` a list with one argument for each element,
//! and `{{name?--flag}}` the flag if the parameter is true. An optional parameter that is not given
//! takes its `default`; without one its word is left out, and with it the option directly before.

mod error;
mod interpreters;
mod parameters;
mod programs;
mod words;

use std::collections::BTreeSet;
use std::path::{Component, Path};

use serde_json::{Map, Value};

pub use error::{Fault, FillError, TemplateError};
use parameters::{MAX_TEXT, Parameters, Shape, Texts};
use words::{Form, Piece, Word};

/// What all arguments together may have; the kernel takes twice as much, the environment included.
const MAX_TOTAL: usize = 1 << 20;
/// What the kernel needs for one argument beside its text.
const OVERHEAD: usize = 9;

/// A command that can be filled with arguments.
#[derive(Debug)]
pub struct Template {
    program: String,
    slots: Vec<Slot>,
    parameters: Parameters,
    /// The place of the script that an interpreter runs.
    script: Option<usize>,
}

/// A word, and what is known about its place.
#[derive(Debug)]
struct Slot {
    word: Word,
    /// After `--`, where a dash means nothing.
    is_operand: bool,
    /// The word before is an option that waits for this value.
    has_option: bool,
}

impl Template {
    /// Reads a template and the JSON Schema of its parameters.
    pub fn parse(template: &str, parameters: &Value) -> Result<Self, TemplateError> {
        let mut words = words::split(template)?.into_iter();
        let program = words.next().map_or_else(|| Some(String::new()), |word| word.literal());
        let program = check_program(program)?;
        let words: Vec<Word> = words.collect();
        let parameters = Parameters::read(parameters)?;
        let script = interpreters::check(&program, &words, &parameters)?;
        for word in &words {
            check_word(word, &parameters)?;
        }
        check_use(&words, &parameters)?;
        Ok(Self { program, slots: slots(words), parameters, script })
    }

    /// The same with the files of a folder by their paths: a fixed word that begins with `./` and
    /// names one. The program, and an interpreter's script, must be there if they are written so.
    pub fn located(mut self, folder: Option<&Path>) -> Result<Self, TemplateError> {
        let missing = |name: &str| TemplateError::Program(format!("there is no file `{name}`"));
        let find = |text: &str| folder.and_then(|folder| file_in(folder, text));
        if self.program.starts_with("./") {
            self.program = find(&self.program).ok_or_else(|| missing(&self.program))?;
        }
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let Some(text) = slot.word.literal().filter(|text| text.starts_with("./")) else {
                continue;
            };
            match find(&text) {
                Some(path) => slot.word = Word::fixed(path),
                None if self.script == Some(index) => return Err(missing(&text)),
                None => {}
            }
        }
        Ok(self)
    }

    /// The program: a name, or a path.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The script that an interpreter runs: always fixed.
    #[must_use]
    pub fn script(&self) -> Option<String> {
        self.slots.get(self.script?)?.word.literal()
    }

    /// The same for a program that no sandbox holds: no argument may be free text.
    pub fn unconfined(self) -> Result<Self, TemplateError> {
        let mut all = self.parameters.all.iter();
        match all.find(|(_, parameter)| !parameter.is_closed()) {
            Some((name, _)) => Err(TemplateError::Unconfined(name.clone())),
            None => Ok(self),
        }
    }

    /// The schema of the arguments, as callers see it.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.parameters.schema
    }

    /// The program and its arguments, each exactly one argument.
    pub fn fill(&self, arguments: &Map<String, Value>) -> Result<Vec<String>, FillError> {
        let texts = self.parameters.texts(arguments)?;
        let mut command = vec![self.program.clone()];
        for slot in &self.slots {
            let filled = slot.fill(&texts)?;
            if filled.iter().any(|text| text.len() > MAX_TEXT) {
                return Err(FillError::new(slot.word.parameter(), Fault::TooLong));
            }
            if filled.is_empty() && slot.has_option {
                command.pop();
            }
            command.extend(filled);
        }
        if command.iter().map(|text| text.len() + OVERHEAD).sum::<usize>() > MAX_TOTAL {
            return Err(FillError::new("", Fault::TooLong));
        }
        Ok(command)
    }
}

impl Slot {
    /// No argument, one, or as many as a list has.
    fn fill(&self, texts: &Texts<'_>) -> Result<Vec<String>, FillError> {
        if let [Piece::Placeholder { name, form: Form::Splat }] = self.word.pieces.as_slice() {
            let list = texts.get(name.as_str()).cloned().unwrap_or_default();
            list.iter().try_for_each(|text| self.check_option(name, text))?;
            return Ok(list);
        }
        let mut whole = String::new();
        for piece in &self.word.pieces {
            let text = match piece {
                Piece::Literal(text) => Some(text),
                Piece::Placeholder { name, form } => {
                    let given = texts.get(name.as_str()).and_then(|texts| texts.first());
                    // `-n` without its value would take the next argument for it.
                    let is_option = whole.starts_with('-') && !whole.contains('=');
                    if is_option && given.is_some_and(String::is_empty) {
                        return Err(FillError::new(name, Fault::Empty));
                    }
                    match form {
                        Form::Flag(flag) => given.filter(|text| *text == "true").map(|_| flag),
                        Form::Value | Form::Splat => given,
                    }
                }
            };
            let Some(text) = text else { return Ok(Vec::new()) };
            whole.push_str(text);
        }
        if let Some(Piece::Placeholder { name, form: Form::Value }) = self.word.pieces.first() {
            self.check_option(name, &whole)?;
        }
        Ok(vec![whole])
    }

    /// Many programs take even the value of an option for the next option.
    fn check_option(&self, name: &str, text: &str) -> Result<(), FillError> {
        if text.starts_with('-') && !self.is_operand {
            return Err(FillError::new(name, Fault::Option));
        }
        Ok(())
    }
}

/// A name that is looked up, an absolute path, or a file of the toolpack; never one of the
/// workspace, which callers may write.
fn check_program(program: Option<String>) -> Result<String, TemplateError> {
    let bad = |reason: &str| Err(TemplateError::Program(reason.to_owned()));
    let Some(program) = program else { return bad("the program must be fixed, not a placeholder") };
    let is_fixed = program.starts_with('/') || program.starts_with("./") || !program.contains('/');
    if program.is_empty() {
        return bad("the template is empty; begin it with a program");
    }
    if program.contains('=') {
        return Err(TemplateError::Assignment);
    }
    if program.starts_with('-') || !is_fixed {
        return bad(
            "the program must be a name, an absolute path, or `./NAME` for a file of the toolpack",
        );
    }
    Ok(program)
}

fn check_word(word: &Word, parameters: &Parameters) -> Result<(), TemplateError> {
    let is_alone = word.pieces.len() == 1;
    for piece in &word.pieces {
        let Piece::Placeholder { name, form } = piece else { continue };
        let Some(parameter) = parameters.all.get(name) else {
            return Err(TemplateError::parameter(
                name,
                "is not declared; add it to `parameters.properties`",
            ));
        };
        match (form, parameter.shape) {
            (Form::Splat, Shape::List) if is_alone => {}
            (Form::Splat, Shape::List) => {
                return Err(TemplateError::Splat(format!(
                    "`{{{{{name}...}}}}` must be a word of its own"
                )));
            }
            (Form::Splat, Shape::One) => {
                return Err(TemplateError::Splat(format!(
                    "`{{{{{name}...}}}}` is for lists, and `{name}` is none"
                )));
            }
            (Form::Value, Shape::List) => {
                return Err(TemplateError::Splat(format!(
                    "`{name}` is a list; write `{{{{{name}...}}}}`"
                )));
            }
            (Form::Flag(_), _) if !is_alone || !parameter.is_boolean() => {
                return Err(TemplateError::parameter(
                    name,
                    "with `?` it must be a boolean, in a word of its own",
                ));
            }
            (Form::Flag(_), _) => {}
            (Form::Value, Shape::One) => {
                if !is_alone && !parameter.is_closed() && !is_bound(word) {
                    return Err(TemplateError::Open(name.clone()));
                }
            }
        }
    }
    Ok(())
}

/// `--option={{name}}`: whatever the value is, it is the option's.
fn is_bound(word: &Word) -> bool {
    let [Piece::Literal(option), Piece::Placeholder { .. }] = word.pieces.as_slice() else {
        return false;
    };
    let name = option.strip_suffix('=').and_then(|option| option.strip_prefix('-'));
    name.is_some_and(|name| {
        let name = name.strip_prefix('-').unwrap_or(name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    })
}

/// A parameter without effect would deceive the caller.
fn check_use(words: &[Word], parameters: &Parameters) -> Result<(), TemplateError> {
    let used: BTreeSet<&str> = words
        .iter()
        .flat_map(|word| &word.pieces)
        .filter_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Placeholder { name, .. } => Some(name.as_str()),
        })
        .collect();
    let unused: Vec<String> = parameters
        .all
        .keys()
        .filter(|name| !used.contains(name.as_str()))
        .map(|name| format!("`{}`", name.escape_debug()))
        .collect();
    if unused.is_empty() { Ok(()) } else { Err(TemplateError::Unused(unused.join(", "))) }
}

/// `--` protects what comes directly after it. A fixed word there may be a program with options of its own, as in
/// `kubectl exec p -- ls {{x}}`.
fn slots(words: Vec<Word>) -> Vec<Slot> {
    let (mut is_operand, mut has_option) = (false, false);
    let mut slots = Vec::with_capacity(words.len());
    for word in words {
        let text = word.literal();
        let is_flag = !is_operand
            && text.as_deref().is_some_and(|text| {
                text.starts_with('-') && !["-", "--"].contains(&text) && !text.contains('=')
            });
        let has_option_before = has_option && !word.is_flag();
        slots.push(Slot { word, is_operand, has_option: has_option_before });
        if let Some(text) = &text {
            is_operand = text == "--";
        }
        has_option = is_flag;
    }
    slots
}

/// The path of a regular file below a folder.
fn file_in(folder: &Path, text: &str) -> Option<String> {
    let relative = Path::new(text);
    let is_inside = relative
        .components()
        .all(|component| matches!(component, Component::CurDir | Component::Normal(_)));
    let path = folder.join(relative.strip_prefix(".").ok()?);
    let found = is_inside && path.is_absolute() && path.is_file();
    found.then(|| path.to_str().map(str::to_owned)).flatten()
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
