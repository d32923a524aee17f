//! Tools for agents: starting and awaiting other runs, reading long results, searching the web; and the
//! tools that profiles define.
//!
//! They are sources like any other: a run reaches them through the gate.

mod builtin;
mod profile;
mod specs;

use std::sync::Arc;

pub use builtin::AgentTools;
use drawgate_core::model::ErrorCode;
use drawgate_core::source::{Sent, SourceError};
pub use profile::ProfileTools;

use crate::profile::Profile;
use crate::runs::{Runs, StartError};

/// The profiles that count, because an operator has accepted them.
pub trait Profiles: Send + Sync + 'static {
    /// The profile of this name.
    fn get(&self, name: &str) -> Option<Arc<Profile>>;
    /// All names.
    fn names(&self) -> Vec<String>;
}

/// A run that could not be started, as the result of a call.
fn not_started(error: &StartError) -> SourceError {
    let message = error.to_string();
    match error {
        StartError::Model(_)
        | StartError::Agent(_)
        | StartError::Tools { .. }
        | StartError::NoPrices(_)
        | StartError::Program(_) => SourceError::Arguments { message, details: None },
        StartError::Depth(_)
        | StartError::Fanout(_)
        | StartError::Tree(_)
        | StartError::Active(_)
        | StartError::Budget(_) => {
            let details = serde_json::json!({ "reason": ErrorCode::RateLimited.as_str() });
            SourceError::Failed { message, details: Some(details) }
        }
        StartError::Ended | StartError::Stopping | StartError::Store(_) => {
            SourceError::Unavailable { message, sent: Sent::Nothing }
        }
    }
}

/// Cancels a run when the call that waits for it is given up.
pub(crate) struct CancelOnDrop<'a> {
    pub(crate) runs: &'a Runs,
    pub(crate) run: &'a str,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        // A run that has ended is left alone.
        let _ = self.runs.cancel(self.run, "the call that waited for it was given up");
    }
}
