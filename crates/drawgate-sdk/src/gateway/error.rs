//! Why there is no connection, and whether another attempt could help.

use std::path::PathBuf;

use tonic::{Code, Status};

use crate::key::KeyError;

/// Why there is no connection to the gateway, or none any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The gateway is on another machine and the URL has no TLS.
    #[error(
        "`http://{authority}` is not on this machine; use `https://`, or allow plaintext if the network encrypts by itself"
    )]
    Plaintext {
        /// What should be dialled.
        authority: String,
    },
    /// The certificates to trust can't be had.
    #[error("no certificates to trust from {from}: {reason}")]
    Roots {
        /// The file, or the system.
        from: String,
        /// What is wrong.
        reason: String,
    },
    /// The gateway's certificate is not to be trusted.
    #[error("the certificate of `{authority}` is not accepted: {reason}")]
    Certificate {
        /// What was dialled.
        authority: String,
        /// What TLS says.
        reason: String,
    },
    /// Nobody is there.
    #[error("cannot reach the gateway at `{authority}`: {reason}")]
    Dial {
        /// What was dialled.
        authority: String,
        /// What the system says.
        reason: String,
    },
    /// Somebody is there, but doesn't speak gRPC.
    #[error("whoever answers at `{authority}` does not speak gRPC: {reason}")]
    Protocol {
        /// What was dialled.
        authority: String,
        /// What went wrong.
        reason: String,
    },
    /// The gateway is another one, or can't prove that it is the right one.
    #[error("the gateway at `{authority}` did not prove to be the right one: {reason}")]
    Identity {
        /// What was dialled.
        authority: String,
        /// What it said.
        reason: String,
    },
    /// The own key can't sign.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The gateway will not have this key, name, manifest or registration.
    #[error("refused by the gateway ({code:?}): {message}")]
    Refused {
        /// The kind of refusal.
        code: Code,
        /// The gateway's words. For a manifest, a line for each fault.
        message: String,
    },
    /// A newer connection of the same pack has taken over.
    #[error("replaced by a newer connection: {message}")]
    Replaced {
        /// The gateway's words.
        message: String,
    },
    /// The gateway can't serve now, or the connection broke.
    #[error("lost the gateway: {reason}")]
    Lost {
        /// Why.
        reason: String,
    },
    /// The gateway did not answer in time.
    #[error("the gateway at `{authority}` did not answer in time")]
    Timeout {
        /// What was dialled.
        authority: String,
    },
}

impl ConnectionError {
    /// Whether a further attempt would only be refused again.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Plaintext { .. }
            | Self::Roots { .. }
            | Self::Certificate { .. }
            | Self::Identity { .. }
            | Self::Refused { .. }
            | Self::Replaced { .. } => true,
            Self::Key(error) => error.is_final(),
            Self::Dial { .. }
            | Self::Protocol { .. }
            | Self::Lost { .. }
            | Self::Timeout { .. } => false,
        }
    }

    pub(crate) fn lost(reason: impl Into<String>) -> Self {
        Self::Lost { reason: reason.into() }
    }

    pub(super) fn roots(path: Option<&PathBuf>, reason: &dyn ToString) -> Self {
        let from =
            path.map_or_else(|| "the system".to_owned(), |path| format!("`{}`", path.display()));
        Self::Roots { from, reason: reason.to_string() }
    }
}

impl From<Status> for ConnectionError {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            code @ (Code::Unauthenticated
            | Code::PermissionDenied
            | Code::InvalidArgument
            | Code::AlreadyExists
            | Code::Unimplemented
            | Code::FailedPrecondition) => Self::Refused { code, message },
            Code::Aborted => Self::Replaced { message },
            _ if message.is_empty() => Self::lost(status.code().description()),
            _ => Self::Lost { reason: message },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_gateway_refuses_is_final_and_what_it_cannot_do_now_is_not() {
        let cases = [
            (Code::Unauthenticated, true),
            (Code::PermissionDenied, true),
            (Code::InvalidArgument, true),
            (Code::AlreadyExists, true),
            (Code::Unimplemented, true),
            (Code::Aborted, true),
            // A message that is too large ends the connection, not the program.
            (Code::OutOfRange, false),
            (Code::Unavailable, false),
            (Code::ResourceExhausted, false),
            (Code::DeadlineExceeded, false),
            (Code::Unknown, false),
            (Code::Internal, false),
            (Code::Cancelled, false),
        ];
        for (code, is_final) in cases {
            let error = ConnectionError::from(Status::new(code, "words"));
            assert_eq!(error.is_final(), is_final, "{code:?}");
            assert!(error.to_string().contains("words"), "{error}");
        }
    }
}
