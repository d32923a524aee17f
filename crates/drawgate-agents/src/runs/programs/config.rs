//! `[invokers]`: the programs that can do the work of a run.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::profile::Invoker;

/// Programs by what profiles call them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InvokersConfig {
    /// Claude Code. Needs a provider of kind `anthropic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude: Option<Box<InvokerConfig>>,
    /// Codex. Needs a provider of kind `openai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codex: Option<Box<InvokerConfig>>,
    /// Gemini CLI. Needs a provider of kind `gemini`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gemini: Option<Box<InvokerConfig>>,
    /// `OpenCode`. Takes a provider of any kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opencode: Option<Box<InvokerConfig>>,
}

/// A program that can do the work of a run. It runs in a sandbox whose only network is the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InvokerConfig {
    /// The program: a path, or a name that is looked up in `PATH`. A relative path counts from this
    /// file's folder.
    #[schemars(extend("format" = "program"))]
    pub command: String,
    /// Arguments before those that Drawgate gives, such as the script of an interpreter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Further files and folders that it may read. Relative to this file's folder.
    #[schemars(extend("format" = "readable-path"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Further folders that it may write. Relative to this file's folder.
    #[schemars(extend("format" = "writable-path"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// The program's own tools that it may use, by its own names, such as `Read` and `Bash` of Claude
    /// Code. They work within the sandbox alone; the gateway neither sees nor decides what they do. A
    /// profile that names tools must name these, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_tools: Vec<String>,
    /// Memory in MiB, instead of `memory_mb` in `[sandbox]`.
    #[schemars(range(min = 64, max = 1_048_576))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
}

impl InvokersConfig {
    /// The program of an invoker, if it is one and is configured.
    #[must_use]
    pub fn get(&self, invoker: Invoker) -> Option<&InvokerConfig> {
        match invoker {
            Invoker::Api => None,
            Invoker::Claude => self.claude.as_deref(),
            Invoker::Codex => self.codex.as_deref(),
            Invoker::Gemini => self.gemini.as_deref(),
            Invoker::Opencode => self.opencode.as_deref(),
        }
    }

    /// All that are configured, by name.
    pub fn iter(&self) -> impl Iterator<Item = (Invoker, &InvokerConfig)> {
        Invoker::ALL.into_iter().filter_map(|invoker| Some((invoker, self.get(invoker)?)))
    }

    /// The same, with paths that can be opened.
    #[must_use]
    pub fn resolved(&self, resolve: impl Fn(&Path) -> PathBuf) -> Self {
        let one = |config: &InvokerConfig| -> Box<InvokerConfig> {
            let command = &config.command;
            let is_path = command.contains('/');
            let command = is_path.then(|| resolve(Path::new(command)).display().to_string());
            Box::new(InvokerConfig {
                command: command.unwrap_or_else(|| config.command.clone()),
                args: config.args.clone(),
                read: config.read.iter().map(|path| resolve(path)).collect(),
                write: config.write.iter().map(|path| resolve(path)).collect(),
                own_tools: config.own_tools.clone(),
                memory_mb: config.memory_mb,
            })
        };
        let Self { claude, codex, gemini, opencode } = self;
        Self {
            claude: claude.as_deref().map(one),
            codex: codex.as_deref().map(one),
            gemini: gemini.as_deref().map(one),
            opencode: opencode.as_deref().map(one),
        }
    }
}
