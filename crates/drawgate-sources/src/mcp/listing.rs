//! Lists, page by page; and from `tools/list` to definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Instant;

use drawgate_core::model::{McpToolSpec, shape};
use drawgate_core::source::SourceError;
use serde_json::{Map, Value};

use super::diagnostics::{LeftOut, Omissions};
use super::parameters::{self, ParameterHeader};
use super::wire::{self, ServerInfo};
use super::{Peer, SHOWN_NAME};

/// Bounds for a list: what is beyond them is left out.
const MAX_PAGES: usize = 1_000;
pub(super) const MAX_ITEMS: usize = 5_000;
/// Beyond this a server is broken or hostile.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;
/// What a server declares that makes tasks of calls, in revision 2025-11-25.
const TOOL_TASKS: &str = "tasks.requests.tools.call";

/// What a server offers.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) tools: Vec<McpToolSpec>,
    /// What of it does not reach callers.
    pub(super) omissions: Omissions,
    /// For tools that want arguments repeated in headers.
    pub(super) headers: BTreeMap<String, Vec<ParameterHeader>>,
    /// Tools that work as tasks only.
    pub(super) as_tasks: BTreeSet<String>,
    /// Where each tool stands in `tools`, by its name.
    places: BTreeMap<String, usize>,
}

/// Whether a list was had to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    Cut,
}

/// Asks for all tools of a server that has any.
pub(super) async fn list(
    peer: &Peer,
    info: &ServerInfo,
    deadline: Instant,
) -> Result<Listing, SourceError> {
    let mut listing = Listing::default();
    if info.can("tools") || info.declares_nothing() {
        let add = |tools| listing.add(tools);
        if pages(peer, ("tools/list", "tools"), deadline, add).await? == Extent::Cut {
            listing.omissions.left_out.push(cut("tools/list", "tools"));
        }
    }
    if !info.can(TOOL_TASKS) {
        // What the server does not offer as a whole, a tool can't demand.
        listing.as_tasks.clear();
    }
    Ok(listing)
}

/// The note on a list that was cut.
pub(super) fn cut(method: &str, key: &str) -> LeftOut {
    tracing::warn!(method, "a list is too long; the rest of it is left out");
    let reason = format!(
        "the server offers more than {MAX_ITEMS} {key}, or more than {MAX_PAGES} pages of them; the \
         rest is left out"
    );
    LeftOut { tool: method.to_owned(), reason }
}

/// Asks for all pages of a list: the method, and the member of the answer that holds the items. `add`
/// takes a page, and breaks off when it has enough.
pub(super) async fn pages(
    peer: &Peer,
    (method, key): (&'static str, &'static str),
    deadline: Instant,
    mut add: impl FnMut(Vec<Value>) -> ControlFlow<()>,
) -> Result<Extent, SourceError> {
    let mut params = Map::new();
    for _ in 0..MAX_PAGES {
        let mut reply = match peer.ask(method, &params, deadline).await {
            // A server without such things need not know the method.
            Err(error) if wire::is_unknown_method(&error) => return Ok(Extent::Whole),
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
        if add(items).is_break() {
            return Ok(Extent::Cut);
        }
        let cursor = reply.result.remove("nextCursor").filter(|cursor| !cursor.is_null());
        let Some(cursor) = cursor else { return Ok(Extent::Whole) };
        params.insert("cursor".to_owned(), cursor);
    }
    Ok(Extent::Cut)
}

impl Listing {
    /// Adds a page, as far as there is room.
    fn add(&mut self, tools: Vec<Value>) -> ControlFlow<()> {
        for tool in tools {
            if self.tools.len() + self.omissions.left_out.len() >= MAX_ITEMS {
                return ControlFlow::Break(());
            }
            self.add_tool(tool);
        }
        ControlFlow::Continue(())
    }

    /// A server may list a name twice. The first definition holds.
    fn check_unique(&self, spec: &McpToolSpec) -> Result<(), String> {
        let place = self.places.get(&spec.name);
        let Some(first) = place.and_then(|place| self.tools.get(*place)) else { return Ok(()) };
        let how = if first == spec { "again" } else { "again, with another definition" };
        Err(format!("the server lists this tool {how}; the first one is offered"))
    }

    fn add_tool(&mut self, tool: Value) {
        let name: String = tool
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .chars()
            .take(SHOWN_NAME)
            .collect();
        // Why it does not fit as a whole is said in words of the protocol, not of the parser.
        let unfit = self.omissions.inspect(&name, shape::TOOL, &tool);
        let spec = match unfit {
            Ok(()) if tool.get("inputSchema").is_none() => {
                Err("the definition has no `inputSchema`".to_owned())
            }
            Ok(()) => McpToolSpec::foreign(tool).map_err(|error| error.to_string()),
            Err(misfit) => Err(format!("the definition {misfit}")),
        };
        let checked = spec.and_then(|spec| {
            self.check_unique(&spec)?;
            let headers = parameters::headers(&spec.input_schema);
            Ok((headers.map_err(|error| error.to_string())?, spec))
        });
        match checked {
            Ok((headers, spec)) => {
                if spec.rest.get("execution").is_some_and(|how| how["taskSupport"] == "required") {
                    self.as_tasks.insert(spec.name.clone());
                }
                if !headers.is_empty() {
                    self.headers.insert(spec.name.clone(), headers);
                }
                self.places.insert(spec.name.clone(), self.tools.len());
                self.tools.push(spec);
            }
            Err(reason) => {
                tracing::warn!(tool = name, reason, "a tool is left out");
                self.omissions.left_out.push(LeftOut { tool: name, reason });
            }
        }
    }
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
