//! Messages that could not be carried, and what the client hears of them.

/// A gateway that did not answer.
pub(crate) enum NoAnswer {
    BeforeSending(anyhow::Error),
    Perhaps(anyhow::Error),
}

/// The gateway ended while it had a message. A client that reads "not reachable" would send it again.
#[derive(Debug, thiserror::Error)]
#[error("the gateway ended before it answered; whether the request was carried out is not known")]
struct Lost;

/// What the client hears about a message that could not be carried.
pub(crate) fn told(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Lost>() {
        Some(lost) => lost.to_string(),
        None => "the gateway is not reachable".to_owned(),
    }
}

impl NoAnswer {
    pub(crate) fn into_error(self) -> anyhow::Error {
        match self {
            Self::BeforeSending(error) => error,
            Self::Perhaps(error) => error.context(Lost),
        }
    }
}

impl From<NoAnswer> for anyhow::Error {
    fn from(lost: NoAnswer) -> Self {
        lost.into_error()
    }
}
