//! Tools in the form in which a model provider's API takes them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Entry;

/// Whose form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Anthropic's Messages API.
    Anthropic,
    /// The Chat Completions API of `OpenAI`, and all that imitate it.
    Openai,
    /// Google's Gemini API.
    Gemini,
}

impl Entry {
    /// The tool's definition for a provider, under its wire name.
    #[must_use]
    pub fn definition_for(&self, provider: Provider) -> Value {
        let name = self.wire.as_str();
        let description = self.listing.get("description").cloned().unwrap_or_else(|| "".into());
        let schema = self.listing.get("inputSchema").cloned().unwrap_or_default();
        match provider {
            Provider::Anthropic => {
                json!({ "name": name, "description": description, "input_schema": schema })
            }
            Provider::Openai => json!({
                "type": "function",
                "function": { "name": name, "description": description, "parameters": schema },
            }),
            Provider::Gemini => {
                json!({ "name": name, "description": description, "parametersJsonSchema": schema })
            }
        }
    }
}
