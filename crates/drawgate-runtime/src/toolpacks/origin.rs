//! Where a pack comes from, as people write it: a folder, or `owner/repo[@ref]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a pack comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A repository of GitHub.
    Github(GithubSource),
}

/// A repository, and what of it: a branch, a tag or a whole commit id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GithubSource {
    owner: String,
    repository: String,
    reference: String,
}

/// Why a text does not say where a pack comes from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Neither a folder nor a repository.
    #[error(
        "`{}` is neither a folder nor a repository; write `./a/folder`, `owner/repo` or `owner/repo@v1.0.0`",
        .0.escape_debug()
    )]
    Neither(String),
    /// The reference can't be one.
    #[error("`{}` can't be a branch, a tag or a commit", .0.escape_debug())]
    Reference(String),
    /// A part of a commit id, which several commits may share, today or tomorrow.
    #[error(
        "`{0}` is only the beginning of a commit id, which pins nothing; write all 40 digits, or `refs/tags/{0}` if it is a tag"
    )]
    Abbreviated(String),
}

/// The branch that is meant where none is named.
const DEFAULT_REFERENCE: &str = "main";

/// The shortest beginning of a commit id that git takes for one in daily use.
const SHORTEST_ABBREVIATION: usize = 7;

const COMMIT_LENGTH: usize = 40;

/// How git's own lock files end, so that no reference may.
const LOCKED: &str = ".lock";

/// Longest name of a branch or tag.
const MAX_REFERENCE: usize = 255;

impl Origin {
    /// As the lock file notes it: `path:/a/folder` or `github:owner/repo`.
    #[must_use]
    pub fn locked_as(&self) -> String {
        match self {
            Self::Folder(path) => format!("path:{}", path.display()),
            Self::Github(source) => source.locked_as(),
        }
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_path = text.starts_with(['.', '/', '~']) || !text.contains('/');
        let has_more = text.split('@').next().unwrap_or_default().matches('/').count() > 1;
        if text.is_empty() || text.contains('\0') || text.contains("://") {
            return Err(OriginError::Neither(text.to_owned()));
        }
        if is_path || has_more {
            Ok(Self::Folder(text.into()))
        } else {
            text.parse().map(Self::Github)
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(formatter),
            Self::Github(source) => source.fmt(formatter),
        }
    }
}

impl GithubSource {
    /// The repository as the lock file notes it.
    #[must_use]
    pub fn locked_as(&self) -> String {
        format!("github:{}/{}", self.owner, self.repository)
    }

    /// `owner/repo`, which is also its path at GitHub.
    #[must_use]
    pub fn repository(&self) -> String {
        format!("{}/{}", self.owner, self.repository)
    }

    /// The branch, tag or commit that is meant.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.reference
    }
}

impl FromStr for GithubSource {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let neither = || OriginError::Neither(text.to_owned());
        let (repository, reference) = text.split_once('@').unwrap_or((text, DEFAULT_REFERENCE));
        let (owner, name) = repository.split_once('/').ok_or_else(neither)?;
        if !is_owner(owner) || !is_repository(name) {
            return Err(neither());
        }
        let reference = check_reference(reference)?;
        Ok(Self { owner: owner.to_owned(), repository: name.to_owned(), reference })
    }
}

impl fmt::Display for GithubSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.repository(), self.reference())
    }
}

/// Whether a text is a whole commit id.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == COMMIT_LENGTH && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_owner(text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    (1..=39).contains(&text.len()) && plain && !text.starts_with('-') && !text.ends_with('-')
}

fn is_repository(text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    (1..=100).contains(&text.len()) && plain && !matches!(text, "." | "..")
}

/// The rules of git for names of branches and tags, and a few of our own.
fn check_reference(text: &str) -> Result<String, OriginError> {
    let hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hexadecimal && (SHORTEST_ABBREVIATION..COMMIT_LENGTH).contains(&text.len()) {
        return Err(OriginError::Abbreviated(text.to_owned()));
    }
    if hexadecimal && text.len() == COMMIT_LENGTH {
        return Ok(text.to_ascii_lowercase());
    }
    let odd = |c: char| {
        c.is_control()
            || c.is_whitespace()
            || matches!(c, '~' | '^' | ':' | '?' | '*' | '[' | '\\' | '@')
    };
    let bad_name = |name: &str| {
        name.is_empty()
            || name.starts_with(['.', '-'])
            || name.ends_with('.')
            || name.strip_suffix(LOCKED).is_some()
    };
    let bad = text.len() > MAX_REFERENCE
        || text.contains(odd)
        || text.contains("..")
        || text.split('/').any(bad_name);
    if bad { Err(OriginError::Reference(text.to_owned())) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
#[path = "origin_tests.rs"]
mod tests;
