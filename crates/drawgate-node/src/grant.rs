//! A grant as JavaScript gives it: a new one, or one that was issued before.

use drawgate_core::model::{Caller, Capability, CapabilityGrant, GrantScope};
use drawgate_runtime::operations::NewGrant;
use serde::Deserialize;
use serde_json::json;

use crate::fault::Fault;

/// A grant as JavaScript gives it. With `grantId` or `issuedAt` it is one that was issued before, such as those
/// of a snapshot.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GivenGrant {
    grant_id: Option<String>,
    capability: String,
    issued_at: Option<u64>,
    expires_at: Option<u64>,
    scope: Option<String>,
    approval_id: Option<String>,
}

/// A grant that has been read.
pub(crate) enum Grant {
    New(NewGrant),
    Earlier(CapabilityGrant),
}

impl GivenGrant {
    /// Reads it, or says everything that is wrong with it. `caller` is the program, whose session is the only one
    /// of its gateway.
    pub(crate) fn read(self, now: u64, caller: &Caller) -> Result<Grant, Fault> {
        let mut faults = Vec::new();
        let capability = Capability::new(&self.capability);
        if let Err(error) = &capability {
            faults.push(("capability", error.to_string()));
        }
        let text = self.scope.unwrap_or_else(|| "workspace".to_owned());
        let scope = GrantScope::try_from(text.clone());
        match &scope {
            Err(error) => faults.push(("scope", error.to_string())),
            Ok(scope @ GrantScope::Session(_)) if !scope.includes(caller) => {
                let message = format!(
                    "`{text}` can match no call of this gateway; open it with that `session`, or use `workspace`"
                );
                faults.push(("scope", message));
            }
            Ok(_) => {}
        }
        if self.expires_at.is_some_and(|end| end <= now) {
            faults.push(("expiresAt", "it is in the past".to_owned()));
        }
        if self.issued_at.is_some_and(|begin| begin > now) {
            faults.push(("issuedAt", "it is in the future".to_owned()));
        }
        let (Ok(capability), Ok(scope), true) = (capability, scope, faults.is_empty()) else {
            return Err(refused(&faults));
        };
        match (self.grant_id, self.issued_at) {
            (None, None) => Ok(Grant::New(NewGrant {
                capability: capability.to_string(),
                scope: text,
                lifetime_ms: None,
                expires_at: self.expires_at,
                approval_id: self.approval_id,
            })),
            (Some(id), issued_at) => Ok(Grant::Earlier(CapabilityGrant {
                grant_id: id.into(),
                capability,
                issued_at: issued_at.unwrap_or(now),
                expires_at: self.expires_at,
                scope: Some(scope),
                approval_id: self.approval_id,
            })),
            (None, Some(_)) => {
                let message =
                    "`issuedAt` belongs to a grant that was issued before; give its `grantId` too";
                Err(refused(&[("grantId", message.to_owned())]))
            }
        }
    }
}

fn refused(faults: &[(&str, String)]) -> Fault {
    let listed = faults.iter().map(|(field, reason)| {
        json!({ "field": field, "reason": format!("the grant: `{field}`: {reason}") })
    });
    Fault::of_faults(&listed.collect::<Vec<_>>())
}
