//! Options of ordinary programs with a value that is a program, or a setting that can name one. Callers
//! may not fill them, unless they only choose among values that the author has listed.

use super::{Command, TemplateError, Word, is_literally, refuse};

/// A program, for some with a subcommand, and an option of it.
const TABLE: &[(&str, &str)] = &[
    ("ack", "--pager"),
    ("ag", "--pager"),
    ("ansible-playbook", "--extra-vars"),
    ("ansible-playbook", "--module-path"),
    ("ansible-playbook", "--ssh-common-args"),
    ("ansible-playbook", "--ssh-extra-args"),
    ("ansible-playbook", "-M"),
    ("ansible-playbook", "-e"),
    ("apt", "-o"),
    ("apt-get", "-o"),
    ("bat", "--pager"),
    ("cargo", "--config"),
    ("clang", "-fplugin"),
    ("cmake", "-P"),
    ("curl", "--config"),
    ("curl", "-K"),
    ("docker", "--config"),
    ("docker", "--entrypoint"),
    ("fly", "--command"),
    ("fly", "-C"),
    ("flyctl", "--command"),
    ("flyctl", "-C"),
    ("gcc", "-fplugin"),
    ("gcc", "-wrapper"),
    ("gcloud", "--command"),
    ("git", "--config-env"),
    ("git", "--exec"),
    ("git", "--exec-path"),
    ("git", "--extcmd"),
    ("git", "--open-files-in-pager"),
    ("git", "--receive-pack"),
    ("git", "--upload-pack"),
    ("git", "-c"),
    ("git clone", "--config"),
    ("git clone", "--template"),
    ("git clone", "-c"),
    ("git clone", "-u"),
    ("git difftool", "-x"),
    ("git filter-branch", "--commit-filter"),
    ("git filter-branch", "--env-filter"),
    ("git filter-branch", "--index-filter"),
    ("git filter-branch", "--msg-filter"),
    ("git filter-branch", "--tree-filter"),
    ("git grep", "-O"),
    ("git init", "--template"),
    ("git rebase", "-x"),
    ("go", "-exec"),
    ("go", "-overlay"),
    ("go", "-toolexec"),
    ("go", "-vettool"),
    ("gpg", "--agent-program"),
    ("gpg", "--dirmngr-program"),
    ("gpg", "--options"),
    ("gpg", "--photo-viewer"),
    ("gradle", "--init-script"),
    ("gradle", "-I"),
    ("helm", "--kubeconfig"),
    ("helm", "--post-renderer"),
    ("hg", "--config"),
    ("kubectl", "--kubeconfig"),
    ("man", "--html"),
    ("man", "--pager"),
    ("man", "-C"),
    ("man", "-P"),
    ("mise", "--command"),
    ("mise exec", "-c"),
    ("mise x", "-c"),
    ("nc", "--exec"),
    ("nc", "--sh-exec"),
    ("nc", "-c"),
    ("nc", "-e"),
    ("nix", "--command"),
    ("nix", "--expr"),
    ("nix", "-c"),
    ("nix-build", "--expr"),
    ("nix-build", "-E"),
    ("nix-shell", "--command"),
    ("nix-shell", "--expr"),
    ("nix-shell", "--run"),
    ("nix-shell", "-E"),
    ("nmap", "--datadir"),
    ("nmap", "--script"),
    ("openssl", "-config"),
    ("openssl", "-engine"),
    ("openssl", "-provider"),
    ("openssl", "-provider-path"),
    ("pandoc", "--filter"),
    ("pandoc", "--lua-filter"),
    ("pandoc", "--pdf-engine"),
    ("pandoc", "-F"),
    ("pandoc", "-L"),
    ("podman", "--entrypoint"),
    ("rake", "-E"),
    ("rake", "-e"),
    ("rake", "-f"),
    ("rake", "-r"),
    ("redis-cli", "--eval"),
    ("rg", "--hostname-bin"),
    ("rg", "--pre"),
    ("rsync", "--rsh"),
    ("rsync", "--rsync-path"),
    ("rsync", "-e"),
    ("scp", "-F"),
    ("scp", "-S"),
    ("scp", "-o"),
    ("sftp", "-D"),
    ("sftp", "-F"),
    ("sftp", "-S"),
    ("sftp", "-b"),
    ("sftp", "-o"),
    ("sort", "--compress-program"),
    ("split", "--filter"),
    ("ssh-keygen", "-D"),
    ("svn", "--config-option"),
    ("svn", "--diff-cmd"),
    ("svn", "--editor-cmd"),
    ("tar", "--checkpoint-action"),
    ("tar", "--info-script"),
    ("tar", "--new-volume-script"),
    ("tar", "--rmt-command"),
    ("tar", "--rsh-command"),
    ("tar", "--to-command"),
    ("tar", "--use-compress-program"),
    ("tar", "-F"),
    ("tar", "-I"),
    ("tcpdump", "-z"),
    ("terraform", "-plugin-dir"),
    ("vagrant", "--command"),
    ("vagrant", "-c"),
    ("wget", "--config"),
    ("wget", "--execute"),
    ("wget", "--use-askpass"),
    ("wget", "-e"),
    ("zip", "--unzip-command"),
    ("zip", "-TT"),
];

/// A shortened option has at least so many characters, its dashes included.
const SHORTEST: usize = 4;
/// Before a subcommand it is a setting; most subcommands mean something else by it.
const GIT_SETTING: (&str, &str) = ("git", "-c");
/// Options before git's subcommand with a value in a word of its own.
const GIT_VALUES: &[&str] = &[
    "-C",
    "-c",
    "--attr-source",
    "--config-env",
    "--git-dir",
    "--namespace",
    "--super-prefix",
    "--work-tree",
];

pub(super) fn check(command: &Command<'_>) -> Result<(), TemplateError> {
    // `gtar` and `bsdtar` are `tar`.
    let name = match command.name.as_str() {
        "bsdtar" | "gtar" => "tar",
        "g++" | "c++" | "cc" => "gcc",
        "clang++" => "clang",
        "gpg-agent" | "gpgv" => "gpg",
        "nerdctl" => "docker",
        "gsort" => "sort",
        "oc" => "kubectl",
        "netcat" => "nc",
        other => other,
    };
    for (at, word) in command.arguments.iter().enumerate() {
        if is_literally(word, &["--"]) {
            break;
        }
        let before = command.arguments.get(..at).unwrap_or_default();
        let next = command.arguments.get(at + 1);
        let found = TABLE.iter().filter(|row| is_program(row, name, before));
        for (_, option) in found {
            let value = match word.literal() {
                Some(text) if awaits(name, &text, option) => next,
                Some(_) => None,
                None => word.first_literal().filter(|text| holds(name, text, option)).map(|_| word),
            };
            if value.is_some_and(|value| !command.is_chosen(value)) {
                return refuse(format!(
                    "the value of `{name} {option}` is run, or decides what is; fix it in the template, or list what a caller may choose in `enum`"
                ));
            }
        }
    }
    Ok(())
}

fn is_program(row: &(&str, &str), name: &str, before: &[Word]) -> bool {
    match row.0.split_once(' ') {
        Some((program, sub)) => {
            program == name && before.iter().any(|word| is_literally(word, &[sub]))
        }
        None => row.0 == name && !(*row == GIT_SETTING && has_subcommand(before)),
    }
}

/// Whether git's subcommand is among these words.
fn has_subcommand(words: &[Word]) -> bool {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.literal() {
            Some(text) if GIT_VALUES.contains(&text.as_str()) => drop(words.next()),
            Some(text) if !text.starts_with('-') => return true,
            Some(_) | None => {}
        }
    }
    false
}

/// Whether this word is the option, and the next one its value. Long ones may be shortened, and
/// letters stand together.
fn awaits(program: &str, text: &str, option: &str) -> bool {
    if option.starts_with("--") {
        return text == option || (text.len() >= SHORTEST && option.starts_with(text));
    }
    let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1);
    let flags = letter.and_then(|letter| text.strip_prefix('-')?.strip_suffix(letter));
    text == option || flags.is_some_and(|flags| flags.chars().all(|c| is_flag(program, c)))
}

/// Whether other letters may follow this one: `-sSK`. After others comes their value: `-XLOCK`.
fn is_flag(program: &str, letter: char) -> bool {
    let capitals = match program {
        "ansible-playbook" => "CDK",
        "curl" => "BGIJLMNORSVZ",
        "git" => "EFGHILPW",
        "gradle" => "SV",
        "man" => "DKWXZ",
        "nc" => "CDFNSUZ",
        "pandoc" => "NRS",
        "rake" => "ABGNPTX",
        "rsync" => "ACDEFHJLNOPRSUWX",
        "scp" | "sftp" => "ABCNORT",
        "tar" => "ABGJMOPRSUWZ",
        "tcpdump" => "ADHIJKLNOSUX",
        "wget" => "EFHKLNSV",
        _ => "",
    };
    letter.is_ascii_lowercase()
        || letter.is_ascii_digit()
        || matches!(letter, '#' | ':')
        || capitals.contains(letter)
}

/// Whether a word that begins so has the option's value in it.
fn holds(program: &str, text: &str, option: &str) -> bool {
    match text.split_once('=') {
        Some((text, _)) => awaits(program, text, option),
        None => !text.starts_with("--") && awaits(program, text, option),
    }
}

pub(super) fn is_database(name: &str) -> bool {
    matches!(name, "sqlite" | "duckdb")
}

/// Their shells run programs by `.shell`.
pub(super) fn safe_database(command: &Command<'_>) -> Result<(), TemplateError> {
    let is_safe = |word: &Word| is_literally(word, &["-safe", "--safe"]);
    if is_database(&command.name) && !command.arguments.iter().any(is_safe) {
        return refuse(format!("`{}` runs programs by `.shell`; add `-safe`", command.name));
    }
    Ok(())
}
