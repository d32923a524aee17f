//! What the gateway must know about a program to let it work: how it is started, where its settings are,
//! and how its answer is read. Each program has a file of its own.

use std::collections::BTreeMap;
use std::path::Path;

use drawgate_host::egress::INTERNAL_HOST;
use serde_json::Value;

use super::claude::Claude;
use super::codex::Codex;
use super::folder::FileText;
use super::gemini::Gemini;
use super::opencode::Opencode;
use crate::model::{Api, ModelLimits};
use crate::profile::Invoker;

/// The variable that holds the run's token.
pub(super) const TOKEN: &str = "DRAWGATE_RUN_TOKEN";
/// The name of the gateway among a program's MCP servers.
pub(super) const SERVER: &str = "drawgate";
/// How long a call may take, in seconds: the gateway has limits of its own, and the run another.
pub(super) const CALL_SECONDS: u64 = 24 * 60 * 60;

/// A program that can do the work of a run.
pub(super) trait Cli: Send + Sync {
    /// The API that it needs; nothing if it speaks all.
    fn needs(&self) -> Option<Api>;

    /// Files in its home when that is new.
    fn of_home(&self, _setup: &Setup<'_>) -> Vec<FileText> {
        Vec::new()
    }

    /// Files that it can only read.
    fn of_settings(&self, _setup: &Setup<'_>) -> Vec<FileText> {
        Vec::new()
    }

    /// Names in its home that it must be able to write, though they are protected elsewhere.
    fn unprotected(&self) -> &'static [&'static str] {
        &[]
    }

    /// Arguments and variables for a turn. The prompt comes by standard input.
    fn launch(&self, setup: &Setup<'_>, place: &Place<'_>) -> Launch;

    /// Reads what it prints.
    fn reader(&self) -> Box<dyn Reader>;
}

/// What a program is to be.
pub(super) struct Setup<'a> {
    /// The provider's name in the configuration.
    pub(super) provider: &'a str,
    /// The API that it speaks.
    pub(super) api: Api,
    /// The model's name at the provider.
    pub(super) model: &'a str,
    /// What is known about the model.
    pub(super) limits: &'a ModelLimits,
    /// What the model is told first.
    pub(super) instructions: &'a str,
    /// Passed to the model.
    pub(super) temperature: Option<f64>,
    /// The program's own tools that it may use.
    pub(super) own_tools: &'a [String],
}

impl Setup<'_> {
    /// Where the models are.
    pub(super) fn relay_url(&self) -> String {
        format!("http://{INTERNAL_HOST}/relay/{}", self.provider)
    }
}

/// Where the tools are.
pub(super) fn mcp_url() -> String {
    format!("http://{INTERNAL_HOST}/mcp")
}

/// Where a program works, and on what.
pub(super) struct Place<'a> {
    pub(super) home: &'a Path,
    pub(super) settings: &'a Path,
    /// The run's token.
    pub(super) token: &'a str,
    /// The conversation to go on with.
    pub(super) resumed: Option<&'a str>,
    /// A name for a new conversation.
    pub(super) fresh: &'a str,
}

impl Place<'_> {
    pub(super) fn setting(&self, name: &str) -> String {
        self.settings.join(name).display().to_string()
    }
}

/// How a program is started.
#[derive(Debug, Default)]
pub(super) struct Launch {
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    /// The name of the conversation, where the gateway gives it.
    pub(super) session: Option<String>,
}

impl Launch {
    pub(super) fn new(args: &[&str], env: &[(&str, &str)]) -> Self {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let args = args.iter().map(|arg| (*arg).to_owned());
        Self { args: args.collect(), env: env.collect(), session: None }
    }
}

/// Reads what a program prints, line by line.
pub(super) trait Reader: Send {
    /// Takes a line. Returns the program's name for its conversation where the line says it.
    fn line(&mut self, line: &Value) -> Option<String>;

    /// What came of it when the program has ended: its answer, or what it said was wrong. Nothing if it
    /// said neither.
    fn end(self: Box<Self>) -> Option<Result<String, String>>;
}

/// The program of an invoker; none for the gateway's own.
pub(super) fn of(invoker: Invoker) -> Option<&'static dyn Cli> {
    match invoker {
        Invoker::Api => None,
        Invoker::Claude => Some(&Claude),
        Invoker::Codex => Some(&Codex),
        Invoker::Gemini => Some(&Gemini),
        Invoker::Opencode => Some(&Opencode),
    }
}

/// A member that is text.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}
