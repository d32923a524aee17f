//! Finds templates in which a program would run what a caller gives it.
//!
//! Splitting a template keeps an argument one argument; it does not help if the program itself reads that
//! argument as code. `programs.tsv` says which programs do, and how. This applies it, also to commands
//! among the arguments of another program.

use super::TemplateError;
use super::parameters::{Parameter, Parameters};
use super::programs::{self, Level, Role, Row, Rule, awaits_value, text};
use super::words::{Form, Piece, Word};

/// What was found in a template that can be used.
#[derive(Debug)]
pub(super) struct Checked {
    /// The place of an interpreter's script among the arguments.
    pub(super) script: Option<usize>,
    /// What a caller could run.
    pub(super) warning: Option<String>,
}

/// Refuses a template whose arguments would be run by a shell or a common interpreter.
pub(super) fn check(
    program: &str,
    arguments: &[Word],
    parameters: &Parameters,
) -> Result<Checked, TemplateError> {
    let mut checker = Checker { parameters, findings: Vec::new() };
    checker.hidden(arguments);
    let script = checker.command(program, arguments, Place::Here);
    match checker.findings.into_iter().min_by_key(|(level, _)| *level) {
        Some((Level::Error, reason)) => Err(TemplateError::Interpreter(reason)),
        Some((Level::Warning, reason)) => Ok(Checked { script, warning: Some(reason) }),
        None => Ok(Checked { script, warning: None }),
    }
}

/// How many `--` only end the arguments of an outer program, so that a dash after it is an option of
/// the inner one.
pub(super) fn outer_dashes(program: &str, arguments: &[Word]) -> usize {
    let ends_with_dashes = |row: &&Row, words: &[Word]| {
        let start = row.start(words).filter(|_| row.has("dashes"));
        let inner = start.and_then(|start| words.get(start..));
        inner.is_some_and(|inner| match row.rule {
            Rule::Command(operands) => {
                let (_, at) = inner_program(row, inner, operands);
                inner.iter().take(at).any(|word| word.is("--"))
            }
            _ => true,
        })
    };
    let inner = (0..arguments.len()).filter(|at| {
        let rows = programs::known(&programs::name(&text(arguments, *at)));
        rows.iter().any(|row| ends_with_dashes(row, from(arguments, at + 1)))
    });
    let rows = programs::rows(&programs::name(program));
    inner.count() + usize::from(rows.iter().any(|row| ends_with_dashes(row, arguments)))
}

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the workspace, where callers may write.
    Here,
    /// In a container, or on another machine.
    Elsewhere,
}

struct Checker<'a> {
    parameters: &'a Parameters,
    findings: Vec<(Level, String)>,
}

impl Checker<'_> {
    /// Checks a command, and returns the place of its script.
    fn command(&mut self, program: &str, words: &[Word], place: Place) -> Option<usize> {
        let name = programs::name(program);
        let mut script = None;
        for row in programs::rows(&name) {
            let Some(start) = row.start(words) else { continue };
            let rest = from(words, start);
            match row.rule {
                Rule::Wrapper => self.find(
                    row,
                    format!("`{name}` runs what its arguments name; write that program itself (variables go into `env`, time into `timeout_seconds`)"),
                ),
                Rule::Script => script = self.script(row, &name, rest, place),
                Rule::Code | Rule::Options => self.values(row, &name, rest),
                Rule::First => self.first(row, &name, rest),
                Rule::Unless if row.has("here") && place == Place::Elsewhere => {}
                Rule::Unless => {
                    let before = if start == 0 { words.len() } else { start };
                    let mut given = words.iter().take(before).filter_map(Word::literal);
                    if !given.any(|word| row.read(&word).0 == Role::Code) {
                        let option = row.code.first().copied().unwrap_or_default();
                        self.find(row, format!("`{name}` runs more than its arguments say, such as commands in them or files of the workspace; add `{option}`"));
                    }
                }
                Rule::Command(_) | Rule::Dashes(_) | Rule::Search | Rule::Name(_) => {
                    self.inner_commands(row, words, start, place);
                }
                Rule::Arguments => {}
            }
        }
        script
    }

    fn find(&mut self, row: &Row, reason: String) {
        self.findings.push((row.level, reason));
    }

    /// An interpreter among the arguments of any program, with an option that takes code
    /// (`PROGRAM sh -x -c {{x}}`), or a wrapper before a placeholder (`PROGRAM sudo {{x}}`).
    fn hidden(&mut self, words: &[Word]) {
        for at in 0..words.len() {
            let (program, rest) = (text(words, at), from(words, at + 1));
            let is_given = |word: &Word| word.literal().is_none();
            for row in programs::known(&programs::name(&program)) {
                let is_value = awaits_value(words, at);
                let is_run = match row.rule {
                    Rule::Script if !(is_value && row.has("word")) && can_be_program(&program) => {
                        let own = rest.iter().zip(row.roles(rest));
                        let mut own = own.take_while(|(_, role)| *role != Role::Operand);
                        own.any(|(word, role)| role == Role::Code && is_given(word))
                    }
                    Rule::Wrapper if !is_value && starts_next(&program, row) => {
                        rest.first().is_some_and(is_given)
                    }
                    _ => false,
                };
                if is_run {
                    self.find(
                        row,
                        format!("`{program}` runs an argument as code; let a fixed script do that"),
                    );
                }
            }
        }
    }

    /// The script must stand first, in a place that callers can't write.
    fn script(&mut self, row: &Row, name: &str, words: &[Word], place: Place) -> Option<usize> {
        let roles = row.roles(words);
        let at = roles.iter().take_while(|role| **role == Role::Flag).count();
        let (role, script) = (roles.get(at), text(words, at));
        // `python3 -m …`: another row looks at the name.
        let is_name =
            |row: &&Row| matches!(row.rule, Rule::Name(_)) && row.start(words) == Some(at);
        if programs::rows(name).iter().any(is_name) {
            return None;
        }
        // `docker run node env …`: the first was the image.
        if place == Place::Elsewhere && !programs::known(&programs::name(&script)).is_empty() {
            self.command(&script, from(words, at + 1), place);
            return None;
        }
        let is_path = script.starts_with("./") || script.starts_with('/');
        let is_input = script.starts_with("/dev/") || script.starts_with("/proc/");
        let is_plain = !script.is_empty() && !script.starts_with('-') && !script.contains("{}");
        let is_fixed = is_path || (place == Place::Elsewhere && is_plain);
        if role != Some(&Role::Operand) || !is_fixed || is_input {
            self.find(row, format!("`{name}` runs code; it may only run a fixed script, which stands first: an absolute path, or `./NAME` for a file of the toolpack"));
            return None;
        }
        Some(at)
    }

    /// `make X={{x}}`, `tar --to-command={{x}}`: all words are code, or the values of some options.
    fn values(&mut self, row: &Row, name: &str, words: &[Word]) {
        let words =
            if row.has("after-dashes") { after_dashes(words).unwrap_or_default() } else { words };
        let roles = row.roles(words);
        let is_end =
            |(word, role): &(&Word, Role)| *role == Role::Operand && word.literal().is_some();
        let own = words.iter().zip(roles);
        for (word, role) in own.take_while(|own| !(row.has("before-operands") && is_end(own))) {
            let is_run = role == Role::Code || (row.rule == Rule::Code && role != Role::Value);
            if is_run && !self.is_chosen(word) {
                let parameter = word.parameter();
                self.find(row, format!("`{name}` runs what `{parameter}` says, or takes it for a setting that names a program; fix it in the template, or list what a caller may choose in `enum`"));
            }
        }
    }

    /// `awk` and `sed`: the first operand is a program, which must be fixed but for numbers, as in
    /// `sed -n {{from}},{{to}}p`.
    fn first(&mut self, row: &Row, name: &str, words: &[Word]) {
        let roles = row.roles(words);
        let words: Vec<(&Word, Role)> = words.iter().zip(roles).collect();
        // `sed -i '' …`: elsewhere than in GNU, that is the ending of a copy's name.
        let is_program = |(word, role): &(&Word, Role)| {
            *role == Role::Code || (*role == Role::Operand && !word.is(""))
        };
        let end = words.iter().position(is_program).unwrap_or(words.len());
        let is_good = words.iter().enumerate().all(|(at, (word, role))| match role {
            Role::Code => self.is_fixed(word),
            Role::Flag => true,
            _ if at > end => true,
            // A list could go on with the program.
            Role::Value => !word.is_list(),
            Role::UnknownOption | Role::Maybe | Role::Operand => self.is_fixed(word),
        });
        if !is_good {
            self.find(row, format!("`{name}` runs its first argument, which must be fixed, or made of numbers that are always given; write it before everything that a caller gives"));
        }
    }

    fn inner_commands(&mut self, row: &Row, words: &[Word], start: usize, place: Place) {
        let place = if row.has("elsewhere") { Place::Elsewhere } else { place };
        let mut next = Some(start);
        while let Some(start) = next {
            let rest = from(words, start);
            // `find` ends a command so, and there may be another one.
            let end =
                rest.iter().position(|word| word.is(";") || word.is("+")).unwrap_or(rest.len());
            let inner = rest.get(..end).unwrap_or_default();
            match (row.rule, after_dashes(inner)) {
                (Rule::Dashes(_), Some(inner)) => self.inner_command(row, inner, 0, place),
                (Rule::Dashes(Some(operands)), None) => {
                    self.inner_command(row, inner, operands, place);
                    self.search(row, inner, place);
                }
                (Rule::Command(operands) | Rule::Name(operands), _) => {
                    self.inner_command(row, inner, operands, place);
                }
                _ => self.search(row, inner, place),
            }
            next = row.again(words, start + end);
        }
    }

    /// A command whose program stands after so many operands.
    fn inner_command(&mut self, row: &Row, words: &[Word], operands: usize, place: Place) {
        let (before, at) = inner_program(row, words, operands);
        if !before.iter().all(|word| self.is_one_word(word)) {
            self.find(row, "the word before an inner command must always be there, or the next one takes its place; make its parameter required, and no list".to_owned());
        }
        let Some(program) = words.get(at) else { return };
        match program.literal() {
            Some(_) if matches!(row.rule, Rule::Name(_)) => {}
            Some(program) => self.inner(&program, from(words, at + 1), place),
            None => self.find(row, format!("a caller could choose by `{}` which program is run; write one tool for each program", program.parameter())),
        }
    }

    /// A command that begins with any word that names a program of the table.
    fn search(&mut self, row: &Row, words: &[Word], place: Place) {
        for (at, role) in row.roles(words).into_iter().enumerate() {
            let program = text(words, at);
            let is_doubtful = role == Role::Maybe || row.is_guess();
            let runs_all = |row: &&Row| {
                matches!(row.rule, Rule::Wrapper | Rule::Script | Rule::Code | Rule::First)
            };
            let is_certain = |row: &&Row| !is_doubtful || (runs_all(row) && !row.has("word"));
            let known = programs::known(&programs::name(&program));
            if role == Role::Value || !known.iter().any(is_certain) {
                continue;
            }
            self.inner(&program, from(words, at + 1), place);
            if known.iter().any(runs_all) {
                return;
            }
        }
    }

    fn inner(&mut self, program: &str, words: &[Word], place: Place) {
        // Fixed code is the author's own. `find` puts names of files in the place of `{}`.
        let is_fixed = |word: &Word| word.literal().is_some_and(|word| !word.contains("{}"));
        if !words.iter().all(is_fixed) {
            self.command(program, words, place);
        }
    }

    /// Whether callers can only choose among what the author has listed.
    fn is_chosen(&self, word: &Word) -> bool {
        word.pieces.iter().all(|piece| match piece {
            Piece::Literal(_) | Piece::Placeholder { form: Form::Flag(_), .. } => true,
            Piece::Placeholder { name, form: Form::Value | Form::Splat } => {
                self.parameters.all.get(name).is_some_and(Parameter::is_chosen)
            }
        })
    }

    /// Whether it is one argument, whatever callers give.
    fn is_one_word(&self, word: &Word) -> bool {
        word.pieces.iter().all(|piece| match piece {
            Piece::Literal(_) => true,
            Piece::Placeholder { name, form: Form::Value } => {
                self.parameters.all.get(name).is_some_and(Parameter::is_always_there)
            }
            Piece::Placeholder { form: Form::Flag(_) | Form::Splat, .. } => false,
        })
    }

    /// Whether it is fixed but for numbers. One that is left out would make the next word the program.
    fn is_fixed(&self, word: &Word) -> bool {
        let is_number = |piece: &Piece| match piece {
            Piece::Literal(_) => true,
            Piece::Placeholder { name, .. } => {
                self.parameters.all.get(name).is_some_and(Parameter::is_numeric)
            }
        };
        self.is_one_word(word) && word.pieces.iter().all(is_number)
    }
}

/// The words before an inner command's program that hold its place, and its place.
fn inner_program<'a>(row: &Row, words: &'a [Word], operands: usize) -> (Vec<&'a Word>, usize) {
    let roles = row.roles(words);
    let is_operand = |role: &Role| matches!(role, Role::Operand | Role::Maybe);
    let mut places = (0..words.len()).filter(|at| roles.get(*at).is_some_and(is_operand));
    let at = places.nth(operands).unwrap_or(words.len());
    let own = words.iter().zip(&roles).take(at);
    let before =
        own.filter(|(word, role)| is_operand(role) || (**role == Role::Value && word.is_list()));
    (before.map(|(word, _)| word).collect(), at)
}

/// Whether a wrapper among the arguments of any program can only mean that the next word is started:
/// `time` could be anything, and `/var/lib/sudo` is a folder.
fn starts_next(program: &str, row: &Row) -> bool {
    let is_loader = program.contains("/ld");
    if program.contains('/') { is_in_bin(program) || is_loader } else { !row.has("word") }
}

/// Whether this word can be a program: `deploy/java` is a thing of that name.
fn can_be_program(word: &str) -> bool {
    !word.contains('/') || word.starts_with(['/', '.']) || is_in_bin(word)
}

fn is_in_bin(path: &str) -> bool {
    path.rsplit('/').nth(1).is_some_and(|folder| matches!(folder, "bin" | "sbin"))
}

/// The words after the first `--`.
fn after_dashes(words: &[Word]) -> Option<&[Word]> {
    let at = words.iter().position(|word| word.is("--"))?;
    words.get(at + 1..)
}

fn from(words: &[Word], at: usize) -> &[Word] {
    words.get(at..).unwrap_or_default()
}

#[cfg(test)]
#[path = "interpreters_tests.rs"]
mod tests;
