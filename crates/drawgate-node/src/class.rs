//! The class that `npm/index.cjs` wraps. Nobody else should use it: its methods take and return JSON text.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::SourceId;
use napi::bindgen_prelude::{Buffer, Function};
use napi::{CleanupEnvHook, Env, Error};
use napi_derive::napi;
use serde_json::Value;

use crate::fault::{self, Fault};
use crate::gateway::Gateway;
use crate::mailbox::Mailbox;
use crate::registered::source_id;

/// The version of this file, which must be that of the package around it.
#[napi]
#[must_use]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// A gateway, as the package's own JavaScript uses it.
#[napi(js_name = "ToolGateway")]
pub struct NativeGateway {
    gateway: Arc<Gateway>,
    /// Ends the gateway with its environment.
    hook: Option<CleanupEnvHook<Arc<Gateway>>>,
}

#[napi]
#[expect(clippy::needless_pass_by_value, reason = "what JavaScript passes is owned")]
impl NativeGateway {
    /// Opens a gateway. `wake` is called whenever there is something to [`take`](Self::take). A failure
    /// has JSON as its message.
    #[napi(constructor)]
    pub fn new(env: Env, options: String, wake: Function<'_, (), ()>) -> napi::Result<Self> {
        let wake = wake.build_threadsafe_function().weak::<true>().build()?;
        let mailbox = Arc::new(Mailbox::new(wake));
        let opened = fault::read(&options, "the options")
            .and_then(|options| Gateway::open(&options, mailbox));
        let gateway = opened.map_err(|fault| Error::from_reason(fault::text(Err(fault))))?;
        let hook = env.add_env_cleanup_hook(Arc::clone(&gateway), |gateway| gateway.abandon())?;
        Ok(Self { gateway, hook: Some(hook) })
    }

    /// Does what a synchronous method asks for.
    #[napi]
    #[must_use]
    pub fn request(&self, method: String, argument: String) -> String {
        fault::text(self.gateway.request(&method, &argument))
    }

    /// Audit events.
    #[napi]
    #[must_use]
    pub fn drain(&self, range: String) -> String {
        match self.gateway.drain(&range) {
            Ok(events) => format!("{{\"ok\":{events}}}"),
            Err(fault) => fault::text(Err(fault)),
        }
    }

    /// The bytes of an artifact. A failure has JSON as its message.
    #[napi]
    pub fn artifact(&self, name: String) -> napi::Result<Buffer> {
        let bytes = self.gateway.artifact(&name);
        bytes.map(Buffer::from).map_err(|fault| Error::from_reason(fault::text(Err(fault))))
    }

    /// Begins a call; `["result", id, …]` comes later.
    #[napi]
    #[must_use]
    pub fn call(&self, id: u32, invocation: String) -> String {
        answer(self.gateway.call(id, &invocation))
    }

    /// Gives a call up.
    #[napi]
    pub fn cancel(&self, id: u32) {
        self.gateway.cancel(id);
    }

    /// Waits for a server, or for all; `["settled", id, …]` comes later.
    #[napi]
    #[must_use]
    pub fn ready(&self, id: u32, server: Option<String>, limit_ms: u32) -> String {
        let server: Result<Option<SourceId>, Fault> = server.map(|id| source_id(&id)).transpose();
        let limit = Duration::from_millis(limit_ms.into());
        answer(server.and_then(|server| self.gateway.ready(id, server, limit)))
    }

    /// The next messages, as a JSON array.
    #[napi]
    #[must_use]
    pub fn take(&self) -> String {
        self.gateway.mailbox.take()
    }

    /// What a JavaScript tool came to: `{"value": …}` or `{"error": "…"}`.
    #[napi]
    pub fn answer(&self, call: u32, text: String) {
        self.gateway.tool_calls.answer(call, text);
    }

    /// How far a JavaScript tool is.
    #[napi]
    pub fn progress(&self, call: u32, report: String) {
        if let Ok(report) = serde_json::from_str(&report) {
            self.gateway.tool_calls.progress(call, report);
        }
    }

    /// Ends the gateway; `["settled", id, …]` comes when it has ended.
    #[napi]
    pub fn close(&self, id: u32, grace_ms: u32) {
        self.gateway.close(id, Duration::from_millis(grace_ms.into()));
    }

    /// Lets go of a gateway that has ended.
    #[napi]
    pub fn release(&mut self, env: Env) -> napi::Result<()> {
        self.gateway.mailbox.close();
        match self.hook.take() {
            Some(hook) => env.remove_env_cleanup_hook(hook),
            None => Ok(()),
        }
    }
}

fn answer(begun: Result<(), Fault>) -> String {
    fault::text(begun.map(|()| Value::Null))
}
