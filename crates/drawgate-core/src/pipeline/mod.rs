//! The way of a call: one file per station, and a type for each state in between.
//!
//! ```text
//! ToolInvocation → Resolved → Validated → PermittedCall → Executed → ToolResult
//! ```
//!
//! Hooks (`intercept`) may change arguments before they are validated, object after the rules, and change
//! or withhold the result before it is spooled.
//!
//! Every call, refused or not, ends with exactly one outcome event, stored before the answer leaves.

mod audit;
mod authorize;
mod confirm;
mod continuation;
mod control;
mod execute;
mod gateway;
mod held_calls;
mod intercept;
mod load;
mod meter;
mod questions;
mod resolve;
mod spool;
mod time;
mod validate;
mod view;

pub use authorize::PermittedCall;
pub use control::GatewayControl;
pub use gateway::{
    ApprovalPage, CallOptions, Gateway, GatewayParts, GatewaySettings, PageRequest, UNREAD,
    WhileAsked,
};
pub use meter::Meter;
pub use view::View;

use crate::model::{ErrorCode, ToolError};

/// A call that does not go on, and why.
pub(crate) type Refusal = ToolError;

pub(crate) fn refuse(code: ErrorCode, message: impl Into<String>) -> Refusal {
    ToolError::new(code, message)
}

#[cfg(test)]
#[path = "approval_flow_tests.rs"]
mod approval_flow_tests;
#[cfg(test)]
#[path = "exchange_tests.rs"]
mod exchange_tests;
#[cfg(test)]
#[path = "limits_tests.rs"]
mod limits_tests;
#[cfg(test)]
#[path = "narrowing_tests.rs"]
mod narrowing_tests;
#[cfg(test)]
#[path = "output_tests.rs"]
mod output_tests;
#[cfg(test)]
#[path = "reconsider_tests.rs"]
mod reconsider_tests;
#[cfg(test)]
#[path = "runs_tests.rs"]
mod runs_tests;
#[cfg(test)]
#[path = "size_tests.rs"]
mod size_tests;
#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
