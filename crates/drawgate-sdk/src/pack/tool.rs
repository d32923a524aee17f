//! What a tool is: something with a definition that can be called.

use std::fmt::Display;
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Answer, Call, Definition, ToolError};

/// A tool of a pack.
///
/// Most tools are functions and made by [`tool`](crate::tool)`(…).run(…)`; this trait is for those
/// that need more, such as a schema that is not known before the program runs.
///
/// ```
/// use drawgate_sdk::{Answer, Call, Definition, Tool, ToolError, tool};
///
/// struct Echo {
///     name: String,
/// }
///
/// impl Tool for Echo {
///     fn definition(&self) -> Definition {
///         tool(&self.name, "Answers with its arguments.")
///     }
///
///     async fn call(&self, call: Call) -> Result<Answer, ToolError> {
///         Answer::json(call.arguments())
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// What the gateway is told. It is asked once, when the tool is added to the pack.
    fn definition(&self) -> Definition;

    /// Runs one call. Calls run at the same time. A panic fails this call only. When the call is
    /// cancelled, [`Call::cancelled`] ends, and shortly after it the future is dropped.
    fn call(&self, call: Call) -> impl Future<Output = Result<Answer, ToolError>> + Send;
}

pub(super) type Outcome<'a> = Pin<Box<dyn Future<Output = Result<Answer, ToolError>> + Send + 'a>>;

/// A [`Tool`] of any type.
pub(super) trait AnyTool: Send + Sync {
    fn call_any(&self, call: Call) -> Outcome<'_>;
}

impl<T: Tool> AnyTool for T {
    fn call_any(&self, call: Call) -> Outcome<'_> {
        Box::pin(self.call(call))
    }
}

/// A tool that is run by an async function or closure; see [`Definition::run`].
pub struct FnTool {
    definition: Definition,
    run: Box<dyn Fn(Call) -> Outcome<'static> + Send + Sync>,
}

impl FnTool {
    pub(super) fn new<I, O, E, F, R>(definition: Definition, run: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        E: Display + 'static,
        F: Fn(I, Call) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
    {
        let run = move |call: Call| -> Outcome<'static> {
            let running = match call.parse::<I>() {
                Ok(input) => run(input, call),
                Err(error) => return Box::pin(std::future::ready(Err(error))),
            };
            Box::pin(async move {
                let output = running.await.map_err(|error| ToolError::new(error.to_string()))?;
                Answer::json(&output)
            })
        };
        Self { definition, run: Box::new(run) }
    }
}

impl Tool for FnTool {
    fn definition(&self) -> Definition {
        self.definition.clone()
    }

    fn call(&self, call: Call) -> impl Future<Output = Result<Answer, ToolError>> + Send {
        (self.run)(call)
    }
}

impl std::fmt::Debug for FnTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FnTool").field("definition", &self.definition).finish_non_exhaustive()
    }
}
