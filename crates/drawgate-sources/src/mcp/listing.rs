//! From `tools/list`, page by page, to definitions.

use std::collections::BTreeMap;
use std::time::Instant;

use drawgate_core::model::McpToolSpec;
use drawgate_core::source::SourceError;
use serde_json::{Map, Value};
use tokio::time::timeout_at;

use super::diagnostics::LeftOut;
use super::parameters::{self, ParameterHeader};
use super::{Peer, too_late, wire};

/// Bounds for a list: beyond them a server is broken or hostile.
const MAX_PAGES: usize = 100;
const MAX_TOOLS: usize = 5_000;
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;
/// How much of a bad tool's name is shown.
const SHOWN_NAME: usize = 128;

/// What a server offers.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) tools: Vec<McpToolSpec>,
    /// Bad definitions. They do not spoil the others.
    pub(super) left_out: Vec<LeftOut>,
    /// For tools that want arguments repeated in headers.
    pub(super) headers: BTreeMap<String, Vec<ParameterHeader>>,
}

/// Asks for all pages.
pub(super) async fn list(peer: &Peer, deadline: Instant) -> Result<Listing, SourceError> {
    timeout_at(deadline.into(), pages(peer, deadline)).await.map_err(|_| too_late())?
}

async fn pages(peer: &Peer, deadline: Instant) -> Result<Listing, SourceError> {
    let mut listing = Listing::default();
    let mut params = Map::new();
    for _ in 0..MAX_PAGES {
        let reply = match peer.ask("tools/list", &params, deadline).await {
            // A server without tools need not know the method.
            Err(error) if wire::is_unknown_method(&error) => return Ok(listing),
            reply => reply?,
        };
        if reply.size > MAX_PAGE_BYTES {
            return Err(SourceError::Protocol(format!(
                "a page of the tool list is larger than {MAX_PAGE_BYTES} bytes"
            )));
        }
        let cursor = listing.add(reply.result)?;
        let Some(cursor) = cursor else { return Ok(listing) };
        params.insert("cursor".to_owned(), cursor);
    }
    Err(SourceError::Protocol(format!("the tool list has more than {MAX_PAGES} pages")))
}

impl Listing {
    /// Adds a page, and returns where the next one begins.
    fn add(&mut self, mut page: Map<String, Value>) -> Result<Option<Value>, SourceError> {
        let Some(Value::Array(tools)) = page.remove("tools") else {
            return Err(SourceError::Protocol(
                "the server's answer to `tools/list` has no list `tools`".to_owned(),
            ));
        };
        if self.tools.len() + self.left_out.len() + tools.len() > MAX_TOOLS {
            return Err(SourceError::Protocol(format!(
                "the server offers more than {MAX_TOOLS} tools"
            )));
        }
        for tool in tools {
            self.add_tool(tool);
        }
        Ok(page.remove("nextCursor").filter(|cursor| !cursor.is_null()))
    }

    fn add_tool(&mut self, tool: Value) {
        let name: String = tool
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .chars()
            .take(SHOWN_NAME)
            .collect();
        let spec = serde_json::from_value::<McpToolSpec>(tool).map_err(|error| error.to_string());
        let checked = spec.and_then(|spec| Ok((parameters::headers(&spec.input_schema)?, spec)));
        match checked {
            Ok((headers, spec)) => {
                if !headers.is_empty() {
                    self.headers.insert(spec.name.clone(), headers);
                }
                self.tools.push(spec);
            }
            Err(reason) => {
                tracing::warn!(tool = name, reason, "a tool is left out");
                self.left_out.push(LeftOut { tool: name, reason });
            }
        }
    }
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
