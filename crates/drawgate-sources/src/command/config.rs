//! What is written about command tools.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use drawgate_core::model::McpToolSpec;
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::Profile;
use drawgate_host::secrets::Secrets;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::template::{Template, TemplateError};
use super::tool::Tool;
use crate::confine::SandboxConfig;
use crate::kind::ConfigError;

/// What a program without a terminal should know; `env` of a tool may say otherwise.
const PLAIN_OUTPUT: [(&str, &str); 2] = [("NO_COLOR", "1"), ("TERM", "dumb")];

/// In the sandbox that is a folder of the call's own: what one tool leaves in the workspace must not
/// be another one's settings.
const PRIVATE_HOME: &str = "/tmp";

/// Tools that are programs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// The folder of the toolpack: a fixed word `./NAME` of a template is a file in it.
    pub folder: Option<PathBuf>,
    /// The tools.
    pub tools: Vec<CommandTool>,
}

/// One tool: a program that is started for each call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandTool {
    /// Its name.
    pub name: String,
    /// What it does, for the model; the template by default.
    pub description: Option<String>,
    /// The command, such as `gh issue list --limit {{limit}}`.
    pub command_template: String,
    /// JSON Schema of the parameters.
    #[serde(default)]
    pub parameters: Value,
    /// How long a call may take; the gateway's own limit holds in any case.
    pub timeout_seconds: Option<u64>,
    /// Hints and demands, as in MCP.
    pub annotations: Option<Map<String, Value>>,
    /// What the program is held to.
    pub sandbox: SandboxConfig,
    /// Its environment, beside `PATH`, `HOME`, `LANG`, `TMPDIR` and `USER`. A text of the form
    /// `env:NAME` is replaced by that variable's value.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

impl CommandConfig {
    pub(super) fn validate(self, secrets: &Secrets) -> Result<Vec<Tool>, ConfigError> {
        let mut names = BTreeSet::new();
        let tools = self.tools.into_iter().enumerate().map(|(index, tool)| {
            if !names.insert(tool.name.clone()) {
                return Err(ConfigError::value(
                    format!("tools[{index}].name"),
                    format!("`{}` is there twice", tool.name.escape_debug()),
                ));
            }
            tool.validate(&format!("tools[{index}]"), self.folder.as_deref(), secrets)
        });
        tools.collect()
    }
}

impl CommandTool {
    fn template(&self, folder: Option<&Path>) -> Result<Template, TemplateError> {
        let template =
            Template::parse(&self.command_template, &self.parameters)?.located(folder)?;
        match self.sandbox.profile {
            Profile::None => template.unconfined(),
            Profile::Strict | Profile::Workspace | Profile::Network => Ok(template),
        }
    }

    fn validate(
        self,
        place: &str,
        folder: Option<&Path>,
        secrets: &Secrets,
    ) -> Result<Tool, ConfigError> {
        let template = self.template(folder).map_err(|error| {
            ConfigError::value(format!("{place}.command_template"), error.to_string())
        })?;
        let environment = environment(place, self.sandbox.profile, &self.env, secrets)?;
        let confinement = self.sandbox.confinement()?;
        let spawn = Spawn {
            env: environment,
            working_dir: Some(confinement.workspace.clone()),
            confinement: Some(confinement),
            ..Spawn::default()
        };
        let spec = self.spec(place, &template)?;
        let timeout = self.timeout_seconds.map(Duration::from_secs);
        Ok(Tool::new(spec, template, spawn, self.sandbox.profile, timeout))
    }

    fn spec(&self, place: &str, template: &Template) -> Result<McpToolSpec, ConfigError> {
        let annotations = self.annotations.clone().map(Value::Object);
        let annotations = annotations.map(serde_json::from_value).transpose().map_err(|error| {
            ConfigError::value(format!("{place}.annotations"), error.to_string())
        })?;
        let described = self.description.clone().filter(|text| !text.trim().is_empty());
        Ok(McpToolSpec {
            name: self.name.clone(),
            description: described
                .unwrap_or_else(|| format!("Runs `{}`", self.command_template.trim())),
            input_schema: template.schema().clone(),
            annotations,
            metadata: None,
            rest: Map::new(),
        })
    }
}

fn environment(
    place: &str,
    profile: Profile,
    given: &BTreeMap<String, String>,
    secrets: &Secrets,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut all: BTreeMap<String, String> =
        PLAIN_OUTPUT.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    if profile != Profile::None {
        all.insert("HOME".to_owned(), PRIVATE_HOME.to_owned());
    }
    for (name, value) in given {
        let resolved = secrets.resolve(value).map_err(|error| {
            ConfigError::variable(format!("{place}.env.{}", name.escape_debug()), error)
        })?;
        all.insert(name.clone(), resolved.expose().to_owned());
    }
    Ok(all)
}
