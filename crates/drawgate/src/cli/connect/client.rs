//! What each client's configuration looks like.

use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::super::client_files::Format;
use super::{Endpoint, Folders, TOKEN_VARIABLE};

/// A program that speaks MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Client {
    /// Claude Code: `.mcp.json` in the project, or `~/.claude.json`.
    Claude,
    /// Claude Desktop: `~/.config/Claude/claude_desktop_config.json`.
    ClaudeDesktop,
    /// Codex: `~/.codex/config.toml`, or `.codex/config.toml` in the project.
    Codex,
    /// Gemini CLI: `~/.gemini/settings.json`, or `.gemini/settings.json` in the project.
    Gemini,
    /// Cursor: `.cursor/mcp.json` in the project, or `~/.cursor/mcp.json`.
    Cursor,
    /// Visual Studio Code: `.vscode/mcp.json` in the project, or `~/.config/Code/User/mcp.json`.
    Vscode,
    /// Windsurf: `~/.codeium/windsurf/mcp_config.json`.
    Windsurf,
}

/// Where a client's entry counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// In every folder, for this user.
    User,
    /// In the current folder, for everyone who works on the project.
    Project,
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

impl Client {
    /// The client's name for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Cursor => "Cursor",
            Self::Vscode => "Visual Studio Code",
            Self::Windsurf => "Windsurf",
        }
    }

    /// The scope to use: the one that was asked for, or the one in which people mostly use the client.
    pub(super) fn scope(self, wanted: Option<Scope>) -> anyhow::Result<Scope> {
        let (usual, is_only) = match self {
            Self::Claude | Self::Cursor | Self::Vscode => (Scope::Project, false),
            Self::Codex | Self::Gemini => (Scope::User, false),
            Self::ClaudeDesktop | Self::Windsurf => (Scope::User, true),
        };
        if is_only && wanted == Some(Scope::Project) {
            bail!("{} has no servers for a project; use `--scope user`", self.title());
        }
        Ok(wanted.unwrap_or(usual))
    }

    /// The scopes that it has files for.
    pub(super) fn scopes(self) -> impl Iterator<Item = Scope> {
        let all = [Scope::Project, Scope::User].into_iter();
        all.filter(move |scope| self.scope(Some(*scope)).is_ok())
    }

    /// The file of a scope on this system.
    pub(super) fn path(self, scope: Scope, folders: &Folders) -> PathBuf {
        let [linux, macos] = self.paths(scope, folders);
        if cfg!(target_os = "macos") { macos } else { linux }
    }

    /// All files in which it keeps servers, for the user and for the project, on Linux and macOS.
    /// `claude` stands for Claude Desktop, too.
    pub(in super::super) fn places(self, folders: &Folders) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> =
            self.scopes().flat_map(|scope| self.paths(scope, folders)).collect();
        if self == Self::Claude {
            places.extend(Self::ClaudeDesktop.paths(Scope::User, folders));
        }
        places.dedup();
        places
    }

    /// The file of a scope on Linux and on macOS.
    fn paths(self, scope: Scope, folders: &Folders) -> [PathBuf; 2] {
        let Folders { home, project } = folders;
        let folder = match scope {
            Scope::User => home,
            Scope::Project => project,
        };
        let same = |path: PathBuf| [path.clone(), path];
        let settings = |file: &str| {
            let linux = home.join(".config").join(file);
            [linux, home.join("Library/Application Support").join(file)]
        };
        match (self, scope) {
            (Self::Claude, Scope::Project) => same(project.join(".mcp.json")),
            (Self::Claude, Scope::User) => same(home.join(".claude.json")),
            (Self::ClaudeDesktop, _) => settings("Claude/claude_desktop_config.json"),
            (Self::Codex, _) => same(folder.join(".codex").join("config.toml")),
            (Self::Gemini, _) => same(folder.join(".gemini").join("settings.json")),
            (Self::Cursor, _) => same(folder.join(".cursor").join("mcp.json")),
            (Self::Vscode, Scope::Project) => same(project.join(".vscode").join("mcp.json")),
            (Self::Vscode, Scope::User) => settings("Code/User/mcp.json"),
            (Self::Windsurf, _) => same(home.join(".codeium/windsurf/mcp_config.json")),
        }
    }

    /// The language of its files.
    pub(super) const fn format(self) -> Format {
        match self {
            Self::Codex => Format::Toml,
            Self::Claude
            | Self::ClaudeDesktop
            | Self::Gemini
            | Self::Cursor
            | Self::Vscode
            | Self::Windsurf => Format::Json,
        }
    }

    /// The object or table that holds all servers.
    pub(super) const fn servers_key(self) -> &'static str {
        match self {
            Self::Codex => "mcp_servers",
            Self::Vscode => "servers",
            Self::Claude | Self::ClaudeDesktop | Self::Gemini | Self::Cursor | Self::Windsurf => {
                "mcpServers"
            }
        }
    }

    pub(super) fn entry(self, name: &str, endpoint: &Endpoint) -> anyhow::Result<Entry> {
        let server = match endpoint {
            Endpoint::Stdio { program, args, .. } => self.stdio_server(program, args),
            Endpoint::Http { url, .. } => self.http_server(name, url)?,
        };
        let (format, servers_key) = (self.format(), self.servers_key());
        let server = server.as_object().cloned().unwrap_or_default();
        let asks = self == Self::Vscode && matches!(endpoint, Endpoint::Http { .. });
        let input = asks.then(|| token_input(name));
        Ok(Entry { format, servers_key, name: name.to_owned(), server, input })
    }

    fn stdio_server(self, program: &str, args: &[String]) -> Value {
        match self {
            Self::Claude | Self::Cursor | Self::Vscode => {
                json!({ "type": "stdio", "command": program, "args": args })
            }
            Self::ClaudeDesktop | Self::Codex | Self::Gemini | Self::Windsurf => {
                json!({ "command": program, "args": args })
            }
        }
    }

    fn http_server(self, name: &str, url: &str) -> anyhow::Result<Value> {
        let bearer = |reference: String| json!({ "Authorization": format!("Bearer {reference}") });
        Ok(match self {
            Self::Claude => {
                let headers = bearer(format!("${{{TOKEN_VARIABLE}}}"));
                json!({ "type": "http", "url": url, "headers": headers })
            }
            Self::ClaudeDesktop => bail!(
                "Claude Desktop's file has programs only, and no addresses; leave out `--http`"
            ),
            Self::Codex => json!({ "url": url, "bearer_token_env_var": TOKEN_VARIABLE }),
            Self::Gemini => {
                json!({ "httpUrl": url, "headers": bearer(format!("${TOKEN_VARIABLE}")) })
            }
            Self::Cursor => {
                json!({ "url": url, "headers": bearer(format!("${{env:{TOKEN_VARIABLE}}}")) })
            }
            Self::Vscode => {
                let headers = bearer(format!("${{input:{}}}", token_id(name)));
                json!({ "type": "http", "url": url, "headers": headers })
            }
            Self::Windsurf => {
                json!({ "serverUrl": url, "headers": bearer(format!("${{env:{TOKEN_VARIABLE}}}")) })
            }
        })
    }

    /// The client's own command that adds the entry.
    pub(super) fn command_line(
        self,
        scope: Scope,
        name: &str,
        endpoint: &Endpoint,
    ) -> Option<String> {
        let shown = scope.as_str();
        let words = match (self, scope, endpoint) {
            (Self::Claude, _, Endpoint::Stdio { .. }) => {
                let add = format!("claude mcp add --transport stdio --scope {shown}");
                words(&[&add, name, "--"], endpoint)
            }
            (Self::Claude, _, Endpoint::Http { url, .. }) => format!(
                "claude mcp add --transport http --scope {shown} {name} {} --header \
                 'Authorization: Bearer ${{{TOKEN_VARIABLE}}}'",
                quoted(url)
            ),
            (Self::Codex, Scope::User, Endpoint::Stdio { .. }) => {
                words(&["codex mcp add", name, "--"], endpoint)
            }
            (Self::Codex, Scope::User, Endpoint::Http { url, .. }) => format!(
                "codex mcp add {name} --url {} --bearer-token-env-var {TOKEN_VARIABLE}",
                quoted(url)
            ),
            (Self::Gemini, _, Endpoint::Http { url, .. }) => format!(
                "gemini mcp add --scope {shown} --transport http --header 'Authorization: Bearer \
                 ${TOKEN_VARIABLE}' {name} {}",
                quoted(url)
            ),
            (Self::Vscode, Scope::User, Endpoint::Stdio { program, args, .. }) => {
                let server = json!({ "name": name, "command": program, "args": args });
                format!("code --add-mcp {}", quoted(&server.to_string()))
            }
            (Self::Codex | Self::Vscode, Scope::Project, _)
            | (Self::Gemini, _, Endpoint::Stdio { .. })
            | (Self::Vscode, Scope::User, Endpoint::Http { .. })
            | (Self::ClaudeDesktop | Self::Cursor | Self::Windsurf, _, _) => return None,
        };
        Some(words)
    }

    /// The client's own command that removes the entry.
    pub(super) fn removal(self, scope: Scope, name: &str) -> Option<String> {
        let shown = scope.as_str();
        match (self, scope) {
            (Self::Claude, _) => Some(format!("claude mcp remove --scope {shown} {name}")),
            (Self::Codex, Scope::User) => Some(format!("codex mcp remove {name}")),
            (Self::Gemini, _) => Some(format!("gemini mcp remove --scope {shown} {name}")),
            (Self::Codex, Scope::Project)
            | (Self::ClaudeDesktop | Self::Cursor | Self::Vscode | Self::Windsurf, _) => None,
        }
    }

    /// What to know about the file itself.
    pub(super) fn note_on_file(self, scope: Scope) -> Option<String> {
        let note = match (self, scope) {
            (Self::Claude, Scope::User) => {
                "Claude Code writes this file while it runs; connect and disconnect it while it does not"
            }
            (Self::Codex, Scope::Project) => "Codex reads this file in projects that it trusts",
            (Self::Codex, Scope::User)
            | (
                Self::Claude
                | Self::ClaudeDesktop
                | Self::Cursor
                | Self::Gemini
                | Self::Vscode
                | Self::Windsurf,
                _,
            ) => return None,
        };
        Some(note.to_owned())
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
                Self::Claude
                | Self::ClaudeDesktop
                | Self::Codex
                | Self::Gemini
                | Self::Cursor
                | Self::Windsurf,
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

impl Scope {
    /// Its name as `--scope` takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// The id of the question for the token.
pub(super) fn token_id(name: &str) -> String {
    format!("{name}-token")
}

fn token_input(name: &str) -> Value {
    json!({
        "type": "promptString",
        "id": token_id(name),
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
