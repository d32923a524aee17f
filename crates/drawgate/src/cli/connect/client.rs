//! What each client's configuration looks like.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::{Endpoint, Folders, TOKEN_VARIABLE};

/// A program that speaks MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Client {
    /// Claude Code: `.mcp.json` in the project.
    Claude,
    /// Codex: `~/.codex/config.toml`.
    Codex,
    /// Gemini CLI: `~/.gemini/settings.json`.
    Gemini,
    /// Cursor: `.cursor/mcp.json` in the project.
    Cursor,
    /// Visual Studio Code: `.vscode/mcp.json` in the project.
    Vscode,
}

/// What a client's file needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) format: Format,
    /// The object or table that holds all servers.
    pub(super) servers_key: &'static str,
    pub(super) name: String,
    pub(super) server: Map<String, Value>,
    /// A question that the client asks its user, referred to by the server.
    pub(super) input: Option<Value>,
}

/// The language of a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Toml,
}

impl Client {
    /// The client's name for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Cursor => "Cursor",
            Self::Vscode => "Visual Studio Code",
        }
    }

    pub(super) fn path(self, folders: &Folders) -> PathBuf {
        match self {
            Self::Claude => folders.project.join(".mcp.json"),
            Self::Codex => folders.home.join(".codex").join("config.toml"),
            Self::Gemini => folders.home.join(".gemini").join("settings.json"),
            Self::Cursor => folders.project.join(".cursor").join("mcp.json"),
            Self::Vscode => folders.project.join(".vscode").join("mcp.json"),
        }
    }

    /// All files in which it keeps servers, for the user and for the project, on Linux and macOS.
    pub(in super::super) fn places(self, folders: &Folders) -> Vec<PathBuf> {
        let Folders { home, project } = folders;
        let settings = |program: &str, file: &str| {
            let linux = home.join(".config").join(program).join(file);
            let macos = home.join("Library/Application Support").join(program).join(file);
            [linux, macos]
        };
        let mut places = vec![self.path(folders)];
        match self {
            Self::Claude => {
                places.push(home.join(".claude.json"));
                places.extend(settings("Claude", "claude_desktop_config.json"));
            }
            Self::Codex => places.push(project.join(".codex").join("config.toml")),
            Self::Gemini => places.push(project.join(".gemini").join("settings.json")),
            Self::Cursor => places.push(home.join(".cursor").join("mcp.json")),
            Self::Vscode => places.extend(settings("Code", "User/mcp.json")),
        }
        places.dedup();
        places
    }

    pub(super) fn entry(self, name: &str, endpoint: &Endpoint) -> Entry {
        let (format, servers_key) = match self {
            Self::Codex => (Format::Toml, "mcp_servers"),
            Self::Vscode => (Format::Json, "servers"),
            Self::Claude | Self::Gemini | Self::Cursor => (Format::Json, "mcpServers"),
        };
        let server = match endpoint {
            Endpoint::Stdio { program, args, .. } => self.stdio_server(program, args),
            Endpoint::Http { url, .. } => self.http_server(name, url),
        };
        let server = server.as_object().cloned().unwrap_or_default();
        let asks = self == Self::Vscode && matches!(endpoint, Endpoint::Http { .. });
        let input = asks.then(|| token_input(name));
        Entry { format, servers_key, name: name.to_owned(), server, input }
    }

    fn stdio_server(self, program: &str, args: &[String]) -> Value {
        match self {
            Self::Claude | Self::Cursor | Self::Vscode => {
                json!({ "type": "stdio", "command": program, "args": args })
            }
            Self::Codex | Self::Gemini => json!({ "command": program, "args": args }),
        }
    }

    fn http_server(self, name: &str, url: &str) -> Value {
        let bearer = |reference: String| json!({ "Authorization": format!("Bearer {reference}") });
        match self {
            Self::Claude => {
                let headers = bearer(format!("${{{TOKEN_VARIABLE}}}"));
                json!({ "type": "http", "url": url, "headers": headers })
            }
            Self::Codex => json!({ "url": url, "bearer_token_env_var": TOKEN_VARIABLE }),
            Self::Gemini => {
                json!({ "httpUrl": url, "headers": bearer(format!("${TOKEN_VARIABLE}")) })
            }
            Self::Cursor => {
                json!({ "url": url, "headers": bearer(format!("${{env:{TOKEN_VARIABLE}}}")) })
            }
            Self::Vscode => {
                let headers = bearer(format!("${{input:{name}-token}}"));
                json!({ "type": "http", "url": url, "headers": headers })
            }
        }
    }

    pub(super) fn command_line(self, name: &str, endpoint: &Endpoint) -> Option<String> {
        let words = match (self, endpoint) {
            (Self::Claude, Endpoint::Stdio { .. }) => {
                words(&["claude mcp add --transport stdio --scope project", name, "--"], endpoint)
            }
            (Self::Claude, Endpoint::Http { url, .. }) => format!(
                "claude mcp add --transport http --scope project {name} {} --header \
                 'Authorization: Bearer ${{{TOKEN_VARIABLE}}}'",
                quoted(url)
            ),
            (Self::Codex, Endpoint::Stdio { .. }) => {
                words(&["codex mcp add", name, "--"], endpoint)
            }
            (Self::Codex, Endpoint::Http { url, .. }) => format!(
                "codex mcp add {name} --url {} --bearer-token-env-var {TOKEN_VARIABLE}",
                quoted(url)
            ),
            (Self::Gemini, Endpoint::Http { url, .. }) => format!(
                "gemini mcp add --scope user --transport http --header 'Authorization: Bearer \
                 ${TOKEN_VARIABLE}' {name} {}",
                quoted(url)
            ),
            (Self::Vscode, Endpoint::Stdio { program, args, .. }) => {
                let server = json!({ "name": name, "command": program, "args": args });
                format!("code --add-mcp {}", quoted(&server.to_string()))
            }
            (Self::Gemini, Endpoint::Stdio { .. })
            | (Self::Vscode, Endpoint::Http { .. })
            | (Self::Cursor, Endpoint::Stdio { .. } | Endpoint::Http { .. }) => return None,
        };
        Some(words)
    }

    pub(super) fn notes(self, endpoint: &Endpoint) -> Vec<String> {
        let title = self.title();
        match (self, endpoint) {
            (_, Endpoint::Stdio { agent, .. }) => {
                let acts = match agent {
                    Some(agent) => format!(", and acts as agent `{agent}`"),
                    None => String::new(),
                };
                vec![
                    format!(
                        "restart {title}; it starts the gateway by itself and needs no token{acts}"
                    ),
                    "`drawgate service install` keeps the gateway running without it".to_owned(),
                ]
            }
            (Self::Vscode, Endpoint::Http { .. }) => vec![
                "the gateway must be running: `drawgate serve`".to_owned(),
                format!("{title} asks for the token once and keeps it in its own secret storage"),
            ],
            (
                Self::Claude | Self::Codex | Self::Gemini | Self::Cursor,
                Endpoint::Http { agent, .. },
            ) => {
                let whose = match agent {
                    Some(agent) => format!("the token of `{agent}`"),
                    None => "an agent's token".to_owned(),
                };
                vec![
                    "the gateway must be running: `drawgate serve`".to_owned(),
                    format!(
                        "set `{TOKEN_VARIABLE}` to {whose}, from `drawgate agents add`, where \
                     {title} is started"
                    ),
                ]
            }
        }
    }
}

fn token_input(name: &str) -> Value {
    json!({
        "type": "promptString",
        "id": format!("{name}-token"),
        "description": "Token for Drawgate",
        "password": true,
    })
}

fn words(start: &[&str], endpoint: &Endpoint) -> String {
    let mut line = start.join(" ");
    if let Endpoint::Stdio { program, args, .. } = endpoint {
        for word in std::iter::once(program).chain(args) {
            line.push(' ');
            line.push_str(&quoted(word));
        }
    }
    line
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
