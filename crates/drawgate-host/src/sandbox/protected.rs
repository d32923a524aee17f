//! Names that a program must not plant in a folder it may write.
//!
//! Whoever opens that folder later (an editor, an agent, a shell, git, this gateway) executes them,
//! trusts them, or takes them for instructions. What is there already is read-only in the box; what is
//! new is moved away afterwards. The gateway's own file tools refuse to write them, at any depth.

use std::io;
use std::path::Path;

use super::entries::FolderEntries;

/// Files and folders, relative to a writable folder. `a/b` protects `b` and pins `a` in its place.
pub(crate) const PROTECTED: &[&str] = &[
    // Agents and their tools: commands that are started when the folder is opened.
    ".mcp.json",
    "mcp.json",
    "toolpacks",
    "toolpacks.lock",
    "drawgate.toml",
    "drawgate.lock",
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
    ".trae",
    ".augment",
    ".junie",
    // Agents: what they take for the instructions of the folder's owner.
    "AGENTS.md",
    "AGENTS.override.md",
    "AGENT.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    "QWEN.md",
    "CRUSH.md",
    "WARP.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".roorules",
    ".roomodes",
    ".goosehints",
    ".rules",
    ".agents",
    ".agent",
    ".github/copilot-instructions.md",
    ".github/instructions",
    ".github/prompts",
    ".github/chatmodes",
    ".github/agents",
    // Services that run what they find in a repository.
    ".github/workflows",
    ".github/actions",
    ".gitea",
    ".forgejo",
    ".gitlab-ci.yml",
    ".gitlab",
    ".circleci",
    ".buildkite",
    ".woodpecker",
    ".woodpecker.yml",
    ".drone.yml",
    ".travis.yml",
    ".appveyor.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
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

/// All protected names, as they are written in configuration and documentation.
#[must_use]
pub const fn names() -> &'static [&'static str] {
    PROTECTED
}

/// The protected name by which a file, given by its path in a writable folder, must not be written:
/// at any depth, and in any case, since the same folder may be looked at by a system that knows none.
#[must_use]
pub fn by_path(path: &str, unprotected: &[String]) -> Option<&'static str> {
    let parts: Vec<&str> = path.split('/').collect();
    names_but(unprotected).find(|name| {
        (0..parts.len()).any(|start| {
            let below = parts.iter().skip(start);
            // The name, what is below it, or a file in the place of a folder above it.
            below.zip(name.split('/')).all(|(part, own)| part.eq_ignore_ascii_case(own))
        })
    })
}

/// The protected names but for those that the operator opened.
pub(crate) fn names_but(unprotected: &[String]) -> impl Iterator<Item = &'static str> {
    let open = move |name: &&str| !unprotected.iter().any(|open| open == name);
    PROTECTED.iter().copied().filter(open)
}

/// The protected names and the folders above them, outermost first.
pub(crate) fn with_folders_above(unprotected: &[String]) -> impl Iterator<Item = &'static str> {
    names_but(unprotected).flat_map(|name| {
        let above = name.match_indices('/').filter_map(move |(at, _)| name.get(..at));
        above.chain([name])
    })
}

/// Whether it is only a folder above protected names.
pub(crate) fn is_above(name: &str) -> bool {
    // Compared as text: as paths, each with all others, it was a large part of a box's start.
    !PROTECTED.contains(&name)
}

/// What a folder has not of them.
pub(crate) fn absent_in(folder: &Path) -> Vec<String> {
    let entries = FolderEntries::at(folder);
    let is_absent = |name: &&str| {
        let found = || folder.join(name).symlink_metadata();
        !entries.may_have(name)
            || found().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    with_folders_above(&[]).filter(is_absent).map(str::to_owned).collect()
}

/// Whether a path is a secret of the user whose home this is, or lies in one.
#[must_use]
pub fn is_secret(home: &Path, path: &Path) -> bool {
    SECRETS.iter().any(|name| path.starts_with(home.join(name)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_protected_at_any_depth_and_in_any_case() {
        let rows = [
            ("AGENTS.md", Some("AGENTS.md")),
            ("sub/folder/agents.MD", Some("AGENTS.md")),
            (".git/hooks/pre-commit", Some(".git/hooks")),
            ("vendor/inner/.git/config", Some(".git/config")),
            ("vendor/.GIT/Hooks", Some(".git/hooks")),
            (".github/workflows/ci.yml", Some(".github/workflows")),
            // A file in the place of a folder above leads elsewhere.
            ("sub/.git", Some(".git/hooks")),
            ("AGENTS.md.txt", None),
            ("docs/agents/index.md", None),
            (".git/refs/heads/main", None),
            (".github/ISSUE_TEMPLATE.md", None),
            ("src/main.rs", None),
        ];
        for (path, expected) in rows {
            assert_eq!(by_path(path, &[]), expected, "{path}");
        }
        let open = ["AGENTS.md".to_owned()];
        assert_eq!(by_path("sub/AGENTS.md", &open), None);
        assert_eq!(by_path("CLAUDE.md", &open), Some("CLAUDE.md"));
    }

    #[test]
    fn the_documentation_lists_every_name() {
        let documentation = include_str!("../../../../docs/sandbox.md");
        for name in names() {
            assert!(documentation.contains(&format!("`{name}`")), "{name}");
        }
    }
}
