//! The pieces of calls in a stream of Chat Completions.
//!
//! A piece says by `index` and by `id` which call it belongs to. Servers leave out either or both, or
//! number all calls 0; so an id counts for more than an index, and a new name after whole arguments
//! begins a new call.

use serde_json::{Map, Value};

use crate::model::Arguments;
use crate::model::codec::{Fault, optional, optional_text};

/// More calls in one reply than any model means.
const MAX_CALLS: usize = 1000;

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Piecemeal>);

/// A call while it is written.
#[derive(Debug, Default)]
struct Piecemeal {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
    others: Map<String, Value>,
}

/// A whole call.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Arguments,
    /// Members that this codec does not know.
    pub(super) others: Map<String, Value>,
}

impl Calls {
    /// Adds a piece to its call.
    pub(super) fn take(&mut self, piece: &Value) -> Result<(), Fault> {
        let members = piece.as_object().ok_or_else(|| Fault::member("tool_calls"))?;
        let id = optional_text(piece, "id")?.filter(|id| !id.is_empty());
        let index = optional(piece, "index").and_then(Value::as_u64);
        let function = optional(piece, "function").unwrap_or(&Value::Null);
        let name = optional_text(function, "name")?.filter(|name| !name.is_empty());
        let at = match self.place(id, index, name) {
            Some(at) => at,
            None if self.0.len() >= MAX_CALLS => {
                return Err(Fault::Malformed(format!("there are more than {MAX_CALLS} calls")));
            }
            None => {
                self.0.push(Piecemeal { index, ..Piecemeal::default() });
                self.0.len().saturating_sub(1)
            }
        };
        let call = self.0.get_mut(at).ok_or_else(|| Fault::member("tool_calls"))?;
        if let Some(id) = id {
            call.id = Some(id.to_owned());
        }
        if let Some(name) = name {
            name.clone_into(&mut call.name);
        }
        match optional(function, "arguments") {
            None => {}
            Some(Value::String(more)) => call.arguments.push_str(more),
            Some(whole) => call.arguments = whole.to_string(),
        }
        let known = ["id", "index", "type", "function"];
        let others = members.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        call.others.extend(others.map(|(name, value)| (name.clone(), value.clone())));
        Ok(())
    }

    /// The call that a piece goes on with; `None` if it begins one.
    fn place(&self, id: Option<&str>, index: Option<u64>, name: Option<&str>) -> Option<usize> {
        let goes_on = |call: &Piecemeal| match (id, &call.id) {
            (Some(id), Some(before)) => {
                id == before && (index.is_none() || call.index.is_none() || index == call.index)
            }
            (Some(_), None) => index.is_some() && index == call.index && !call.is_followed_by(name),
            (None, _) => (index.is_none() || index == call.index) && !call.is_followed_by(name),
        };
        match (id, index) {
            // Without either, only the last call can be meant.
            (None, None) => {
                let last = self.0.len().checked_sub(1)?;
                self.0.get(last).filter(|call| goes_on(call)).map(|_| last)
            }
            (Some(_), _) | (_, Some(_)) => self.0.iter().rposition(goes_on),
        }
    }

    /// The calls, when all has come.
    pub(super) fn finish(self) -> Result<Vec<Written>, Fault> {
        let finish = |call: Piecemeal| {
            let Piecemeal { id, name, arguments, others, .. } = call;
            if name.is_empty() {
                return Err(Fault::member("name"));
            }
            Ok(Written { id, name, arguments: Arguments::parse(&arguments), others })
        };
        self.0.into_iter().map(finish).collect()
    }
}

impl Piecemeal {
    /// Whether a piece with this name is the beginning of another call. Some servers repeat the name in
    /// each piece.
    fn is_followed_by(&self, name: Option<&str>) -> bool {
        let Some(name) = name else { return false };
        let is_other = !self.name.is_empty() && self.name != name;
        is_other || self.is_whole()
    }

    fn is_whole(&self) -> bool {
        self.arguments.ends_with('}')
            && matches!(Arguments::parse(&self.arguments), Arguments::Object(_))
    }
}
