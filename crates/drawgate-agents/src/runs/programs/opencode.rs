//! `OpenCode`.

use serde_json::{Value, json};

use super::cli::{CALL_SECONDS, Cli, Launch, Place, Reader, SERVER, Setup, TOKEN, mcp_url, text};
use super::folder::FileText;
use crate::model::Api;

const CONFIG: &str = "opencode.json";
const SYSTEM: &str = "system.md";
/// The name of the provider, and of the agent, in its settings.
const PROVIDER: &str = "drawgate";
const AGENT: &str = "worker";

pub(super) struct Opencode;

impl Cli for Opencode {
    fn needs(&self) -> Option<Api> {
        None
    }

    fn of_settings(&self, setup: &Setup<'_>) -> Vec<FileText> {
        let model = format!("{PROVIDER}/{}", setup.model);
        let mut agent = json!({
            "description": "Does the work of a run",
            "mode": "primary",
            "model": model,
            "prompt": setup.instructions,
        });
        if let Some(temperature) = setup.temperature {
            agent["temperature"] = temperature.into();
        }
        let limit =
            json!({ "context": setup.limits.context_tokens, "output": setup.limits.max_output });
        let (package, path) = package(setup.api);
        let config = json!({
            "provider": { PROVIDER: {
                "npm": package,
                "name": PROVIDER,
                "options": {
                    "baseURL": format!("{}{path}", setup.relay_url()),
                    "apiKey": format!("{{env:{TOKEN}}}"),
                },
                "models": { setup.model: { "name": setup.model, "limit": limit, "tool_call": true } },
            }},
            "enabled_providers": [PROVIDER],
            "model": model,
            "small_model": model,
            "autoupdate": false,
            "share": "disabled",
            "agent": { AGENT: agent },
            "default_agent": AGENT,
            "tools": switches(setup, false, true),
            "permission": switches(setup, "deny", "allow"),
            "mcp": { SERVER: {
                "type": "remote",
                "url": mcp_url(),
                "headers": { "Authorization": format!("Bearer {{env:{TOKEN}}}") },
                "oauth": false,
                "enabled": true,
                "timeout": CALL_SECONDS.saturating_mul(1000),
            }},
        });
        vec![(CONFIG, config.to_string()), (SYSTEM, setup.instructions.to_owned())]
    }

    fn launch(&self, setup: &Setup<'_>, place: &Place<'_>) -> Launch {
        let model = format!("{PROVIDER}/{}", setup.model);
        let mut args = vec![
            "run", "--format", "json", "--pure", "--agent", AGENT, "--title", "run", "-m", &model,
        ];
        if let Some(session) = place.resumed {
            args.extend(["--session", session]);
        }
        let config = place.setting(CONFIG);
        let env = [
            (TOKEN, place.token),
            ("OPENCODE_CONFIG", &config),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ];
        Launch { session: place.resumed.map(str::to_owned), ..Launch::new(&args, &env) }
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::<Lines>::default()
    }
}

/// Everything off but the tools of the gateway, and those of its own that it may use.
fn switches<T: Into<Value> + Copy>(setup: &Setup<'_>, off: T, on: T) -> Value {
    let own = setup.own_tools.iter().cloned();
    let on = own.chain([format!("{SERVER}_*")]).map(|tool| (tool, on.into()));
    std::iter::once(("*".to_owned(), off.into())).chain(on).collect()
}

/// The package that speaks an API, which is part of the program, and where its paths begin.
const fn package(api: Api) -> (&'static str, &'static str) {
    match api {
        Api::Anthropic => ("@ai-sdk/anthropic", "/v1"),
        Api::Openai => ("@ai-sdk/openai", ""),
        Api::OpenaiChat => ("@ai-sdk/openai-compatible", ""),
        Api::Gemini => ("@ai-sdk/google", "/v1beta"),
    }
}

#[derive(Default)]
struct Lines {
    answer: String,
    error: Option<String>,
    is_done: bool,
}

impl Reader for Lines {
    fn line(&mut self, line: &Value) -> Option<String> {
        match text(line, "/type") {
            Some("step_start") => {
                self.answer.clear();
                self.is_done = false;
            }
            Some("text") => self.answer.push_str(text(line, "/part/text").unwrap_or_default()),
            Some("step_finish") => self.is_done = true,
            Some("error") => {
                let said = text(line, "/error/data/message").or_else(|| text(line, "/error/name"));
                self.error = Some(said.unwrap_or("it failed").to_owned());
            }
            Some(_) | None => {}
        }
        text(line, "/sessionID").map(str::to_owned)
    }

    fn end(self: Box<Self>) -> Option<Result<String, String>> {
        match self.error {
            Some(error) => Some(Err(error)),
            None => self.is_done.then_some(Ok(self.answer)),
        }
    }
}

#[cfg(test)]
#[path = "opencode_tests.rs"]
mod tests;
