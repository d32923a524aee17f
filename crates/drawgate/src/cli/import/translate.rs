//! A server of a client's file as a server of the configuration. Secrets become references, and what can't
//! be said safely leaves the server where it is.

use std::path::{Path, PathBuf};

use drawgate_runtime::config::{is_key_shaped, looks_like_secret};
use serde_json::{Map, Value};

use super::super::connect::Folders;
use super::super::secret::{is_private, is_variable};
use super::super::servers::table::NewServer;

/// Keys that say how a server is reached, and are taken over.
const TAKEN: [&str; 17] = [
    "args",
    "bearer_token_env_var",
    "command",
    "cwd",
    "disabled",
    "enabled",
    "env",
    "env_http_headers",
    "env_vars",
    "headers",
    "httpUrl",
    "http_headers",
    "serverUrl",
    "transport",
    "type",
    "url",
    "description",
];

/// A server for the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) server: NewServer,
    /// Variables that the server refers to and that the client's file has the values of.
    pub(super) secrets: Vec<(String, String)>,
    /// What a person should know.
    pub(super) notes: Vec<String>,
}

/// What the words of a file mean.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    home: PathBuf,
    project: PathBuf,
    /// Gemini CLI's `url` is that of the older HTTP transport, and `$NAME` a variable.
    is_gemini: bool,
}

impl Surroundings {
    pub(super) fn of(file: &Path, folders: &Folders) -> Self {
        let is_gemini = file.parent().is_some_and(|folder| folder.ends_with(".gemini"));
        Self { home: folders.home.clone(), project: folders.project.clone(), is_gemini }
    }
}

/// Translates a server; or says why it stays where it is.
pub(super) fn translate(
    name: &str,
    entry: &Map<String, Value>,
    surroundings: &Surroundings,
) -> Result<Translated, String> {
    let server = NewServer { name: name.to_owned(), ..NewServer::default() };
    let done = Translated { server, ..Translated::default() };
    let mut it = Translator { entry, surroundings, done };
    it.done.server.is_disabled = entry.get("disabled") == Some(&Value::Bool(true))
        || entry.get("enabled") == Some(&Value::Bool(false));
    if entry.contains_key("command") {
        it.program()?;
    } else {
        it.address()?;
    }
    let others = entry.keys().filter(|key| !TAKEN.contains(&key.as_str()));
    let others: Vec<String> = others.map(|key| format!("`{}`", key.escape_debug())).collect();
    if !others.is_empty() {
        it.done.notes.push(format!("not taken over: {}", others.join(", ")));
    }
    Ok(it.done)
}

struct Translator<'a> {
    entry: &'a Map<String, Value>,
    surroundings: &'a Surroundings,
    done: Translated,
}

impl Translator<'_> {
    fn program(&mut self) -> Result<(), String> {
        let command = text(self.entry, "command")?.unwrap_or_default();
        let mut words: Vec<String> = vec![command];
        match self.entry.get("args") {
            None | Some(Value::Null) => {
                // Some clients split it as a shell does.
                if !words.iter().any(|word| word.contains(['/', '"', '\''])) {
                    words = words
                        .iter()
                        .flat_map(|word| word.split_whitespace())
                        .map(str::to_owned)
                        .collect();
                }
            }
            Some(Value::Array(args)) => {
                for arg in args {
                    words.push(plain(arg).ok_or("`args` are not texts")?);
                }
            }
            Some(_) => return Err("`args` is not a list".to_owned()),
        }
        refuse_secrets(&words)?;
        let folder = self.folder()?;
        let words: Vec<String> =
            words.iter().map(|word| self.word("args", word, &folder)).collect::<Result<_, _>>()?;
        let (command, args) =
            words.split_first().filter(|(it, _)| !it.is_empty()).ok_or("`command` is empty")?;
        let name = Path::new(command).file_name().and_then(|name| name.to_str());
        if name == Some("drawgate") && args.iter().any(|arg| arg == "mcp") {
            return Err("it is Drawgate itself".to_owned());
        }
        self.done.server.command = Some(command.clone());
        self.done.server.args = args.to_vec();
        for (key, value) in pairs(self.entry, "env")? {
            let setting = self.setting(&key, &value)?;
            self.done.server.env.push((key, setting));
        }
        for variable in self.entry.get("env_vars").and_then(Value::as_array).into_iter().flatten() {
            let variable = variable.as_str().ok_or("`env_vars` are not names")?;
            self.done.server.env.push((variable.to_owned(), format!("env:{variable}")));
        }
        for (key, value) in self.done.server.take_env_prefix() {
            let setting = self.setting(&key, &value)?;
            let moved = self.done.server.env.iter_mut().filter(|(name, _)| *name == key);
            moved.for_each(|(_, value)| value.clone_from(&setting));
        }
        Ok(())
    }

    /// The folder that relative paths start at. The server does not start in it: there it could write.
    fn folder(&mut self) -> Result<PathBuf, String> {
        let Some(cwd) = text(self.entry, "cwd")? else {
            return Ok(self.surroundings.project.clone());
        };
        let folder = self.surroundings.project.join(self.word("cwd", &cwd, Path::new("/"))?);
        self.done.notes.push(format!(
            "it starts in a folder of its own; set `working_dir = \"{}\"` if it needs that one, which it may then write",
            folder.display()
        ));
        Ok(folder)
    }

    /// A word of a command line, with the paths that clients fill in.
    fn word(&self, key: &str, word: &str, folder: &Path) -> Result<String, String> {
        let expanded = self.expand(word)?;
        if let Some(variable) = expanded.variables.first() {
            return Err(format!(
                "`{key}` refers to the variable `{variable}`, and other users can read command lines; pass it in `env`"
            ));
        }
        let word = expanded.plain;
        let is_relative = matches!(word.as_str(), "." | "..")
            || word.starts_with("./")
            || word.starts_with("../");
        Ok(if is_relative { folder.join(word).to_string_lossy().into_owned() } else { word })
    }

    fn address(&mut self) -> Result<(), String> {
        let mut found = None;
        for key in ["httpUrl", "url", "serverUrl"] {
            found = found.or(text(self.entry, key)?.map(|url| (key, url)));
        }
        let (key, url) = found.ok_or("it has neither `command` nor `url`")?;
        let expanded = self.expand(&url)?;
        if !expanded.variables.is_empty() || has_secret(&expanded.plain) {
            return Err("its address holds a secret or refers to a variable; send it in a header"
                .to_owned());
        }
        let kind = match text(self.entry, "type")? {
            Some(kind) => Some(kind),
            None => text(self.entry, "transport")?,
        };
        let url = expanded.plain;
        let is_websocket = url.starts_with("ws://") || url.starts_with("wss://");
        self.done.server.transport = match kind.as_deref() {
            Some("sse") => Some("sse"),
            Some("ws" | "websocket") => Some("websocket"),
            Some("http" | "streamable-http" | "streamableHttp" | "streamable_http" | "remote") => {
                None
            }
            Some(other) => return Err(format!("its type `{}` is not known", other.escape_debug())),
            None if is_websocket => Some("websocket"),
            None => (self.surroundings.is_gemini && key == "url").then_some("sse"),
        };
        self.done.server.url = Some(url);
        self.headers()
    }

    fn headers(&mut self) -> Result<(), String> {
        for key in ["headers", "http_headers"] {
            for (header, value) in pairs(self.entry, key)? {
                let setting = self.setting(&header, &value)?;
                self.done.server.headers.push((header, setting));
            }
        }
        for (header, variable) in pairs(self.entry, "env_http_headers")? {
            self.done.server.headers.push((header, format!("env:{variable}")));
        }
        if let Some(variable) = text(self.entry, "bearer_token_env_var")? {
            let header = "Authorization".to_owned();
            let setting = self.setting(&header, &format!("Bearer ${{{variable}}}"))?;
            self.done.server.headers.push((header, setting));
        }
        Ok(())
    }

    /// A value of `env` or `headers`: a reference wherever it is one, or may be a secret.
    fn setting(&mut self, key: &str, value: &str) -> Result<String, String> {
        let Expanded { plain, whole, shell, variables, is_asked } = self.expand(value)?;
        if let Some(variable) = whole {
            return Ok(format!("env:{variable}"));
        }
        let variable = variable_name(&self.done.server.name, key);
        if is_asked {
            self.done.notes.push(format!(
                "set `{variable}` where the gateway starts; the client asked for it"
            ));
        } else if !variables.is_empty() {
            // A reference is the whole value.
            self.done
                .notes
                .push(format!("where the gateway starts: `export {variable}=\"{shell}\"`"));
        } else if is_private(key, &plain) {
            self.done.secrets.push((variable.clone(), plain));
        } else {
            return Ok(plain);
        }
        Ok(format!("env:{variable}"))
    }

    /// Fills in the paths that clients know, and finds the variables.
    fn expand(&self, text: &str) -> Result<Expanded, String> {
        let mut done = Expanded::default();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
            done.push(before);
            let after = from.strip_prefix('$').unwrap_or_default();
            rest = self.expand_variable(after, &mut done)?;
        }
        done.push(rest);
        let only = match done.variables.as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        };
        done.whole =
            only.filter(|only| done.plain.is_empty() && done.shell == format!("${{{only}}}"));
        Ok(done)
    }

    /// Fills in the variable that follows a `$`; returns what comes after it.
    fn expand_variable<'a>(&self, after: &'a str, done: &mut Expanded) -> Result<&'a str, String> {
        if let Some((inner, rest)) = after.strip_prefix('{').and_then(|it| it.split_once('}')) {
            self.fill_in(inner, done)?;
            return Ok(rest);
        }
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) =
            after.split_at_checked(end.unwrap_or(after.len())).unwrap_or((after, ""));
        if self.surroundings.is_gemini && is_variable(name) {
            self.fill_in(name, done)?;
            return Ok(rest);
        }
        done.push("$");
        Ok(after)
    }

    fn fill_in(&self, inner: &str, done: &mut Expanded) -> Result<(), String> {
        let Surroundings { home, project, .. } = self.surroundings;
        let name = inner.strip_prefix("env:").unwrap_or(inner);
        let (variable, default) = name.split_once(":-").unwrap_or((name, ""));
        match name {
            "workspaceFolder" => done.push(&project.to_string_lossy()),
            "userHome" | "HOME" => done.push(&home.to_string_lossy()),
            _ if name.starts_with("input:") => done.is_asked = true,
            _ if is_variable(variable) => {
                // A default may hold what a shell obeys.
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
                if !default.chars().all(is_plain) {
                    return Err(format!("the default of `{variable}` can't be imported"));
                }
                let default =
                    if name.contains(":-") { format!(":-{default}") } else { String::new() };
                done.shell.extend(["${", variable, &default, "}"]);
                done.variables.push(variable.to_owned());
            }
            _ => return Err(format!("`${{{}}}` is not known here", inner.escape_debug())),
        }
        Ok(())
    }
}

/// A value with its variables.
#[derive(Debug, Default)]
struct Expanded {
    /// The text without them.
    plain: String,
    /// The variable that it is as a whole.
    whole: Option<String>,
    /// The text as a shell reads it between double quotes.
    shell: String,
    variables: Vec<String>,
    /// The client asks its user for a part of it.
    is_asked: bool,
}

impl Expanded {
    fn push(&mut self, text: &str) {
        self.plain.push_str(text);
        for c in text.chars() {
            if matches!(c, '$' | '`' | '"' | '\\') {
                self.shell.push('\\');
            }
            self.shell.push(c);
        }
    }
}

fn text(entry: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match entry.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` is not a text")),
    }
}

/// The members of an object of texts, numbers and truth values.
fn pairs(entry: &Map<String, Value>, key: &str) -> Result<Vec<(String, String)>, String> {
    let found = match entry.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(found)) => found,
        Some(_) => return Err(format!("`{key}` is not an object")),
    };
    let present = found.iter().filter(|(_, value)| !value.is_null());
    let pair = |(name, value): (&String, &Value)| match plain(value) {
        Some(value) => Ok((name.clone(), value)),
        None => Err(format!("`{key}` has a value that is not a text")),
    };
    present.map(pair).collect()
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_true) => Some(is_true.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Secrets in a command line can't become references, so that the server stays where it is.
fn refuse_secrets(words: &[String]) -> Result<(), String> {
    let named = words.windows(2).any(|pair| match pair {
        [option, value] => option.starts_with('-') && is_named_secret(option, value),
        _ => false,
    });
    let inside = words.iter().any(|word| {
        let (name, value) = word.split_once(['=', ':']).unwrap_or(("", word));
        is_named_secret(name, value.trim_start())
            || word.split([' ', '=', ':', ',']).any(is_key_shaped)
            || has_secret(word)
    });
    if named || inside {
        return Err(
            "its command line holds a secret, which other users can read; pass it in `env`"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether a value has a secret's name, and is not the name of a variable, a path or another option.
fn is_named_secret(name: &str, value: &str) -> bool {
    !value.starts_with(['$', '/', '.', '-']) && looks_like_secret(name, value)
}

/// Whether an address carries a password, or a key in its path or query.
fn has_secret(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@')
        || rest.split(['/', '?', '&', '#']).any(|part| {
            let (name, value) = part.split_once('=').unwrap_or(("", part));
            is_key_shaped(value) || (!value.is_empty() && is_private(name, value))
        })
}

/// `SERVER_KEY`, or the key alone where it begins with the server's name.
fn variable_name(server: &str, key: &str) -> String {
    let word = |text: &str| -> String {
        let allowed =
            |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        text.chars().map(allowed).collect()
    };
    let (server, key) = (word(server), word(key));
    let name = if key.starts_with(&server) { key } else { format!("{server}_{key}") };
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}
