//! Validate: arguments against the schema that was compiled at registration, unless the operator leaves
//! that to the source.

use std::sync::Arc;

use serde_json::{Value, json};

use super::gateway::Gateway;
use super::resolve::Resolved;
use super::{Refusal, refuse};
use crate::model::{ErrorCode, ToolInvocation};
use crate::policy::Cover;
use crate::registry::{Entry, Validation};

/// A call whose arguments fit.
pub(crate) struct Validated {
    pub(super) entry: Arc<Entry>,
    pub(super) call: Box<ToolInvocation>,
    pub(super) cover: Cover,
}

impl Gateway {
    #[expect(clippy::unused_self, reason = "a station of the pipeline like the others")]
    pub(super) fn validate(&self, resolved: Resolved) -> Result<Validated, Refusal> {
        let Resolved { entry, mut call, cover } = resolved;
        let arguments = Value::Object(std::mem::take(&mut call.arguments));
        let checked = match entry.validation {
            Validation::Gate => entry.arguments.check(&arguments),
            Validation::Source => Ok(()),
        };
        if let Err(faults) = checked {
            let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let message = format!("arguments of `{}` are invalid: {}", entry.wire, list.join("; "));
            return Err(refuse(ErrorCode::InvalidArguments, message)
                .with_details(json!({ "faults": faults })));
        }
        if let Value::Object(arguments) = arguments {
            call.arguments = arguments;
        }
        Ok(Validated { entry, call, cover })
    }
}
