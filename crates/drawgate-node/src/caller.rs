//! The program as a caller of its own gateway.

use std::sync::Arc;

use drawgate_core::model::{Caller, Capability, CapabilityGrant, Principal, Surface};

/// Prefix of the ids of grants that the program has given itself.
const GRANT_PREFIX: &str = "embedded:";

/// A caller of this name that always holds these capabilities, in the session that the program named.
pub(crate) fn caller(
    principal: Principal,
    session: Option<&str>,
    capabilities: &[Capability],
) -> Caller {
    let grants = capabilities.iter().map(|capability| {
        Arc::new(CapabilityGrant {
            grant_id: format!("{GRANT_PREFIX}{capability}").into(),
            capability: capability.clone(),
            issued_at: 0,
            expires_at: None,
            scope: None,
            approval_id: None,
        })
    });
    Caller {
        principal,
        session: session.map(Into::into),
        surface: Surface::EMBEDDED,
        carried: grants.collect(),
        lineage: None,
    }
}
