//! `x-mcp-header`: arguments that a tool wants repeated in HTTP headers. What stands between a client
//! and the gateway may have acted upon such a header, so it must say what the body says.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use drawgate_core::model::{Caller, ToolId};
use drawgate_core::pipeline::Gateway;
use drawgate_core::registry::{Entry, Resolution, Snapshot};
use drawgate_sources::mcp::{ParameterHeader, parameter_headers};
use http::HeaderMap;
use serde_json::{Map, Value};

use super::headers;
use super::message::{HEADER_MISMATCH, RpcError};

/// The tools that want headers, found once for each revision of the registry.
#[derive(Default)]
pub(crate) struct ParameterHeaders(ArcSwapOption<Tools>);

struct Tools {
    revision: u64,
    /// Only those with annotations; mostly there are none.
    tools: HashMap<ToolId, Vec<ParameterHeader>>,
}

impl ParameterHeaders {
    /// Checks the headers of a call against its arguments. A tool that the caller can't see has none.
    pub(crate) fn check(
        &self,
        gateway: &Gateway,
        caller: &Caller,
        params: &Map<String, Value>,
        headers: &HeaderMap,
    ) -> Result<(), RpcError> {
        let snapshot = gateway.registry();
        let tools = self.of(&snapshot);
        let Some(Value::String(name)) = params.get("name").filter(|_| !tools.tools.is_empty())
        else {
            return Ok(());
        };
        let visible = |entry: &Entry| gateway.is_open(caller, entry);
        let wanted = match snapshot.resolve(name, caller, visible) {
            Resolution::Found(entry) if visible(&entry) => tools.tools.get(&entry.id),
            Resolution::Found(_) | Resolution::Ambiguous(_) | Resolution::Unknown => None,
        };
        let arguments = params.get("arguments").unwrap_or(&Value::Null);
        wanted.into_iter().flatten().try_for_each(|parameter| check(parameter, arguments, headers))
    }

    fn of(&self, snapshot: &Snapshot) -> Arc<Tools> {
        let revision = snapshot.revision();
        if let Some(known) = self.0.load_full().filter(|known| known.revision == revision) {
            return known;
        }
        let annotated = snapshot.entries().filter_map(|entry| {
            let parameters = parameters(&entry.spec.input_schema);
            (!parameters.is_empty()).then(|| (entry.id.clone(), parameters))
        });
        let tools = Arc::new(Tools { revision, tools: annotated.collect() });
        self.0.store(Some(Arc::clone(&tools)));
        tools
    }
}

fn check(
    parameter: &ParameterHeader,
    arguments: &Value,
    headers: &HeaderMap,
) -> Result<(), RpcError> {
    let argument = parameter.path.iter().try_fold(arguments, |value, key| value.get(key));
    let told = headers::single(headers, parameter.header.as_str());
    let same = match (argument, told) {
        (None | Some(Value::Null), told) => matches!(told, Ok(None)),
        (Some(_), Err(()) | Ok(None)) => false,
        (Some(argument), Ok(Some(told))) => is_same(argument, &told),
    };
    if same {
        return Ok(());
    }
    let message = format!("header `{}` does not match the body", parameter.header);
    Err(RpcError::new(HEADER_MISMATCH, message))
}

/// Whether a header says what an argument says; numbers as numbers.
fn is_same(argument: &Value, told: &str) -> bool {
    match argument {
        Value::String(text) => text == told,
        Value::Bool(flag) => told == if *flag { "true" } else { "false" },
        Value::Number(number) => whole(&number.to_string()) == whole(told),
        // A fault in the arguments is for the schema to find.
        Value::Null | Value::Array(_) | Value::Object(_) => true,
    }
}

/// A number without decimals that say nothing: `42.0` is `42`.
fn whole(number: &str) -> &str {
    match number.split_once('.') {
        Some((whole, decimals)) if decimals.bytes().all(|digit| digit == b'0') => whole,
        _ => number,
    }
}

/// What a schema wants in headers. Annotations that the specification does not allow mean nothing.
fn parameters(schema: &Value) -> Vec<ParameterHeader> {
    parameter_headers(schema).into_iter().filter_map(Result::ok).collect()
}

#[cfg(test)]
#[path = "parameters_tests.rs"]
mod tests;
