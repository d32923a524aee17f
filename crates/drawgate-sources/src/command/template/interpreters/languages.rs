//! Shells and languages, which may run a fixed script, and what starts programs by their names.

use super::carriers::Place;
use super::names::{Kind, kind, name};
use super::{Command, TemplateError, Word, is_literally, refuse};

/// Subcommands of runners that are followed by a program's name.
pub(super) const RUNS: &[&str] = &["dlx", "exec", "run", "tool", "x"];
/// Options by which they take code.
const RUNNER_CODE: &[&str] = &["-c", "--call", "--shell-mode", "-e", "--eval"];
/// Options of theirs with a value in a word of its own.
const RUNNER_VALUES: &[&str] = &[
    "-C",
    "-F",
    "-p",
    "-w",
    "--directory",
    "--filter",
    "--from",
    "--index-url",
    "--package",
    "--prefix",
    "--project",
    "--python",
    "--spec",
    "--with",
    "--workspace",
];
/// Options of Python that change nothing about what it runs.
const PYTHON_FLAGS: &str = "uIBEsSOPvqb";
/// Modules of Python that run their arguments, or the files and modules that these name.
const PYTHON_RUNNERS: &[&str] = &[
    "asyncio",
    "bdb",
    "bpython",
    "cProfile",
    "code",
    "coverage",
    "debugpy",
    "doctest",
    "idlelib",
    "inspect",
    "ipykernel",
    "ipython",
    "IPython",
    "jupyter",
    "kernprof",
    "line_profiler",
    "memory_profiler",
    "pdb",
    "profile",
    "ptpython",
    "pudb",
    "pyclbr",
    "pydoc",
    "pyinstrument",
    "runpy",
    "scalene",
    "timeit",
    "trace",
    "viztracer",
    "xonsh",
];

pub(super) fn language(command: &Command<'_>) -> Result<Option<usize>, TemplateError> {
    let arguments = command.arguments;
    let first = arguments.first().and_then(Word::literal).unwrap_or_default();
    match (command.name.as_str(), first.as_str()) {
        ("python" | "pypy", _) => python(command),
        // Its permissions come before the script.
        ("deno", "run") => {
            let is_permission =
                |word: &String| word.starts_with("--allow-") || word.starts_with("--deny-");
            let words = arguments.iter().skip(1).map_while(Word::literal);
            script(command, 1 + words.take_while(is_permission).count()).map(Some)
        }
        ("bun", "run") | ("java", "-jar") => script(command, 1).map(Some),
        _ => script(command, 0).map(Some),
    }
}

fn python(command: &Command<'_>) -> Result<Option<usize>, TemplateError> {
    let is_flags = |word: &String| {
        word.strip_prefix('-').is_some_and(|flags| {
            !flags.is_empty() && flags.chars().all(|c| PYTHON_FLAGS.contains(c))
        })
    };
    let arguments = command.arguments;
    let flags: Vec<String> =
        arguments.iter().map_while(Word::literal).take_while(is_flags).collect();
    let at = flags.len();
    if !arguments.get(at).is_some_and(|word| is_literally(word, &["-m"])) {
        return script(command, at).map(Some);
    }
    let Some(module) = arguments.get(at + 1).and_then(Word::literal) else {
        return refuse("the module after `-m` must be fixed".to_owned());
    };
    let root = module.split('.').next().unwrap_or_default();
    let is_given = arguments.iter().skip(at + 2).any(|word| word.literal().is_none());
    if PYTHON_RUNNERS.contains(&root) && is_given {
        return refuse(format!(
            "the module `{module}` runs what its arguments name; run a fixed script instead, such as `python3 ./NAME.py`"
        ));
    }
    // Otherwise the working folder, which callers may write, is searched for the module first.
    if command.place == Place::Elsewhere || flags.iter().any(|flags| flags.contains(['I', 'P'])) {
        return Ok(None);
    }
    refuse("write `-I` before `-m`, so that the module is not taken from the workspace".to_owned())
}

/// The script must stand first, in a place that callers can't write.
pub(super) fn script(command: &Command<'_>, at: usize) -> Result<usize, TemplateError> {
    let script = command.arguments.get(at).and_then(Word::literal).unwrap_or_default();
    let is_path = script.starts_with("./") || script.starts_with('/');
    let is_input = script.starts_with("/dev/") || script.starts_with("/proc/");
    let is_plain = !script.is_empty() && !script.starts_with('-') && !script.contains("{}");
    let is_fixed = match command.place {
        Place::Here => is_path,
        Place::Elsewhere => is_plain,
    };
    // `docker run node env …`: the first was the image.
    if command.place == Place::Elsewhere && kind(&name(&script)).is_some() {
        let rest = command.arguments.get(at + 1..).unwrap_or_default();
        Command::new(&script, rest, command.parameters, command.place).check()?;
        return Ok(at);
    }
    if is_fixed && !is_input && !is_subcommand(&command.name, &script) {
        return Ok(at);
    }
    refuse(format!(
        "`{}` runs code; it may only run a fixed script, which stands first: an absolute path, or `./NAME` for a file of the toolpack",
        command.name
    ))
}

/// Words that languages take for a command of their own, where a script could have any name.
fn is_subcommand(language: &str, word: &str) -> bool {
    const CODE: &[&str] = &["console", "eval", "exec", "repl", "run", "runner", "x"];
    matches!(language, "bun" | "crystal" | "dart" | "deno" | "rails" | "scala-cli" | "swift")
        && CODE.contains(&word)
}

pub(super) fn runner(command: &Command<'_>) -> Result<(), TemplateError> {
    let runner = command.name.as_str();
    // Their first word is a subcommand, not a program.
    let has_commands = matches!(runner, "corepack" | "npm" | "pipx" | "pnpm" | "uv" | "yarn");
    let (mut is_named, mut is_script) = (!has_commands, false);
    let mut words = command.arguments.iter();
    while let Some(word) = words.next() {
        let Some(word) = word.literal() else { break };
        let option = word.split_once('=').map_or(word.as_str(), |(option, _)| option);
        if RUNNER_CODE.contains(&option) {
            return refuse(format!("`{runner} {option}` runs an argument as code"));
        }
        if RUNNER_VALUES.contains(&word.as_str()) {
            if words.next().and_then(Word::literal).is_none() {
                break;
            }
        } else if RUNS.contains(&word.as_str()) {
            // `npm run NAME` is a script of the package, not a program.
            is_script = matches!(runner, "npm" | "pnpm" | "yarn") && word == "run";
            is_named = true;
        } else if !word.starts_with('-') {
            if is_script || !is_named {
                return Ok(());
            }
            let (program, rest) = (without_version(&word), words.as_slice());
            return Command::new(program, rest, command.parameters, command.place)
                .check()
                .map(drop);
        }
    }
    refuse(format!("what `{runner}` runs must be fixed; write one tool for each program"))
}

/// `tsx@4` and `ipython==8.0` without what follows the name.
fn without_version(package: &str) -> &str {
    let package = package.split_once("==").map_or(package, |(name, _)| name);
    match package.rsplit_once('@') {
        Some((name, _)) if !name.is_empty() => name,
        Some(_) | None => package,
    }
}

/// The option by which an interpreter takes code from a caller, among these words.
pub(super) fn code_option(interpreter: &str, words: &[Word]) -> Option<String> {
    let is_code = |option: &str| is_code_option(interpreter, option);
    let words = words.get(..own_options(words)).unwrap_or_default();
    words.iter().enumerate().find_map(|(at, word)| match word.literal() {
        Some(option) if is_code(&option) => {
            words.get(at + 1).filter(|next| next.literal().is_none()).map(|_| option)
        }
        Some(_) => None,
        None => word.first_literal().filter(|option| is_code(option)).map(str::to_owned),
    })
}

/// How many words can be options of an interpreter, and their values: what follows its script is the
/// script's own.
fn own_options(words: &[Word]) -> usize {
    let is_option = |word: &str| word.starts_with(['-', '+']);
    let has_value = |word: &str| is_option(word) && !word.contains('=') && word != "--";
    let mut before = None;
    for (at, word) in words.iter().enumerate() {
        let text = word.literal();
        let is_value = before.as_deref().is_some_and(has_value);
        if text.as_deref().is_some_and(|text| !is_option(text)) && !is_value {
            return at;
        }
        before = text;
    }
    words.len()
}

fn is_code_option(interpreter: &str, option: &str) -> bool {
    const LONG: &[&str] = &[
        "code",
        "command",
        "commands",
        "eval",
        "execute",
        "expr",
        "expression",
        "init-command",
        "print",
    ];
    let is_powershell = matches!(interpreter, "powershell" | "pwsh");
    let option = if is_powershell { option.to_ascii_lowercase() } else { option.to_owned() };
    if let Some(long) = option.strip_prefix("--") {
        return LONG.contains(&long.trim_end_matches('='));
    }
    let letters = match (interpreter, kind(interpreter)) {
        ("node" | "nodejs" | "bun" | "ts-node" | "tsx", _) => "ep",
        ("php", _) => "rBRE",
        ("perl", _) => "eEM",
        ("gosh" | "julia", _) => "eE",
        ("clj" | "clojure", _) => "eX",
        ("lua" | "luajit" | "r" | "raku" | "rscript" | "ruby", _) => "e",
        ("nu" | "powershell" | "pwsh", _) => "ce",
        ("fish", _) => "cC",
        // It takes none.
        ("java", _) => "",
        (_, Some(Kind::Shell)) | ("python" | "pypy" | "ipython" | "micropython", _) => "c",
        _ => "ecrpxg",
    };
    option.strip_prefix('-').is_some_and(|cluster| cluster.contains(|c| letters.contains(c)))
}
