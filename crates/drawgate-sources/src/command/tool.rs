//! One command tool, ready to run.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use drawgate_core::model::{McpToolSpec, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError};
use drawgate_host::Host;
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::Profile;
use serde_json::{Value, json};
use tokio::time::timeout_at;

use super::template::{FillError, Template};
use super::{outcome, run};
use crate::call_deadline::CallDeadline;

pub(super) struct Tool {
    pub(super) spec: McpToolSpec,
    pub(super) profile: Profile,
    template: Template,
    /// All but the program and its arguments.
    spawn: Spawn,
    timeout: Option<Duration>,
    /// Found once, so that no later change of a folder in `PATH` puts another one in its place.
    program: OnceLock<PathBuf>,
}

impl Tool {
    pub(super) fn new(
        spec: McpToolSpec,
        template: Template,
        spawn: Spawn,
        profile: Profile,
        timeout: Option<Duration>,
    ) -> Self {
        Self { spec, profile, template, spawn, timeout, program: OnceLock::new() }
    }

    /// Where its program is. One that is not there yet is looked for again.
    pub(super) fn program(&self, host: &Host) -> Result<&Path, SourceError> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        let name = self.template.program();
        let found = host.processes.find(name).ok_or_else(|| {
            SourceError::unreachable(format!(
                "`{}` needs the program `{name}`, which is not there; install it where the gateway's `PATH` leads",
                self.spec.name
            ))
        })?;
        Ok(self.program.get_or_init(|| found))
    }

    pub(super) async fn call(
        &self,
        call: &PermittedCall,
        cx: &CallContext,
        host: &Host,
    ) -> Result<ToolOutput, SourceError> {
        let command = self.template.fill(call.arguments()).map_err(|error| refused(&error))?;
        let program = self.program(host)?.to_string_lossy().into_owned();
        let spawn =
            Spawn { program, args: command.into_iter().skip(1).collect(), ..self.spawn.clone() };
        let end = CallDeadline::new(cx.deadline.at(), self.timeout);
        // Cancelled calls are dropped by the gate, and the program with them.
        let running = run::run(host, &spawn, cx.progress.clone());
        let finished = timeout_at(end.at.into(), running)
            .await
            .unwrap_or_else(|_| Err(end.exceeded_by(&self.spec.name)))?;
        Ok(outcome::output(&finished))
    }

    /// For a person who looks for what is wrong.
    pub(super) fn describe(&self, host: &Host) -> Value {
        json!({
            "program": self.template.program(),
            "path": self.program(host).ok(),
            "sandbox": self.profile.as_str(),
        })
    }
}

fn refused(error: &FillError) -> SourceError {
    SourceError::Arguments {
        message: error.to_string(),
        details: Some(json!({ "code": error.code(), "argument": error.argument })),
    }
}
