//! The kernel's second layer of file rules, over what the mounts already say.
//!
//! A layer, not a wall: where the kernel has less of it, or nothing, the mounts hold alone.

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};
use std::path::Path;

use crate::sandbox::error::{Part, SandboxError};
use crate::sandbox::plan::{Access, Plan};

/// The interface that this was written for.
const WRITTEN_FOR: ABI = ABI::V6;

/// Restricts this thread to what the plan shows.
pub(super) fn apply(plan: &Plan) -> Result<(), SandboxError> {
    restrict(plan).map_err(|error| SandboxError::build(Part::Landlock, "rules", error))
}

fn restrict(plan: &Plan) -> Result<(), RulesetError> {
    let everything = AccessFs::from_all(WRITTEN_FOR);
    let read = AccessFs::from_read(WRITTEN_FOR);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir;
    let writable: Vec<&Path> = plan
        .writable()
        .chain([Path::new("/tmp"), Path::new("/var/tmp"), Path::new("/dev/shm")])
        .collect();
    let readable = plan.binds.iter().filter(|bind| bind.access == Access::Read);
    let readable = readable.map(|bind| bind.path.as_path());
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?
        .add_rules(path_beneath_rules(["/"], read))?
        .add_rules(path_beneath_rules(["/dev", "/proc"], device | read))?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(writable, everything))?
        .restrict_self()?;
    Ok(())
}
