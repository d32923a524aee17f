//! Names that a program must not plant in a folder it may write.
//!
//! Whoever opens that folder later (an editor, an agent, a shell, git, this gateway) executes or
//! trusts them. What is there already is read-only in the box; what is new is moved away afterwards.

use std::io;
use std::path::Path;

/// Files and folders, relative to a writable folder. `a/b` protects `b` and pins `a` in its place.
pub(crate) const PROTECTED: &[&str] = &[
    // Agents and their tools: commands that are started when the folder is opened.
    ".mcp.json",
    "mcp.json",
    "toolpacks",
    "toolpacks.lock",
    "drawgate.toml",
    ".drawgate",
    ".claude",
    ".claude.json",
    ".codex",
    ".cursor",
    ".gemini",
    ".windsurf",
    ".roo",
    ".continue",
    ".aider.conf.yml",
    ".goose",
    ".amazonq",
    ".kiro",
    ".qwen",
    ".opencode",
    "opencode.json",
    // Editors: tasks, debuggers, interpreters of the workspace.
    ".vscode",
    ".idea",
    ".zed",
    ".fleet",
    ".devcontainer",
    ".devcontainer.json",
    ".vimrc",
    ".nvimrc",
    ".nvim.lua",
    ".exrc",
    ".emacs",
    ".dir-locals.el",
    // git: hooks, and settings that name commands; the last lead it to other settings.
    // A folder with `HEAD` is a repository of its own, with settings at its top.
    "HEAD",
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/modules",
    ".gitconfig",
    ".husky",
    ".hg/hgrc",
    // Shells and what they load.
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".config/fish",
    ".config/autostart",
    ".config/systemd",
    ".config/environment.d",
    ".config/git",
    ".config/direnv",
    ".config/mise",
    ".mise.toml",
    "mise.toml",
    // Package managers, debuggers, remote access.
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".pypirc",
    ".pip",
    ".config/pip",
    ".cargo/config.toml",
    ".cargo/config",
    ".gdbinit",
    ".lldbinit",
    ".pdbrc",
    ".Rprofile",
    ".irbrc",
    ".pryrc",
    ".ghci",
    ".netrc",
    ".ssh",
    ".gnupg",
    ".forward",
    ".rhosts",
];

/// The protected names and the folders above them, outermost first.
pub(crate) fn with_folders_above() -> impl Iterator<Item = &'static str> {
    PROTECTED.iter().flat_map(|name| {
        let above = name.match_indices('/').filter_map(|(at, _)| name.get(..at));
        above.chain([*name])
    })
}

/// Whether it is only a folder above protected names.
pub(crate) fn is_above(name: &str) -> bool {
    // Compared as text: as paths, each with all others, it was a large part of a box's start.
    !PROTECTED.contains(&name)
}

/// What a folder has not of them.
pub(crate) fn absent_in(folder: &Path) -> Vec<String> {
    let is_absent = |name: &&str| {
        let found = folder.join(name).symlink_metadata();
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    with_folders_above().filter(is_absent).map(str::to_owned).collect()
}

/// Secrets of the folder's owner, hidden in the box where a whole home folder was opened.
pub(crate) const SECRETS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".oci",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".pypirc",
    ".git-credentials",
    ".vault-token",
    ".password-store",
    ".terraform.d",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/google-chrome",
    ".config/chromium",
    ".mozilla",
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".local/share/keyrings",
    ".local/share/drawgate",
];
