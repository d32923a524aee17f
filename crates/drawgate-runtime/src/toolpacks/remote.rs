//! Why GitHub did not give something, and what to do about it.

use drawgate_host::egress::EgressError;

use super::error::Code;
use super::github::MAX_ARCHIVE;

/// Why GitHub did not give something.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// A configured address is none.
    #[error(
        "`{0}` is not an address of GitHub's API or archives; write one such as `https://api.github.com` under `[toolpacks]`"
    )]
    Address(String),
    /// The token can't be used.
    #[error("{0}; correct or unset `GITHUB_TOKEN`")]
    Token(String),
    /// The token was not accepted.
    #[error("GitHub does not accept the token in `GITHUB_TOKEN`; renew or unset it")]
    TokenRefused,
    /// The repository or reference is not there, or not for everybody.
    #[error("GitHub knows no `{what}`; check the spelling{}", private_hint(*.with_token))]
    NotFound {
        /// The repository and reference.
        what: String,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// The reference is only the beginning of a commit id.
    #[error("`{0}` is only the beginning of a commit id, which pins nothing; write all 40 digits")]
    Abbreviated(String),
    /// Too many requests.
    #[error("GitHub takes no more requests {}{}", until(.again.as_deref()), token_hint(*.with_token))]
    RateLimit {
        /// When it takes some again.
        again: Option<String>,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// The repository has another name now.
    #[error("`{0}` has moved; find its new name in a browser, and use that one if you trust it")]
    Moved(String),
    /// Another answer than expected.
    #[error("GitHub answered with status {status} when asked for `{what}`; try again later")]
    Status {
        /// The status.
        status: u16,
        /// What was asked for.
        what: String,
    },
    /// The answer makes no sense.
    #[error(
        "GitHub's answer about `{0}` can't be understood; check the addresses under `[toolpacks]`"
    )]
    Answer(String),
    /// The archive is larger than a pack may be.
    #[error(
        "the archive of `{0}` has more than {MAX_ARCHIVE} bytes, which is too large for a toolpack"
    )]
    TooLarge(String),
    /// The archive stopped coming.
    #[error("the archive of `{0}` stopped coming; try again")]
    Stalled(String),
    /// The way there failed.
    #[error("`{address}` can't be reached: {source}")]
    Way {
        /// The configured address.
        address: String,
        /// Why.
        source: EgressError,
    },
}

impl RemoteError {
    /// The kind of refusal, where there is one.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Abbreviated(_) => Some(Code::Ref),
            Self::TooLarge(_) => Some(Code::Limit),
            Self::Address(_)
            | Self::Token(_)
            | Self::TokenRefused
            | Self::NotFound { .. }
            | Self::RateLimit { .. }
            | Self::Moved(_)
            | Self::Status { .. }
            | Self::Answer(_)
            | Self::Stalled(_)
            | Self::Way { .. } => None,
        }
    }
}

fn private_hint(with_token: bool) -> &'static str {
    if with_token {
        ", and whether the token in `GITHUB_TOKEN` may read it"
    } else {
        "; if it is private, set `GITHUB_TOKEN`"
    }
}

fn until(again: Option<&str>) -> &str {
    again.unwrap_or("for now")
}

fn token_hint(with_token: bool) -> &'static str {
    if with_token { "; try again then" } else { "; try again then, or set `GITHUB_TOKEN` for more" }
}
