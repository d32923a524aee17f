//! Who may do what: rules, grants and approvals.
//!
//! Nothing here knows how a call came in or where it goes. [`decide`] is a pure function; the grants
//! and approvals are books that keep themselves in a [`Store`](crate::store::Store).

mod approvals;
mod decide;
mod expose;
mod grants;
mod places;
mod rules;

pub use approvals::{
    Approval, ApprovalError, ApprovalState, ApprovalTicket, Approvals, ApprovalsConfig, Binding,
};
pub use decide::{PolicyRequest, decide};
pub use expose::{Expose, Exposures};
pub(crate) use grants::Starting;
pub use grants::{Cover, GrantError, Grants, Missing, standing_grants};
pub use rules::{Condition, Matcher, Pattern, Rule, RuleFault, Rules, RulesError};

/// The policy actions that every installation knows; an operator may add more.
pub const KNOWN_ACTIONS: [&str; 6] =
    ["file.read", "file.write", "file.*", "network.request", "connector.read", "connector.action"];
