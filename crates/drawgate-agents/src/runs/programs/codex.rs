//! Codex.

use serde_json::Value;

use super::cli::{CALL_SECONDS, Cli, Launch, Place, Reader, SERVER, Setup, TOKEN, mcp_url, text};
use super::folder::FileText;
use crate::model::Api;

const SYSTEM: &str = "system.md";
/// The name of the provider in its settings.
const PROVIDER: &str = "drawgate";

pub(super) struct Codex;

impl Cli for Codex {
    fn needs(&self) -> Option<Api> {
        Some(Api::Openai)
    }

    fn of_home(&self, _setup: &Setup<'_>) -> Vec<FileText> {
        // It does not make its own folder.
        vec![("codex/.keep", String::new())]
    }

    fn of_settings(&self, setup: &Setup<'_>) -> Vec<FileText> {
        vec![(SYSTEM, setup.instructions.to_owned())]
    }

    fn launch(&self, setup: &Setup<'_>, place: &Place<'_>) -> Launch {
        let mut args = vec!["exec".to_owned()];
        if place.resumed.is_some() {
            args.push("resume".to_owned());
        }
        let fixed = [
            "--json",
            "--strict-config",
            "--skip-git-repo-check",
            "--ignore-user-config",
            "--ignore-rules",
            "--disable",
            "multi_agent",
            "-m",
            setup.model,
        ];
        args.extend(fixed.map(str::to_owned));
        if !has_shell(setup) {
            args.extend(
                ["--disable", "shell_tool", "--disable", "unified_exec"].map(str::to_owned),
            );
        }
        for setting in settings(setup, place) {
            args.extend(["-c".to_owned(), setting]);
        }
        args.extend(place.resumed.map(str::to_owned));
        args.push("-".to_owned());
        let state = place.home.join("codex").display().to_string();
        let env = [(TOKEN, place.token), ("CODEX_HOME", &state)];
        Launch { args, session: place.resumed.map(str::to_owned), ..Launch::new(&[], &env) }
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::<Lines>::default()
    }
}

/// The one tool of its own that can be given or not.
const SHELL: &str = "shell";

fn has_shell(setup: &Setup<'_>) -> bool {
    setup.own_tools.iter().any(|tool| tool == SHELL)
}

/// Settings as TOML, one each.
fn settings(setup: &Setup<'_>, place: &Place<'_>) -> Vec<String> {
    let quoted = |text: &str| Value::from(text).to_string();
    let (relay, mcp) = (quoted(&setup.relay_url()), quoted(&mcp_url()));
    let token = quoted(TOKEN);
    // A shell is held by the gateway's sandbox, within which no other can be made.
    let sandbox = if has_shell(setup) { "danger-full-access" } else { "read-only" };
    vec![
        format!("sandbox_mode=\"{sandbox}\""),
        "approval_policy=\"never\"".to_owned(),
        "web_search=\"disabled\"".to_owned(),
        format!("model_instructions_file={}", quoted(&place.setting(SYSTEM))),
        format!("model_context_window={}", setup.limits.context_tokens),
        format!("model_provider=\"{PROVIDER}\""),
        format!(
            "model_providers.{PROVIDER}={{name=\"{PROVIDER}\",base_url={relay},env_key={token},\
             wire_api=\"responses\"}}"
        ),
        format!(
            "mcp_servers.{SERVER}={{url={mcp},bearer_token_env_var={token},required=true,\
             default_tools_approval_mode=\"approve\",tool_timeout_sec={CALL_SECONDS}}}"
        ),
    ]
}

#[derive(Default)]
struct Lines {
    answer: Option<String>,
    /// The last thing that it said was wrong, unless its work came to an end after that.
    error: Option<String>,
    is_done: bool,
}

impl Reader for Lines {
    fn line(&mut self, line: &Value) -> Option<String> {
        match text(line, "/type")? {
            "thread.started" => return text(line, "/thread_id").map(str::to_owned),
            "item.completed" if text(line, "/item/type") == Some("agent_message") => {
                self.answer = text(line, "/item/text").map(str::to_owned);
            }
            "turn.completed" => self.is_done = true,
            "turn.failed" => self.error = text(line, "/error/message").map(str::to_owned),
            "error" => self.error = text(line, "/message").map(str::to_owned),
            _ => {}
        }
        None
    }

    fn end(self: Box<Self>) -> Option<Result<String, String>> {
        if self.is_done {
            return Some(Ok(self.answer.unwrap_or_default()));
        }
        self.error.map(Err)
    }
}

#[cfg(test)]
#[path = "codex_tests.rs"]
mod tests;
