//! Lists, page by page; and from `tools/list` to definitions.

use std::collections::BTreeMap;
use std::time::Instant;

use drawgate_core::model::McpToolSpec;
use drawgate_core::source::SourceError;
use serde_json::{Map, Value};

use super::Peer;
use super::diagnostics::LeftOut;
use super::parameters::{self, ParameterHeader};
use super::wire::{self, ServerInfo};

/// Bounds for a list: beyond them a server is broken or hostile.
const MAX_PAGES: usize = 100;
pub(super) const MAX_ITEMS: usize = 5_000;
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

/// Asks for all tools of a server that has any.
pub(super) async fn list(
    peer: &Peer,
    info: &ServerInfo,
    deadline: Instant,
) -> Result<Listing, SourceError> {
    let mut listing = Listing::default();
    if info.can("tools") || info.declares_nothing() {
        pages(peer, ("tools/list", "tools"), deadline, |tools| listing.add(tools)).await?;
    }
    Ok(listing)
}

/// Asks for all pages of a list: the method, and the member of the answer that holds the items.
pub(super) async fn pages(
    peer: &Peer,
    (method, key): (&'static str, &'static str),
    deadline: Instant,
    mut add: impl FnMut(Vec<Value>) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let mut params = Map::new();
    for _ in 0..MAX_PAGES {
        let mut reply = match peer.ask(method, &params, deadline).await {
            // A server without such things need not know the method.
            Err(error) if wire::is_unknown_method(&error) => return Ok(()),
            reply => reply?,
        };
        if reply.size > MAX_PAGE_BYTES {
            return Err(SourceError::Protocol(format!(
                "a page of `{method}` is larger than {MAX_PAGE_BYTES} bytes"
            )));
        }
        let Some(Value::Array(items)) = reply.result.remove(key) else {
            return Err(SourceError::Protocol(format!(
                "the server's answer to `{method}` has no list `{key}`"
            )));
        };
        add(items)?;
        let cursor = reply.result.remove("nextCursor").filter(|cursor| !cursor.is_null());
        let Some(cursor) = cursor else { return Ok(()) };
        params.insert("cursor".to_owned(), cursor);
    }
    Err(SourceError::Protocol(format!("`{method}` has more than {MAX_PAGES} pages")))
}

impl Listing {
    /// Adds a page.
    fn add(&mut self, tools: Vec<Value>) -> Result<(), SourceError> {
        if self.tools.len() + self.left_out.len() + tools.len() > MAX_ITEMS {
            return Err(SourceError::Protocol(format!(
                "the server offers more than {MAX_ITEMS} tools"
            )));
        }
        for tool in tools {
            self.add_tool(tool);
        }
        Ok(())
    }

    fn add_tool(&mut self, tool: Value) {
        let name: String = tool
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .chars()
            .take(SHOWN_NAME)
            .collect();
        let spec = McpToolSpec::foreign(tool).map_err(|error| error.to_string());
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
