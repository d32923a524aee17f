//! Whether a pack works on this machine: everything that can be tried is tried, and whatever fails is
//! named with what to do about it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::{SourceId, shown_name};
use drawgate_core::source::ToolSource;
use drawgate_host::Host;
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::Profile;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use super::config::ToolpackConfig;
use super::connector::ConnectorSettings;
use super::manifest::{Manifest, Tool};
use super::part::Part;
use super::restrictions::Restrictions;
use super::source::ToolpackSource;
use crate::command::Template;
use crate::excerpt::masked;

/// How long a connector may take to answer.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long an empty sandbox may take.
const BOX_TIME: Duration = Duration::from_secs(10);
/// How many of the last lines of a server's stderr are shown.
const STDERR_LINES: usize = 3;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What: `manifest`, `variable GITHUB_TOKEN`, `program gh`, `sandbox network`, `connector main`,
    /// `tool list_pets`.
    pub subject: String,
    /// Whether it works.
    pub ok: bool,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    fn good(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { subject: subject.into(), ok: true, message: message.into(), advice: None }
    }

    fn bad(
        subject: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (subject, message) = (subject.into(), message.into());
        Self { subject, ok: false, message, advice: Some(advice.into()) }
    }
}

/// Tries everything that a pack needs. The pack need not be enabled.
pub async fn examine(config: ToolpackConfig, host: &Arc<Host>) -> Vec<Finding> {
    let manifest = match Manifest::read_with(&config.folder, config.kinds) {
        Ok(manifest) => manifest,
        Err(problems) => {
            let finding = |problem: super::Problem| Finding {
                subject: format!("manifest {}", problem.path),
                ok: false,
                message: problem.message,
                advice: problem.hint,
            };
            return problems.problems.into_iter().map(finding).collect();
        }
    };
    let what = format!("{} {} can be read", manifest.name, manifest.version);
    let mut findings = vec![Finding::good("manifest", what)];
    findings.extend(variables(&config, &manifest, host));
    findings.extend(programs(&config, &manifest, host));
    match Restrictions::new(&config, &manifest, host) {
        Ok(restrictions) => {
            findings.extend(sandboxes(&config, &manifest, &restrictions, host).await);
        }
        Err(error) => {
            let advice = "change the pack's `permissions`, or where its workspace is";
            findings.push(Finding::bad("permissions", error.to_string(), advice));
        }
    }
    findings.extend(connectors(config, &manifest, host).await);
    findings
}

fn variables(config: &ToolpackConfig, manifest: &Manifest, host: &Host) -> Vec<Finding> {
    let all = manifest.permissions(&config.folder).env;
    all.iter().map(|name| variable(name, host)).collect()
}

fn variable(name: &str, host: &Host) -> Finding {
    let subject = format!("variable {name}");
    match host.secrets.resolve(&format!("env:{name}")) {
        Ok(value) if value.expose().is_empty() => Finding::bad(
            subject,
            "it is set, and empty",
            format!("give `{name}` its value in the gateway's environment"),
        ),
        Ok(_) => Finding::good(subject, "it is set"),
        Err(_) => Finding::bad(
            subject,
            "it is not set",
            format!("set `{name}` in the gateway's environment and start it again"),
        ),
    }
}

fn programs(config: &ToolpackConfig, manifest: &Manifest, host: &Host) -> Vec<Finding> {
    let mut names: Vec<String> = manifest
        .tools
        .iter()
        .filter(|tool| tool.is_command())
        .filter_map(|tool| program(tool, &config.folder))
        .collect();
    names.sort();
    names.dedup();
    names.iter().map(|name| present(name, host)).collect()
}

fn program(tool: &Tool, folder: &Path) -> Option<String> {
    let template = Template::parse(tool.command_template.as_deref()?, &tool.parameters()).ok()?;
    Some(template.located(Some(folder)).ok()?.program().to_owned())
}

fn present(name: &str, host: &Host) -> Finding {
    let subject = format!("program {}", shown_name(name));
    match host.processes.find(name) {
        Some(path) => Finding::good(subject, format!("it is {}", path.display())),
        None => Finding::bad(
            subject,
            "it is not there",
            format!("install `{}` where the gateway's `PATH` leads", shown_name(name)),
        ),
    }
}

/// Every sandbox that the pack's programs run in, tried with a program that does nothing.
async fn sandboxes(
    config: &ToolpackConfig,
    manifest: &Manifest,
    restrictions: &Restrictions,
    host: &Host,
) -> Vec<Finding> {
    let commands = manifest.tools.iter().filter(|tool| tool.is_command());
    let mut profiles: Vec<Profile> =
        commands.map(|tool| config.command_profile(manifest, tool)).collect();
    let servers = manifest
        .connectors
        .iter()
        .filter(|connector| connector.settings().and_then(ConnectorSettings::program).is_some());
    profiles.extend(servers.map(|connector| config.connector_profile(manifest, connector)));
    profiles.sort();
    profiles.dedup();
    let mut findings = Vec::new();
    for profile in profiles {
        let subject = format!("sandbox {profile}");
        findings.push(match (profile, empty_box(profile, restrictions, host).await) {
            (Profile::None, _) => {
                Finding::good(subject, "the operator lets programs of this pack run without one")
            }
            (_, Ok(())) => Finding::good(subject, "this machine can enforce it"),
            (_, Err(reason)) => {
                Finding::bad(subject, reason, "see docs/sandbox.md for what a machine needs")
            }
        });
    }
    findings
}

async fn empty_box(
    profile: Profile,
    restrictions: &Restrictions,
    host: &Host,
) -> Result<(), String> {
    if profile == Profile::None {
        return Ok(());
    }
    let confinement =
        restrictions.sandbox(profile).confinement().map_err(|error| error.to_string())?;
    let spawn =
        Spawn { program: "true".to_owned(), confinement: Some(confinement), ..Spawn::default() };
    let mut running = host.processes.spawn(&spawn).map_err(|error| error.to_string())?;
    let waited = timeout(BOX_TIME, running.wait()).await;
    let status = waited
        .map_err(|_| "an empty sandbox did not end in time".to_owned())?
        .map_err(|error| error.to_string())?;
    match running.box_failure().await {
        Some(error) => Err(error.to_string()),
        None if status.success() => Ok(()),
        None => Err(format!("a program that does nothing failed in it ({status})")),
    }
}

async fn connectors(config: ToolpackConfig, manifest: &Manifest, host: &Arc<Host>) -> Vec<Finding> {
    let id = SourceId::new(&manifest.id).map_err(|error| error.to_string());
    let source =
        id.and_then(|id| ToolpackSource::new(id, &config, host).map_err(|error| error.to_string()));
    let source = match source {
        Ok(source) => source,
        Err(reason) => {
            return vec![Finding::bad("pack", reason, "correct the pack's configuration")];
        }
    };
    let mut findings = Vec::new();
    for part in source.parts() {
        findings.extend(connector(part, host).await);
    }
    source.close().await;
    findings
}

async fn connector(part: &Part, host: &Host) -> Vec<Finding> {
    let subject = match part.label.as_str() {
        label if part.is_commands() => label.to_owned(),
        label => format!("connector {label}"),
    };
    let secrets = host.secrets.known_values();
    let source = match &part.source {
        Ok(source) => source,
        Err(reason) => {
            let advice =
                "set what is missing in the gateway's environment, or correct the connector";
            return vec![Finding::bad(subject, masked(reason, &secrets), advice)];
        }
    };
    let asked = timeout(PATIENCE, source.manifest()).await;
    let asked = asked.map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()));
    match asked.and_then(|answer| answer.map_err(|error| error.to_string())) {
        Err(reason) => {
            let reason = masked(&reason, &secrets) + &last_lines(&source.diagnostics());
            let advice = "start the server, or correct the connector's address or command";
            vec![Finding::bad(subject, reason, advice)]
        }
        Ok(manifest) => {
            let name = shown_name(&format!("{} {}", manifest.name, manifest.version));
            let found = format!("answered: {}, {}", name.trim(), tools(manifest.tools.len()));
            let (_, left_out) = part.choose(manifest);
            let mut findings = vec![Finding::good(subject.clone(), found)];
            findings.extend(not_offered(&subject, &source.diagnostics(), &secrets));
            let advice = "correct its name in the manifest, or update the server";
            findings.extend(left_out.into_iter().map(|tool| {
                Finding::bad(format!("tool {}", tool.tool), masked(&tool.reason, &secrets), advice)
            }));
            if let Err(error) = source.check().await {
                let reason = masked(&error.to_string(), &secrets);
                let advice = "see what the message asks for";
                findings.push(Finding::bad(part.label.clone(), reason, advice));
            }
            findings
        }
    }
}

/// What a connector has and can't offer, such as operations of an API. It is no fault of the pack.
fn not_offered(subject: &str, diagnostics: &Value, secrets: &[String]) -> Vec<Finding> {
    let all = diagnostics.get("leftOut").and_then(Value::as_array);
    let told = all.into_iter().flatten().map(|one| {
        let name = one["operation"].as_str().or_else(|| one["tool"].as_str()).unwrap_or_default();
        let reason = masked(one["reason"].as_str().unwrap_or_default(), secrets);
        Finding::good(subject, format!("left out: `{}`: {reason}", shown_name(name)))
    });
    told.collect()
}

fn tools(count: usize) -> String {
    if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") }
}

/// What a server complained of before it failed; masked already.
fn last_lines(diagnostics: &Value) -> String {
    let tail = diagnostics.get("stderrTail").and_then(Value::as_array);
    let lines: Vec<&str> = tail.into_iter().flatten().filter_map(Value::as_str).collect();
    let from = lines.len().saturating_sub(STDERR_LINES);
    match lines.get(from..) {
        Some(last) if !last.is_empty() => format!("; last lines of stderr: {}", last.join(" / ")),
        Some(_) | None => String::new(),
    }
}
