//! Which tools there are: names, schemas, revisions.
//!
//! A registration replaces all tools of one source in one new revision, or changes nothing and says
//! why. Readers take an immutable [`Snapshot`] and never wait.

mod absent;
mod audience;
mod catalog;
mod contents;
mod declared;
mod definitions;
mod demands;
mod entry;
mod names;
mod offered;
mod pin_record;
mod pins;
mod portable;
mod prepared;
mod refusal;
mod revisions;
mod schema;
mod schema_cost;
mod search;
mod snapshot;
mod supervisor;
mod trust;
mod visible;

pub use absent::Absence;
pub use audience::Audience;
pub use catalog::{Item, ItemMatch};
pub use declared::declared_faults;
pub use definitions::Provider;
pub use demands::{ServerAnnotations, ServerDemands};
pub use entry::{
    BadTool, Entry, Limits, Naming, Origin, Registration, SourceTerms, ToolTerms, Validation,
    definition_hash,
};
pub use names::{skeleton, visible_line, visible_text};
pub use portable::{is_compilable, is_portable};
pub use refusal::{NameConflict, RegistrationError};
pub use revisions::Registry;
pub use schema::{CompiledSchema, SchemaError};
pub use snapshot::{Resolution, Snapshot};
pub use supervisor::{Holder, IdTaken, SourceState, SourceStatus, SourceSupervisor};
pub use trust::{Acceptance, Held, HeldReason, ItemKind, Pins, Quarantined, ReviewError, Trust};

/// Where a tool's definition names the resource that shows its results.
const UI_RESOURCES: [&str; 2] = ["/_meta/ui/resourceUri", "/_meta/ui~1resourceUri"];

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
