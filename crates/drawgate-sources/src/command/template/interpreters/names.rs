//! Names of programs that run what their arguments say, by the way in which they do it.

/// How a program comes to run its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Starts what its arguments name, or reads them as commands of its own that can.
    Wrapper,
    /// A shell.
    Shell,
    /// An interpreter that takes code as an argument.
    Language,
    /// Finds or fetches a program by its name and starts it.
    Runner,
    /// Its first argument is a program in a language of its own.
    Editor,
    /// Evaluates its arguments, wherever they stand.
    Maker,
}

pub(super) fn kind(name: &str) -> Option<Kind> {
    let tables = [
        (WRAPPERS, Kind::Wrapper),
        (SHELLS, Kind::Shell),
        (LANGUAGES, Kind::Language),
        (RUNNERS, Kind::Runner),
        (EDITORS, Kind::Editor),
        (MAKERS, Kind::Maker),
    ];
    let found = tables.into_iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, kind)| kind).or_else(|| is_loader(name).then_some(Kind::Wrapper))
}

/// The system's loader runs the program that follows: `ld-linux-x86-64.so.2`.
fn is_loader(name: &str) -> bool {
    ["ld-linux", "ld-musl", "ld.so"].iter().any(|loader| name.starts_with(loader))
}

/// Whether this word among the arguments of a program that is not known can only mean that the next
/// one is to be started. `mysql` could be the name of anything, and `/var/lib/sudo` is a folder.
pub(super) fn starts_next(word: &str) -> bool {
    let name = name(word);
    let is_starter = if word.contains('/') {
        is_in_bin(word) && STARTERS.contains(&name.as_str())
    } else {
        !is_ordinary_word(&name) && STARTERS.contains(&name.as_str())
    };
    is_starter || is_loader(&name)
}

/// Whether this word can be a program: `deploy/java` is a thing of that name.
pub(super) fn can_be_program(word: &str) -> bool {
    !word.contains('/') || word.starts_with(['/', '.']) || is_in_bin(word)
}

fn is_in_bin(path: &str) -> bool {
    let mut parts = path.rsplit('/').skip(1);
    parts.next().is_some_and(|folder| matches!(folder, "bin" | "sbin"))
}

/// `/usr/bin/python3.12` is `python`, `bash-static` is `bash`.
pub(super) fn name(program: &str) -> String {
    let base = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    // As the image of a container: `node:20-alpine`.
    let base = base.split(':').next().unwrap_or_default();
    let mut base = base.strip_suffix(".exe").unwrap_or(base);
    loop {
        let before = base;
        base = base.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        for flavour in FLAVOURS {
            base = base.strip_suffix(flavour).unwrap_or(base);
        }
        if base == before {
            break;
        }
    }
    if base.starts_with("python") { "python".to_owned() } else { base.to_owned() }
}

/// Whether it is a word that is often written for something else: `kubectl get node`, `gh run watch`.
pub(super) fn is_ordinary_word(name: &str) -> bool {
    ORDINARY_WORDS.contains(&name)
}

/// How distributions mark a build of the same program.
const FLAVOURS: &[&str] =
    &["-static", ".static", ".basic", ".tiny", ".nox", ".gtk", ".openbsd", ".traditional", "-dbg"];

const ORDINARY_WORDS: &[&str] = &[
    "at", "batch", "builtin", "command", "daemon", "dc", "ed", "env", "eval", "ex", "exec",
    "expect", "factor", "groovy", "io", "java", "js", "julia", "just", "lua", "make", "mono",
    "nice", "node", "nu", "octave", "parallel", "perf", "perl", "php", "pike", "python", "r",
    "racket", "rails", "ruby", "scala", "screen", "script", "source", "ssh", "su", "swift",
    "telnet", "time", "timeout", "view", "watch",
];

const WRAPPERS: &[&str] = &[
    "abduco",
    "ansible",
    "at",
    "autossh",
    "batch",
    "builtin",
    "busybox",
    "bwrap",
    "byobu",
    "capsh",
    "cgexec",
    "choom",
    "chpst",
    "chroot",
    "chrt",
    "command",
    "cpulimit",
    "crontab",
    "daemon",
    "daemonize",
    "dbus-launch",
    "dbus-run-session",
    "dc",
    "doas",
    "dtach",
    "dumb-init",
    "ed",
    "emacs",
    "emacsclient",
    "entr",
    "env",
    "eval",
    "ex",
    "exec",
    "expect",
    "fakeroot",
    "faketime",
    "firejail",
    "flock",
    "ftp",
    "gdb",
    "gnuplot",
    "gosu",
    "gvim",
    "hyperfine",
    "ionice",
    "lftp",
    "linux",
    "lldb",
    "ltrace",
    "m4",
    "mailx",
    "mariadb",
    "mosh",
    "mysql",
    "ncat",
    "nice",
    "nodemon",
    "nohup",
    "nsenter",
    "nsjail",
    "numactl",
    "nvim",
    "parallel",
    "perf",
    "pkexec",
    "prlimit",
    "proot",
    "proxychains",
    "psql",
    "rlwrap",
    "rr",
    "rsh",
    "run-parts",
    "runuser",
    "rview",
    "rvim",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "socat",
    "source",
    "sqlplus",
    "ssh",
    "ssh-agent",
    "sshpass",
    "start-stop-daemon",
    "stdbuf",
    "strace",
    "su",
    "su-exec",
    "sudo",
    "sudoedit",
    "systemd-inhibit",
    "systemd-nspawn",
    "systemd-run",
    "taskset",
    "telnet",
    "time",
    "timeout",
    "tini",
    "tmate",
    "tmux",
    "torsocks",
    "toybox",
    "unbuffer",
    "unshare",
    "valgrind",
    "vi",
    "view",
    "vim",
    "vimdiff",
    "watch",
    "watchexec",
    "wine",
    "xargs",
    "xterm",
    "xvfb-run",
    "zellij",
];

/// Wrappers that do little else than to start the program that follows.
const STARTERS: &[&str] = &[
    "busybox",
    "chroot",
    "chrt",
    "dbus-run-session",
    "doas",
    "dumb-init",
    "env",
    "fakeroot",
    "firejail",
    "gosu",
    "ionice",
    "nice",
    "nohup",
    "nsenter",
    "pkexec",
    "prlimit",
    "proxychains",
    "runuser",
    "setarch",
    "setpriv",
    "setsid",
    "stdbuf",
    "su-exec",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "tini",
    "torsocks",
    "toybox",
    "unbuffer",
    "unshare",
    "xargs",
    "xvfb-run",
];

const SHELLS: &[&str] = &[
    "ash",
    "bash",
    "cmd",
    "csh",
    "dash",
    "elvish",
    "fish",
    "hush",
    "ion",
    "ksh",
    "lksh",
    "mksh",
    "nu",
    "oil",
    "osh",
    "pdksh",
    "posh",
    "powershell",
    "pwsh",
    "rbash",
    "rc",
    "rksh",
    "rzsh",
    "sash",
    "sh",
    "tcsh",
    "xonsh",
    "yash",
    "zsh",
];

const LANGUAGES: &[&str] = &[
    "amm",
    "bb",
    "bpython",
    "bsh",
    "bun",
    "circuitpython",
    "cjs",
    "clisp",
    "clj",
    "clojure",
    "crystal",
    "csi",
    "dart",
    "deno",
    "ecl",
    "elixir",
    "erl",
    "escript",
    "factor",
    "fennel",
    "forth",
    "gforth",
    "ghc",
    "ghci",
    "gjs",
    "gosh",
    "gp",
    "graalpy",
    "groovy",
    "guile",
    "hhvm",
    "iex",
    "io",
    "ipython",
    "irb",
    "janet",
    "java",
    "jimsh",
    "jjs",
    "jrunscript",
    "jruby",
    "js",
    "jshell",
    "julia",
    "jython",
    "kotlin",
    "kotlinc",
    "lua",
    "luajit",
    "maxima",
    "micropython",
    "mongo",
    "mongosh",
    "mono",
    "mruby",
    "node",
    "nodejs",
    "ocaml",
    "octave",
    "osascript",
    "perl",
    "php",
    "pike",
    "pry",
    "psysh",
    "ptpython",
    "pypy",
    "python",
    "qjs",
    "r",
    "racket",
    "rails",
    "raku",
    "rhino",
    "rscript",
    "ruby",
    "runghc",
    "runhaskell",
    "sage",
    "sbcl",
    "scala",
    "scala-cli",
    "scilab",
    "swift",
    "swipl",
    "tclsh",
    "truffleruby",
    "ts-node",
    "tsx",
    "utop",
    "wish",
    "wolframscript",
    "zx",
];

const RUNNERS: &[&str] =
    &["bunx", "corepack", "npm", "npx", "pipx", "pnpm", "pnpx", "uv", "uvx", "yarn"];

const EDITORS: &[&str] = &["awk", "gawk", "gsed", "mawk", "nawk", "sed", "ssed"];

const MAKERS: &[&str] = &["bmake", "gmake", "gnumake", "just", "make", "nmake", "remake"];
