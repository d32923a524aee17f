//! Programs that run what their arguments say.
//!
//! Splitting a template keeps an argument one argument; it does not help if the program itself reads
//! that argument as code. So these programs may run a fixed script and nothing else, or are refused.

use super::TemplateError;
use super::parameters::{Parameter, Parameters};
use super::words::{Piece, Word};

/// Programs that start what their arguments name, pass it to a shell, or read it as commands of their
/// own that can start others.
const WRAPPERS: &[&str] = &[
    "at",
    "batch",
    "builtin",
    "busybox",
    "chroot",
    "chrt",
    "command",
    "crontab",
    "dbus-run-session",
    "dc",
    "doas",
    "ed",
    "emacs",
    "env",
    "eval",
    "ex",
    "exec",
    "expect",
    "firejail",
    "flock",
    "gdb",
    "gnuplot",
    "ionice",
    "ltrace",
    "m4",
    "mysql",
    "nice",
    "nohup",
    "nsenter",
    "nvim",
    "parallel",
    "pkexec",
    "prlimit",
    "proot",
    "psql",
    "rsh",
    "runuser",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "source",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "tmux",
    "toybox",
    "unshare",
    "vi",
    "vim",
    "watch",
    "xargs",
];
/// Shells.
const SHELLS: &[&str] = &[
    "ash",
    "bash",
    "cmd",
    "csh",
    "dash",
    "elvish",
    "fish",
    "ksh",
    "mksh",
    "nu",
    "osh",
    "powershell",
    "pwsh",
    "rbash",
    "sh",
    "tcsh",
    "xonsh",
    "yash",
    "zsh",
];
/// Languages whose interpreters take code as an argument.
const LANGUAGES: &[&str] = &[
    "bun",
    "clojure",
    "deno",
    "elixir",
    "erl",
    "ghci",
    "groovy",
    "guile",
    "irb",
    "java",
    "jshell",
    "julia",
    "lua",
    "luajit",
    "node",
    "nodejs",
    "ocaml",
    "octave",
    "osascript",
    "perl",
    "php",
    "pypy",
    "python",
    "r",
    "raku",
    "rscript",
    "ruby",
    "scala",
    "swift",
    "tclsh",
    "ts-node",
    "tsx",
    "wish",
];
/// Programs that fetch or find a program by its name and start it.
const RUNNERS: &[&str] =
    &["bunx", "corepack", "npm", "npx", "pipx", "pnpm", "pnpx", "uv", "uvx", "yarn"];
/// Their subcommands that are followed by a program's name.
const RUNS: &[&str] = &["dlx", "exec", "run", "tool", "x"];
/// Options by which they take code.
const RUNNER_CODE: &[&str] = &["-c", "--call", "--shell-mode", "-e", "--eval"];
/// Programs whose first argument is a program in a language of their own.
const EDITORS: &[&str] = &["awk", "gawk", "gsed", "mawk", "nawk", "sed"];
/// Options of theirs with a value that is data.
const EDITOR_DATA: &[&str] = &["-v", "-F"];
/// Options of theirs that bring the program.
const EDITOR_CODE: &[&str] = &["-e", "-f", "--expression", "--file"];
/// Options of Python that change nothing about what it runs.
const PYTHON_FLAGS: &str = "uIBEsSOPvqb";

/// Refuses a template whose arguments would be run. Returns the place of an interpreter's script
/// among the arguments.
pub(super) fn check(
    program: &str,
    arguments: &[Word],
    parameters: &Parameters,
) -> Result<Option<usize>, TemplateError> {
    nothing_hidden(arguments)?;
    let name = name(program);
    if WRAPPERS.contains(&name.as_str()) {
        return refuse(format!(
            "`{name}` runs what its arguments name; write that program itself (variables go into `env`, time into `timeout_seconds`)"
        ));
    }
    if SHELLS.contains(&name.as_str()) {
        return script(&name, arguments, 0).map(Some);
    }
    if LANGUAGES.contains(&name.as_str()) {
        return language(&name, arguments);
    }
    if RUNNERS.contains(&name.as_str()) {
        return runner(&name, arguments).map(|()| None);
    }
    if EDITORS.contains(&name.as_str()) {
        return editor(&name, arguments, parameters).map(|()| None);
    }
    if name == "sqlite" && !arguments.iter().any(|word| is_literally(word, &["-safe", "--safe"])) {
        return refuse("`sqlite3` runs programs by `.shell`; add `-safe`".to_owned());
    }
    Ok(None)
}

/// `/usr/bin/python3.12` is `python`.
fn name(program: &str) -> String {
    let base = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let base = base.strip_suffix(".exe").unwrap_or(&base);
    let base = base.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if base.starts_with("python") { "python".to_owned() } else { base.to_owned() }
}

fn refuse<T>(reason: String) -> Result<T, TemplateError> {
    Err(TemplateError::Interpreter(reason))
}

/// `docker run image sh -c {{x}}`, `find -exec {{x}}`.
fn nothing_hidden(arguments: &[Word]) -> Result<(), TemplateError> {
    for pair in arguments.windows(2) {
        let [first, second] = pair else { continue };
        let Some(first) = first.literal() else { continue };
        let (inner, second) = (name(&first), second.literal());
        if ["-exec", "-execdir", "-ok", "-okdir"].contains(&first.as_str()) && second.is_none() {
            return refuse(format!("the program after `{first}` must be fixed"));
        }
        let Some(option) = second.filter(|second| second.starts_with('-')) else { continue };
        let cluster = !option.starts_with("--");
        let is_shell = SHELLS.contains(&inner.as_str())
            && (cluster && option.contains('c') || option == "--command");
        let is_language = LANGUAGES.contains(&inner.as_str())
            && ["-c", "-e", "-E", "-r", "--eval"].contains(&option.as_str());
        if is_shell || is_language {
            return refuse(format!(
                "`{first} {option}` runs an argument as code; let a script do that"
            ));
        }
    }
    Ok(())
}

fn language(name: &str, arguments: &[Word]) -> Result<Option<usize>, TemplateError> {
    let literal = |at: usize| arguments.get(at).and_then(Word::literal);
    match name {
        "python" => python(arguments),
        // Its permissions come before the script.
        "deno" if literal(0).is_some_and(|word| word == "run") => {
            let is_permission =
                |word: &String| word.starts_with("--allow-") || word.starts_with("--deny-");
            let words = arguments.iter().skip(1).map_while(Word::literal);
            let permissions = words.take_while(is_permission).count();
            script(name, arguments, 1 + permissions).map(Some)
        }
        "bun" if literal(0).is_some_and(|word| word == "run") => {
            script(name, arguments, 1).map(Some)
        }
        "java" if literal(0).is_some_and(|word| word == "-jar") => {
            script(name, arguments, 1).map(Some)
        }
        _ => script(name, arguments, 0).map(Some),
    }
}

fn python(arguments: &[Word]) -> Result<Option<usize>, TemplateError> {
    let is_flags = |word: &String| {
        word.strip_prefix('-').is_some_and(|flags| {
            !flags.is_empty() && flags.chars().all(|c| PYTHON_FLAGS.contains(c))
        })
    };
    let flags: Vec<String> =
        arguments.iter().map_while(Word::literal).take_while(is_flags).collect();
    let at = flags.len();
    if !arguments.get(at).is_some_and(|word| is_literally(word, &["-m"])) {
        return script("python", arguments, at).map(Some);
    }
    if arguments.get(at + 1).and_then(Word::literal).is_none() {
        return refuse("the module after `-m` must be fixed".to_owned());
    }
    // Otherwise the working folder, which callers may write, is searched for the module first.
    if flags.iter().any(|flags| flags.contains(['I', 'P'])) {
        return Ok(None);
    }
    refuse("write `-I` before `-m`, so that the module is not taken from the workspace".to_owned())
}

/// The script must stand first, in a place that callers can't write.
fn script(name: &str, arguments: &[Word], at: usize) -> Result<usize, TemplateError> {
    let script = arguments.get(at).and_then(Word::literal);
    let fixed = script.is_some_and(|script| {
        (script.starts_with("./") || script.starts_with('/'))
            && !script.starts_with("/dev/")
            && !script.starts_with("/proc/")
    });
    if fixed {
        return Ok(at);
    }
    refuse(format!(
        "`{name}` runs code; it may only run a fixed script, which stands first: an absolute path, or `./NAME` for a file of the toolpack"
    ))
}

fn runner(name: &str, arguments: &[Word]) -> Result<(), TemplateError> {
    for word in arguments {
        let Some(word) = word.literal() else {
            return refuse(format!("what `{name}` runs must be fixed"));
        };
        let option = word.split_once('=').map_or(word.as_str(), |(option, _)| option);
        if RUNNER_CODE.contains(&option) {
            return refuse(format!("`{name} {option}` runs an argument as code"));
        }
        if !word.starts_with('-') && !RUNS.contains(&word.as_str()) {
            return Ok(());
        }
    }
    refuse(format!("what `{name}` runs must be fixed"))
}

/// The program must be fixed, but for numbers: `sed -n {{from}},{{to}}p`.
fn editor(name: &str, arguments: &[Word], parameters: &Parameters) -> Result<(), TemplateError> {
    let is_fixed = |word: &Word| {
        word.pieces.iter().all(|piece| match piece {
            Piece::Literal(_) => true,
            Piece::Placeholder { name, .. } => {
                parameters.all.get(name).is_some_and(Parameter::is_numeric)
            }
        })
    };
    let mut before = None;
    let mut is_found = false;
    for word in arguments {
        let is_data = before.is_some_and(|before| is_literally(before, EDITOR_DATA));
        let is_code = before.is_some_and(|before| is_literally(before, EDITOR_CODE));
        let is_option = word.begins_with("-");
        let is_free = !is_code && !is_option && (is_found || is_data);
        if !is_free && !is_fixed(word) {
            return refuse(format!("`{name}` runs its first argument, which must be fixed"));
        }
        let brings_code = EDITOR_CODE.iter().any(|option| word.begins_with(option));
        is_found |= brings_code || (!is_option && !is_data);
        before = Some(word);
    }
    Ok(())
}

fn is_literally(word: &Word, texts: &[&str]) -> bool {
    word.literal().is_some_and(|word| texts.contains(&word.as_str()))
}
