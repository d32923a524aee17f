//! Who a grant may be for.

use anyhow::bail;
use drawgate_core::model::{GrantScope, Principal};
use drawgate_sdk::statement::Purpose;

use super::Operations;

impl Operations {
    /// Refuses a grant for an agent that there is not: as a rule its name is misspelt, and whoever gets
    /// that name later would hold the grant. Callers of an authorization server are not listed anywhere,
    /// and are known by the beginning of their names.
    pub async fn check_grantee(&self, scope: &GrantScope) -> anyhow::Result<()> {
        let name = match scope {
            GrantScope::User(name) => name,
            GrantScope::Workspace | GrantScope::Session(_) => return Ok(()),
        };
        let keys = self.door.list();
        let has_key = keys.entries().iter().any(|entry| {
            entry.terms.purpose == Purpose::Agent && entry.terms.name.as_str() == name.as_str()
        });
        let is_known = *name == Principal::local()
            || has_key
            || self.callers.is_reserved(name)
            || self.store.agents().await?.iter().any(|agent| agent.name == *name);
        if !is_known {
            bail!(
                "there is no agent `{name}`; `drawgate agents list` and `drawgate keys list` show them, `drawgate agents add {name}` adds one"
            );
        }
        Ok(())
    }
}
