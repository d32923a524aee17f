//! Claude Code.

use serde_json::{Value, json};

use super::cli::{CALL_SECONDS, Cli, Launch, Place, Reader, SERVER, Setup, TOKEN, mcp_url, text};
use super::folder::FileText;
use crate::model::Api;

const MCP: &str = "mcp.json";
const SYSTEM: &str = "system.md";

pub(super) struct Claude;

impl Cli for Claude {
    fn needs(&self) -> Option<Api> {
        Some(Api::Anthropic)
    }

    fn of_settings(&self, setup: &Setup<'_>) -> Vec<FileText> {
        let server = json!({
            "type": "http",
            "url": mcp_url(),
            "headers": { "Authorization": format!("Bearer ${{{TOKEN}}}") },
        });
        let servers = json!({ "mcpServers": { SERVER: server } });
        vec![(MCP, servers.to_string()), (SYSTEM, setup.instructions.to_owned())]
    }

    fn launch(&self, setup: &Setup<'_>, place: &Place<'_>) -> Launch {
        let (mcp, system) = (place.setting(MCP), place.setting(SYSTEM));
        let own = setup.own_tools.join(",");
        let gateway = format!("mcp__{SERVER}");
        let allowed = if own.is_empty() { gateway } else { format!("{gateway},{own}") };
        let (flag, session) = match place.resumed {
            Some(session) => ("--resume", session),
            None => ("--session-id", place.fresh),
        };
        let args = [
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--mcp-config",
            &mcp,
            "--strict-mcp-config",
            "--tools",
            &own,
            "--allowedTools",
            &allowed,
            "--permission-mode",
            "dontAsk",
            "--setting-sources",
            "",
            "--system-prompt-file",
            &system,
            "--model",
            setup.model,
            flag,
            session,
        ];
        let state = place.home.join("claude").display().to_string();
        let timeout = CALL_SECONDS.saturating_mul(1000).to_string();
        let env = [
            (TOKEN, place.token.to_owned()),
            ("ANTHROPIC_BASE_URL", setup.relay_url()),
            ("ANTHROPIC_API_KEY", place.token.to_owned()),
            // What it asks beside its work, it asks the same model.
            ("ANTHROPIC_DEFAULT_HAIKU_MODEL", setup.model.to_owned()),
            ("ANTHROPIC_SMALL_FAST_MODEL", setup.model.to_owned()),
            ("CLAUDE_CONFIG_DIR", state),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ("DISABLE_ERROR_REPORTING", "1".to_owned()),
            ("DISABLE_TELEMETRY", "1".to_owned()),
            ("ENABLE_TOOL_SEARCH", "false".to_owned()),
            ("MCP_CONNECTION_NONBLOCKING", "false".to_owned()),
            ("MCP_TOOL_TIMEOUT", timeout),
        ];
        let env: Vec<(&str, &str)> =
            env.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Launch { session: Some(session.to_owned()), ..Launch::new(&args, &env) }
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::<Lines>::default()
    }
}

#[derive(Default)]
struct Lines {
    result: Option<Result<String, String>>,
}

impl Reader for Lines {
    fn line(&mut self, line: &Value) -> Option<String> {
        if text(line, "/type") == Some("result") {
            let said = text(line, "/result").unwrap_or_default().to_owned();
            // Its `subtype` says `success` where the API refused.
            let is_error = line.get("is_error").and_then(Value::as_bool) != Some(false);
            self.result = Some(if is_error { Err(failure(line, said)) } else { Ok(said) });
        }
        text(line, "/session_id").map(str::to_owned)
    }

    fn end(self: Box<Self>) -> Option<Result<String, String>> {
        self.result
    }
}

fn failure(line: &Value, said: String) -> String {
    if said.is_empty() { text(line, "/subtype").unwrap_or("it failed").to_owned() } else { said }
}

#[cfg(test)]
#[path = "claude_tests.rs"]
mod tests;
