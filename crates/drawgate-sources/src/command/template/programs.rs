//! The table of programs that run what their arguments say: `programs.tsv`, which also describes its format.

use std::sync::LazyLock;

use super::words::Word;

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| lines().filter_map(Row::parse).collect());

/// How distributions mark a build of the same program.
const FLAVOURS: &[&str] =
    &["-static", ".static", ".basic", ".tiny", ".nox", ".gtk", ".openbsd", ".traditional", "-dbg"];
/// A shortened long option has at least this many characters, its dashes included.
const SHORTEST: usize = 4;

/// One way in which a program runs its arguments: a line of the table.
#[derive(Debug)]
pub(super) struct Row {
    names: Vec<&'static str>,
    subcommands: Vec<Vec<&'static str>>,
    pub(super) rule: Rule,
    pub(super) code: Vec<&'static str>,
    values: Vec<&'static str>,
    flags: Vec<&'static str>,
    /// Whether its name is an ordinary word, too.
    pub(super) is_word: bool,
}

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Wrapper,
    Script,
    Code,
    First,
    Options,
    Unless,
    Command,
    Name,
}

/// What a word is to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// An option without a value, or whose value is the next word.
    Flag,
    UnknownOption,
    /// The value of a code option, perhaps with the option in the same word.
    Code,
    /// The value of another option, likewise.
    Value,
    /// What follows an unknown option: its value, or an operand.
    Maybe,
    Operand,
}

/// The rows of a program.
pub(super) fn rows(name: &str) -> Vec<&'static Row> {
    let is_name = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *pattern == name,
    };
    TABLE.iter().filter(|row| row.names.iter().any(is_name)).collect()
}

/// `/usr/bin/python3.12` is `python`, `bash-static` is `bash`, `node:20-alpine` is `node`, `tsx@4` is `tsx`.
pub(super) fn name(program: &str) -> String {
    let base = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let base = base.split([':', '@', '=']).next().unwrap_or_default();
    let mut base = base.strip_suffix(".exe").unwrap_or(base);
    loop {
        let before = base;
        base = base.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        for flavour in FLAVOURS {
            base = base.strip_suffix(flavour).unwrap_or(base);
        }
        if base == before {
            return base.to_owned();
        }
    }
}

impl Row {
    fn parse(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let mut words = columns.next()?.split(' ').map(|word| word.split('|').collect());
        let (names, subcommands) = (words.next()?, words.collect());
        let rule = Rule::parse(columns.next()?)?;
        let mut list = || -> Vec<&str> {
            let column = columns.next().unwrap_or_default();
            column.split(' ').filter(|word| !["", "-"].contains(word)).collect()
        };
        let (code, values, flags, is_word) = (list(), list(), list(), list() == ["word"]);
        Some(Self { names, subcommands, rule, code, values, flags, is_word })
    }

    /// Where the words after the subcommands begin.
    pub(super) fn start(&self, words: &[Word]) -> Option<usize> {
        self.subcommands.iter().try_fold(0, |from, names| find(words, from, names))
    }

    /// The same after another occurrence of the last subcommand: `find -exec … -exec …`.
    pub(super) fn again(&self, words: &[Word], from: usize) -> Option<usize> {
        find(words, from, self.subcommands.last()?)
    }

    /// What each word is to the program.
    pub(super) fn roles(&self, words: &[Word]) -> Vec<Role> {
        let (mut next, mut is_end) = (None, false);
        let mut role = |word: &Word| {
            let text = word.literal();
            let is_listed = |list: &[&str]| text.as_deref().is_some_and(|it| list.contains(&it));
            let option = word
                .option()
                .or(text.as_deref().filter(|_| is_listed(&self.flags) || is_listed(&self.code)));
            match (next.take(), option.filter(|_| !is_end)) {
                (Some(role @ (Role::Code | Role::Value)), _) => role,
                (Some(_), None) => Role::Maybe,
                (None, None) => Role::Operand,
                (_, Some("--")) => {
                    is_end = true;
                    Role::Flag
                }
                (_, Some(option)) => match self.read(option) {
                    (Role::Flag, _) => Role::Flag,
                    (meaning, true) => meaning,
                    (meaning, false) if text.is_none() && !word.is_flag() => meaning,
                    (meaning, false) => {
                        next = Some(meaning);
                        if meaning == Role::Maybe || word.is_flag() || !option.starts_with('-') {
                            Role::UnknownOption
                        } else {
                            Role::Flag
                        }
                    }
                },
            }
        };
        words.iter().map(&mut role).collect()
    }

    /// What an option's value is, `Flag` if it has none, and whether it is in the same word. Long options
    /// may be shortened, and letters written together.
    pub(super) fn read(&self, text: &str) -> (Role, bool) {
        let (option, is_joined) = text.split_once('=').map_or((text, false), |(it, _)| (it, true));
        if let Some(role) = self.option(option) {
            return (role, is_joined);
        }
        if option.starts_with("--") {
            return (Role::Maybe, is_joined);
        }
        let letters = option.trim_start_matches(['-', '+']);
        let mut is_flag = true;
        for (at, letter) in letters.char_indices() {
            let has_rest = is_joined || at + letter.len_utf8() < letters.len();
            match self.option(&format!("-{letter}")) {
                Some(Role::Flag) => {}
                Some(role) => return (role, has_rest),
                // What stands before a script must be known, but code may follow a letter that is not.
                None if self.rule == Rule::Script => is_flag = false,
                None if self.rule != Rule::First && !letter.is_ascii_uppercase() => {}
                None => return (Role::Maybe, is_joined),
            }
        }
        (if is_flag { Role::Flag } else { Role::Maybe }, is_joined)
    }

    fn option(&self, option: &str) -> Option<Role> {
        let is_same = |known: &&str| {
            let is_short = option.starts_with("--") && option.len() >= SHORTEST;
            let start = known.strip_suffix('*');
            *known == option
                || (is_short && known.starts_with(option))
                || start.is_some_and(|start| option.starts_with(start))
        };
        let lists =
            [(&self.code, Role::Code), (&self.values, Role::Value), (&self.flags, Role::Flag)];
        lists.into_iter().find(|(list, _)| list.iter().any(is_same)).map(|(_, role)| role)
    }
}

impl Rule {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "wrapper" => Self::Wrapper,
            "script" => Self::Script,
            "code" => Self::Code,
            "first" => Self::First,
            "options" => Self::Options,
            "unless" => Self::Unless,
            "command" => Self::Command,
            "name" => Self::Name,
            _ => return None,
        })
    }
}

/// The place after the next of these words.
fn find(words: &[Word], from: usize, names: &[&str]) -> Option<usize> {
    let mut positions = from..words.len();
    let at = positions.find(|at| {
        let text = text(words, *at);
        // `IPython.terminal` is a part of `IPython`.
        let root = text.split_once('.').map_or(text.as_str(), |(root, _)| root);
        names.contains(&text.as_str()) || names.contains(&root)
    });
    at.map(|at| at + 1)
}

/// The fixed text of a word; empty if there is none.
pub(super) fn text(words: &[Word], at: usize) -> String {
    words.get(at).and_then(Word::literal).unwrap_or_default()
}

/// Whether a word may be the value of the option before it.
pub(super) fn awaits_value(words: &[Word], at: usize) -> bool {
    let before = text(words, at.wrapping_sub(1));
    before.starts_with('-') && !before.contains('=') && before != "--"
}

fn lines() -> impl Iterator<Item = &'static str> {
    include_str!("programs.tsv").lines().filter(|line| !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_line_can_be_read() {
        let all: Vec<&str> = lines().collect();
        assert!(all.is_sorted_by(|a, b| a < b), "sort the lines, without duplicates");
        for line in all {
            let row = Row::parse(line).unwrap_or_else(|| panic!("can't be read: {line}"));
            assert_eq!(row.is_word, line.split('\t').count() == 6, "{line}");
            assert!(row.names.is_sorted_by(|a, b| a < b), "{line}");
        }
    }
}
