//! Refuses templates in which a shell, a common interpreter or a wrapper would run what a caller gives it.
//!
//! Splitting a template keeps an argument one argument; it does not help if the program itself reads that
//! argument as code. `programs.tsv` says which of the best known programs do, and how. What other programs
//! make of their arguments is held by the sandbox; without one, no argument may be free text.

use super::TemplateError;
use super::parameters::{Parameter, Parameters};
use super::programs::{self, Role, Row, Rule, awaits_value, text};
use super::words::{Form, Piece, Word};

type Checked<T> = Result<T, TemplateError>;

/// Checks a command, and returns the place of an interpreter's script among its arguments.
pub(super) fn check(
    program: &str,
    arguments: &[Word],
    parameters: &Parameters,
) -> Checked<Option<usize>> {
    hidden(arguments)?;
    Checker { parameters }.command(program, arguments)
}

struct Checker<'a> {
    parameters: &'a Parameters,
}

impl Checker<'_> {
    fn command(&self, program: &str, words: &[Word]) -> Checked<Option<usize>> {
        let name = programs::name(program);
        let mut place = None;
        for row in programs::rows(&name) {
            let Some(start) = row.start(words) else { continue };
            let rest = from(words, start);
            match row.rule {
                Rule::Wrapper => {
                    return refuse(format!(
                        "`{name}` runs what its arguments name; write that program itself (variables go into `env`, time into `timeout_seconds`)"
                    ));
                }
                Rule::Script => place = script(row, &name, rest)?,
                Rule::Code | Rule::Options => self.values(row, &name, rest)?,
                Rule::First => self.first(row, &name, rest)?,
                Rule::Unless => unless(row, &name, words.get(..start).unwrap_or_default())?,
                Rule::Command => self.inner_commands(row, words, start)?,
                Rule::Name => drop(inner_program(row, rest)?),
            }
        }
        Ok(place)
    }

    /// `npx --call={{x}}`, `python3 -m timeit {{x}}`: the values of some options are code, or all words.
    fn values(&self, row: &Row, name: &str, words: &[Word]) -> Checked<()> {
        for (word, role) in words.iter().zip(row.roles(words)) {
            let is_run = role == Role::Code || (row.rule == Rule::Code && role != Role::Value);
            if is_run && !self.is_chosen(word) {
                let parameter = word.parameter();
                return refuse(format!(
                    "`{name}` runs what `{parameter}` says; fix it in the template, or list what a caller may choose in `enum`"
                ));
            }
        }
        Ok(())
    }

    /// `awk` and `sed`: the first operand is a program, which must be fixed but for numbers, as in
    /// `sed -n {{from}},{{to}}p`.
    fn first(&self, row: &Row, name: &str, words: &[Word]) -> Checked<()> {
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
        if is_good {
            return Ok(());
        }
        refuse(format!(
            "`{name}` runs its first argument, which must be fixed, or made of numbers that are always given; write it before everything that a caller gives"
        ))
    }

    /// `find -exec … ; -exec … +`: each ends so, and there may be another one.
    fn inner_commands(&self, row: &Row, words: &[Word], start: usize) -> Checked<()> {
        let mut next = Some(start);
        while let Some(start) = next {
            let rest = from(words, start);
            let end = rest.iter().position(|word| word.is(";") || word.is("+"));
            let end = end.unwrap_or(rest.len());
            let inner = rest.get(..end).unwrap_or_default();
            if let Some((at, program)) = inner_program(row, inner)? {
                self.inner(&program, from(inner, at + 1))?;
            }
            next = row.again(words, start + end);
        }
        Ok(())
    }

    fn inner(&self, program: &str, words: &[Word]) -> Checked<()> {
        // Fixed code is the author's own. `find` puts names of files in the place of `{}`.
        let is_fixed = |word: &Word| word.literal().is_some_and(|word| !word.contains("{}"));
        if words.iter().all(is_fixed) { Ok(()) } else { self.command(program, words).map(drop) }
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

    /// Whether it is one argument, whatever callers give, and fixed but for numbers. One that is left out
    /// would make the next word the program.
    fn is_fixed(&self, word: &Word) -> bool {
        word.pieces.iter().all(|piece| match piece {
            Piece::Literal(_) => true,
            Piece::Placeholder { name, form: Form::Value } => {
                let is_number = |it: &Parameter| it.is_always_there() && it.is_numeric();
                self.parameters.all.get(name).is_some_and(is_number)
            }
            Piece::Placeholder { form: Form::Flag(_) | Form::Splat, .. } => false,
        })
    }
}

/// An interpreter among the arguments of any program, with an option that takes code
/// (`PROGRAM sh -x -c {{x}}`), or a wrapper before a placeholder (`PROGRAM sudo {{x}}`).
fn hidden(words: &[Word]) -> Checked<()> {
    for at in 0..words.len() {
        let (program, rest) = (text(words, at), from(words, at + 1));
        let is_given = |word: &Word| word.literal().is_none();
        for row in programs::rows(&programs::name(&program)) {
            let is_value = awaits_value(words, at);
            let is_run = match row.rule {
                Rule::Script if !(is_value && row.is_word) && can_be_program(&program) => {
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
                return refuse(format!(
                    "`{program}` runs an argument as code; let a fixed script do that"
                ));
            }
        }
    }
    Ok(())
}

/// The script must stand first, in a place that callers can't write.
fn script(row: &Row, name: &str, words: &[Word]) -> Checked<Option<usize>> {
    let roles = row.roles(words);
    let at = roles.iter().take_while(|role| **role == Role::Flag).count();
    let (role, script) = (roles.get(at), text(words, at));
    // `python3 -m …`: another row looks at the name.
    let is_name = |row: &&Row| row.rule == Rule::Name && row.start(words) == Some(at);
    if programs::rows(name).iter().any(is_name) {
        return Ok(None);
    }
    let is_path = script.starts_with("./") || script.starts_with('/');
    let is_input = script.starts_with("/dev/") || script.starts_with("/proc/");
    if role != Some(&Role::Operand) || !is_path || is_input {
        return refuse(format!(
            "`{name}` runs code; it may only run a fixed script, which stands first: an absolute path, or `./NAME` for a file of the toolpack"
        ));
    }
    Ok(Some(at))
}

/// The first operand, which names what is run and must be fixed, and its place.
fn inner_program(row: &Row, words: &[Word]) -> Checked<Option<(usize, String)>> {
    let roles = row.roles(words);
    let is_operand = |role: &Role| matches!(role, Role::Operand | Role::Maybe);
    let at = roles.iter().position(is_operand).unwrap_or(words.len());
    // A list as the value of an option could go on with the program.
    let mut before = words.iter().zip(&roles).take(at);
    if before.any(|(word, role)| *role == Role::Value && word.is_list()) {
        return refuse(
            "the words before an inner command must be fixed; a list could name the program"
                .to_owned(),
        );
    }
    let Some(word) = words.get(at) else { return Ok(None) };
    match word.literal() {
        Some(program) => Ok(Some((at, program))),
        None => refuse(format!(
            "a caller could choose by `{}` which program is run; write one tool for each program",
            word.parameter()
        )),
    }
}

fn refuse<T>(reason: String) -> Checked<T> {
    Err(TemplateError::Interpreter(reason))
}

/// `python3 -m …` finds modules in the workspace, unless an option says otherwise.
fn unless(row: &Row, name: &str, before: &[Word]) -> Checked<()> {
    let mut given = before.iter().filter_map(Word::literal);
    if given.any(|word| row.read(&word).0 == Role::Code) {
        return Ok(());
    }
    let option = row.code.first().copied().unwrap_or_default();
    refuse(format!(
        "`{name}` runs more than its arguments say, such as files of the workspace; add `{option}`"
    ))
}

/// Whether a wrapper among the arguments of any program can only mean that the next word is started:
/// `time` could be anything, and `/var/lib/sudo` is a folder.
fn starts_next(program: &str, row: &Row) -> bool {
    let is_loader = program.contains("/ld");
    if program.contains('/') { is_in_bin(program) || is_loader } else { !row.is_word }
}

/// Whether this word can be a program: `deploy/java` is a thing of that name.
fn can_be_program(word: &str) -> bool {
    !word.contains('/') || word.starts_with(['/', '.']) || is_in_bin(word)
}

fn is_in_bin(path: &str) -> bool {
    path.rsplit('/').nth(1).is_some_and(|folder| matches!(folder, "bin" | "sbin"))
}

fn from(words: &[Word], at: usize) -> &[Word] {
    words.get(at..).unwrap_or_default()
}

#[cfg(test)]
#[path = "interpreters_tests.rs"]
mod tests;
