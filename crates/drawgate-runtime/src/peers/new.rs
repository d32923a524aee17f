//! A key that an operator wants to authorise.

use drawgate_core::model::{Capability, Principal, SourceId};
use drawgate_sdk::statement::Purpose;

use super::ToolPatterns;
use super::key::read_key;

/// A key and what it shall stand for, as people write it.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// A pack or an agent.
    pub purpose: Purpose,
    /// The pack's id or the agent's name.
    pub name: String,
    /// The tools that a pack may offer.
    pub tools: Vec<String>,
    /// What an agent may hold, or callers of a pack need.
    pub capabilities: Vec<String>,
    /// The public key, as `ssh-keygen` writes it.
    pub key: String,
}

impl NewKey {
    /// The line for the list. Every part is checked by itself before it gets its quotes: none may
    /// bring options along.
    pub fn line(&self) -> anyhow::Result<String> {
        match self.purpose {
            Purpose::Pack => drop(SourceId::new(&self.name)?),
            Purpose::Agent => drop(Principal::new(&self.name)?),
        }
        let tools = ToolPatterns::parse(&self.tools.join(" "))?;
        for capability in &self.capabilities {
            Capability::new(capability)?;
        }
        let key = read_key(&self.key)?.to_openssh()?;
        let options = [
            (self.purpose.as_str(), self.name.clone()),
            ("tools", tools.to_string()),
            ("capabilities", self.capabilities.join(" ")),
        ];
        let said = options.iter().filter(|(_, value)| !value.is_empty());
        let said: Vec<String> = said.map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        Ok(format!("{} {key}", said.join(",")))
    }
}
