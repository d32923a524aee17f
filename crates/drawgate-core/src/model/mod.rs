//! The types that travel: through the pipeline, to sources, to callers and into the audit log.
//!
//! Their JSON is camelCase with `snake_case` enum values and is part of the product's contract.

mod call;
mod exchange;
mod grant;
mod ids;
mod lineage;
mod manifest;
mod narrowing;
mod policy;
pub mod shape;

pub use call::{
    ArtifactRef, Caller, Disclosure, Ending, ErrorCode, ResultMeta, Surface, ToolError,
    ToolInvocation, ToolOutput, ToolResult, TraceParent, shown_name,
};
pub use exchange::{Client, InputGiven, InputRequired, Offer, Operation};
pub use grant::{Capability, CapabilityError, CapabilityGrant, GrantId, GrantScope, ScopeError};
pub use ids::{IdError, Principal, SourceId, ToolId, WireName};
pub use lineage::{Bounds, Lineage, ToolPatternError, ToolPatterns};
pub use manifest::{
    Annotations, Category, Concurrency, EstimatedDuration, HINTS, McpManifest, McpToolSpec,
    ToolAnnotations, ToolGatewaySnapshot, ToolRegistryEntry,
};
pub(crate) use narrowing::check as check_narrowing;
pub use narrowing::{Narrowing, OWN_META};
pub use policy::{PolicyDecision, RiskTag, Verdict};
