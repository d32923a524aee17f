//! What a caller is told when a request over HTTP failed.

use drawgate_core::source::SourceError;
use drawgate_host::egress::EgressError;

/// The error of a call whose request failed.
pub(crate) fn source_error(error: &EgressError) -> SourceError {
    match error {
        EgressError::Deadline => {
            SourceError::Timeout("there was no answer before the deadline".to_owned())
        }
        EgressError::TooLarge(_) | EgressError::Protocol(_) | EgressError::Encoding(_) => {
            SourceError::Protocol(format!("the answer can't be used: {error}"))
        }
        EgressError::Connect { .. }
        | EgressError::Slow(_)
        | EgressError::Address(_)
        | EgressError::Refused { .. }
        | EgressError::Tls(_) => SourceError::unreachable(error.to_string()),
        EgressError::Lost(_)
        | EgressError::Truncated
        | EgressError::Detour(_)
        | EgressError::Redirected(_) => SourceError::lost(error.to_string()),
    }
}
