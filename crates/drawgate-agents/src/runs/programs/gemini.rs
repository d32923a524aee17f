//! Gemini CLI.

use serde_json::{Value, json};

use super::cli::{CALL_SECONDS, Cli, Launch, Place, Reader, SERVER, Setup, TOKEN, mcp_url, text};
use super::folder::FileText;
use crate::model::Api;

const SYSTEM: &str = "system.md";
const POLICY: &str = "policy.toml";

pub(super) struct Gemini;

impl Cli for Gemini {
    fn needs(&self) -> Option<Api> {
        Some(Api::Gemini)
    }

    /// Settings that it may only read must belong to root, which nothing in a sandbox does; so they are in
    /// its home. What it may do is said by its arguments.
    fn of_home(&self, _setup: &Setup<'_>) -> Vec<FileText> {
        let server = json!({
            "httpUrl": mcp_url(),
            "headers": { "Authorization": format!("Bearer ${TOKEN}") },
            "timeout": CALL_SECONDS.saturating_mul(1000),
            "trust": true,
        });
        let settings = json!({
            "security": { "auth": { "selectedType": "gemini-api-key" } },
            "general": { "disableAutoUpdate": true, "disableUpdateNag": true },
            "privacy": { "usageStatisticsEnabled": false },
            "telemetry": { "enabled": false },
            "mcpServers": { SERVER: server },
        });
        vec![(".gemini/settings.json", settings.to_string())]
    }

    fn of_settings(&self, setup: &Setup<'_>) -> Vec<FileText> {
        let rule = |tool: &str, server: &str, decision: &str, priority: u32| {
            let tool = Value::from(tool);
            format!(
                "[[rule]]\ntoolName = {tool}\n{server}decision = \"{decision}\"\npriority = {priority}\n"
            )
        };
        let mut policy = vec![
            rule("*", "", "deny", 100),
            rule("*", &format!("mcpName = \"{SERVER}\"\n"), "allow", 200),
        ];
        policy.extend(setup.own_tools.iter().map(|tool| rule(tool, "", "allow", 300)));
        vec![(SYSTEM, setup.instructions.to_owned()), (POLICY, policy.join("\n"))]
    }

    fn unprotected(&self) -> &'static [&'static str] {
        &[".gemini"]
    }

    fn launch(&self, setup: &Setup<'_>, place: &Place<'_>) -> Launch {
        let policy = place.setting(POLICY);
        let (flag, session) = match place.resumed {
            Some(session) => ("--resume", session),
            None => ("--session-id", place.fresh),
        };
        let args = [
            "-p",
            "",
            "--output-format",
            "stream-json",
            "--skip-trust",
            "--policy",
            &policy,
            "--allowed-mcp-server-names",
            SERVER,
            "-m",
            setup.model,
            flag,
            session,
        ];
        let (system, relay) = (place.setting(SYSTEM), setup.relay_url());
        let env = [
            (TOKEN, place.token),
            ("GEMINI_API_KEY", place.token),
            ("GOOGLE_GEMINI_BASE_URL", &relay),
            ("GEMINI_SYSTEM_MD", &system),
        ];
        Launch { session: Some(session.to_owned()), ..Launch::new(&args, &env) }
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::<Lines>::default()
    }
}

#[derive(Default)]
struct Lines {
    /// What was said since the last call of a tool.
    answer: String,
    result: Option<Result<(), String>>,
    /// What it said was wrong, though it may have gone on.
    complaint: Option<String>,
}

impl Reader for Lines {
    fn line(&mut self, line: &Value) -> Option<String> {
        match text(line, "/type")? {
            "init" => return text(line, "/session_id").map(str::to_owned),
            "message" if text(line, "/role") == Some("assistant") => {
                let more = text(line, "/content").unwrap_or_default();
                if line.get("delta").and_then(Value::as_bool) == Some(true) {
                    self.answer.push_str(more);
                } else {
                    more.clone_into(&mut self.answer);
                }
            }
            "tool_use" => self.answer.clear(),
            "error" => {
                self.complaint = text(line, "/message").map(str::to_owned);
            }
            "result" => {
                self.result = Some(match text(line, "/status") {
                    Some("success") => Ok(()),
                    Some(_) | None => {
                        Err(text(line, "/error/message").unwrap_or("it failed").to_owned())
                    }
                });
            }
            _ => {}
        }
        None
    }

    fn end(self: Box<Self>) -> Option<Result<String, String>> {
        let Self { answer, result, complaint } = *self;
        match (result, complaint) {
            (Some(Ok(())), Some(complaint)) if answer.is_empty() => Some(Err(complaint)),
            (Some(Ok(())), _) => Some(Ok(answer)),
            (Some(Err(said)), _) | (None, Some(said)) => Some(Err(said)),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
#[path = "gemini_tests.rs"]
mod tests;
