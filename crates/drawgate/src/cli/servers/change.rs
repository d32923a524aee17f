//! `drawgate servers add`, `remove`, `enable`, `disable`, `restart`: the configuration is changed, and
//! what came of it is said.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use drawgate_core::model::SourceId;
use drawgate_core::registry::SourceState;
use drawgate_host::egress::HostRule;
use drawgate_host::sandbox::Profile;
use drawgate_runtime::config::{Setting, Transport, is_key_shaped};
use drawgate_runtime::operations::ServerReport;
use drawgate_runtime::packages::PinnedPackage;
use serde_json::{Value, json};
use toml_edit::DocumentMut;

use super::super::backend::{Backend, part};
use super::super::edit::{ConfigFile, Edit, Outcome};
use super::super::exit::{Exit, OrUsage as _};
use super::super::output::Consent;
use super::super::packages;
use super::super::progress::Progress;
use super::super::running::Running;
use super::super::secret;
use super::super::{Context, doctor, grants};
use super::table::{self, NewServer};
use super::{DIAGNOSIS, allow, fetch, needs};
use crate::surface::control::Done;

const PAUSE: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  drawgate servers add files -- npx -y @modelcontextprotocol/server-filesystem /home/me/notes
  drawgate servers add search --url https://search.example/mcp --header Authorization=env:SEARCH_AUTH
  drawgate servers add tickets --env API_KEY=env:TICKETS_KEY --allow-host api.tickets.example -- tickets-mcp

A secret never stands in a command line, where other users of the machine can read it. Store it with
`drawgate secrets set VARIABLE`, or put it into a variable of the gateway's environment, and write `env:`
and the variable's name in its place.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in super::super) struct AddArgs {
    /// The name: its tools appear as `NAME__tool`
    name: String,
    /// The program to start, with its arguments; paths that begin with `.` are made absolute
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url")]
    command: Vec<String>,
    /// The address of a server that runs elsewhere: `http`, `https`, `ws` or `wss`
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// `sse` for the older HTTP transport [default: by the address]
    #[arg(long, value_name = "TRANSPORT", value_parser = transport, requires = "url")]
    transport: Option<Transport>,
    /// A variable of the program's environment; a value without `env:` is written into the configuration as
    /// it is; may be repeated
    #[arg(long, value_name = "NAME=env:VARIABLE", requires = "command")]
    env: Vec<String>,
    /// A header that is sent with each request; may be repeated
    #[arg(long, value_name = "NAME=env:VARIABLE", requires = "url")]
    header: Vec<String>,
    /// How far the program is trusted: `strict`, `workspace`, `network` or `none`
    #[arg(long, value_name = "PROFILE", requires = "command")]
    sandbox: Option<Profile>,
    /// A file or folder that the program may read; may be repeated
    #[arg(long, value_name = "PATH", requires = "command")]
    read: Vec<std::path::PathBuf>,
    /// A folder that the program may write; may be repeated
    #[arg(long, value_name = "DIR", requires = "command")]
    write: Vec<std::path::PathBuf>,
    /// A host that the program may reach, such as `api.example.com`, or `*`; implies
    /// `--sandbox network`; may be repeated
    #[arg(long, value_name = "HOST", requires = "command")]
    allow_host: Vec<String>,
    /// Insist on a terminal, and a gateway that runs, where what its sandbox refuses the server is offered;
    /// without it that is done where it can be, and said where not
    #[arg(long, requires = "command")]
    ask: bool,
    /// For `npx`, `uvx` and the like: don't fetch and pin the package; the runner downloads it at each
    /// start, for which it needs `--allow-host`
    #[arg(long, requires = "command")]
    no_fetch: bool,
}

pub(super) async fn add(args: &AddArgs, context: Context) -> anyhow::Result<ExitCode> {
    let mut server = args.server().or_usage()?;
    let file = ConfigFile::find(&context).await?;
    file.prepare(|document| server.add_to(document))?;
    if args.ask && file.running().is_none() {
        bail!(
            "`--ask` needs a running gateway, which tries the server; `drawgate serve` starts one"
        );
    }
    let asks = args.ask || Consent::new(false, context.out) == Consent::Asked;
    if asks && server.command.is_some() {
        server.write.extend(allow::folders_to_write(&context, &server).await?);
    }
    let mut place = None;
    if !args.no_fetch
        && let Some((id, fetched)) = fetch_shown(&server, &context).await?
    {
        place = needs::place(&server, &fetched, &context.data);
        let shown = packages::described(&fetched);
        packages::pin(&file, &context.data, BTreeMap::from([(id, fetched)])).await?;
        notice!("drawgate: pinned {shown}");
    }
    note_grants(&args.name, &context).await;
    let change = |document: &mut DocumentMut| server.add_to(document);
    let changed = Changed::make(&context, &args.name, "added", change).await?;
    if let Some(note) = in_the_clear(&server, changed.file.path()) {
        notice!("drawgate: {note}");
    }
    if asks && server.command.is_some() && changed.file.running().is_some() {
        context.out.text(&changed.text())?;
        if let Some(note) = &place {
            notice!("drawgate: `{}`: {note}", server.name);
        }
        return allow::ask(&context, &args.name).await;
    }
    let done = changed.report_server(&context).await?;
    if !context.out.is_json() {
        for note in needs::notes(&server).into_iter().chain(place) {
            notice!("drawgate: `{}`: {note}", server.name);
        }
        if let Some(note) = needs::without_network([&server]) {
            notice!("drawgate: {note}");
        }
    }
    Ok(done)
}

/// Says which grants there are for the name, where a gateway runs that knows.
async fn note_grants(name: &str, context: &Context) {
    if let Some(running) = Running::find(&context.data).await {
        grants::note_held(name, &Backend::Running(running)).await;
    }
}

/// Says which values stand in the configuration as they are.
fn in_the_clear(server: &NewServer, file: &Path) -> Option<String> {
    let all = server.env.iter().chain(&server.headers);
    let plain = all.filter(|(_, value)| Setting::new(value.as_str()).variable().is_none());
    let names: Vec<&str> = plain.map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "`{}`: written into `{}` as given, readable in the file; for a secret: `drawgate secrets set NAME`, and `NAME = \"env:NAME\"` there",
            names.join("`, `"),
            file.display()
        )
    })
}

/// Fetches the package of the server, if it has one, and shows that.
async fn fetch_shown(
    server: &NewServer,
    context: &Context,
) -> anyhow::Result<Option<(SourceId, PinnedPackage)>> {
    let _progress = Progress::new(format!("fetching the package of `{}`", server.name));
    fetch::before_adding(server, context).await
}

pub(super) async fn remove(name: &str, context: Context) -> anyhow::Result<ExitCode> {
    let _progress = Progress::new(format!("removing `{name}`"));
    let change = |document: &mut DocumentMut| table::remove(document, name);
    let changed = Changed::make(&context, name, "removed", change).await?;
    packages::forget(&changed.file, &context.data, name).await?;
    note_grants(name, &context).await;
    changed.report(&context)
}

pub(super) async fn set_enabled(
    name: &str,
    is_enabled: bool,
    context: Context,
) -> anyhow::Result<ExitCode> {
    let change =
        |document: &mut DocumentMut| table::set_enabled(document, name, is_enabled).map(drop);
    let done = if is_enabled { "enabled" } else { "disabled" };
    let changed = Changed::make(&context, name, done, change).await?;
    if is_enabled { changed.report_server(&context).await } else { changed.report(&context) }
}

pub(super) async fn restart(name: &str, context: Context) -> anyhow::Result<ExitCode> {
    let Some(running) = Running::find(&context.data).await else {
        return Err(Exit::Unavailable.error("no gateway is running; `drawgate serve` starts one"));
    };
    let backend = Backend::Running(running);
    backend.post::<Done>(&format!("/servers/{}/restart", part(name)), &()).await?;
    report(&settled(&backend, name).await?, &context)
}

/// Says how a server is.
pub(super) fn report(server: &ServerReport, context: &Context) -> anyhow::Result<ExitCode> {
    context.out.either(server, || explained(server))?;
    Ok(exit_code(Some(server)))
}

/// A change of the configuration that was made.
pub(super) struct Changed {
    name: String,
    done: &'static str,
    file: ConfigFile,
    edit: Edit,
    outcome: Outcome,
}

impl Changed {
    pub(super) async fn make(
        context: &Context,
        name: &str,
        done: &'static str,
        change: impl FnOnce(&mut DocumentMut) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let file = ConfigFile::find(context).await?;
        let edit = file.write(change).await?;
        for warning in &edit.warnings {
            notice!("drawgate: {warning}");
        }
        let outcome = file.outcome(&edit).await?;
        Ok(Self { name: name.to_owned(), done, file, edit, outcome })
    }

    /// Says what was done, and how the server does once it has started or failed.
    pub(super) async fn report_server(self, context: &Context) -> anyhow::Result<ExitCode> {
        let Some(running) = self.file.running() else { return self.report(context) };
        let server = settled(&Backend::Running(running.clone()), &self.name).await?;
        let text = || format!("{}\n{}", self.text(), explained(&server));
        context.out.either(&self.json(Some(&server)), text)?;
        Ok(exit_code(Some(&server)))
    }

    fn report(&self, context: &Context) -> anyhow::Result<ExitCode> {
        context.out.either(&self.json(None), || self.text())?;
        Ok(ExitCode::SUCCESS)
    }

    fn text(&self) -> String {
        let (name, path) = (&self.name, self.file.path());
        let what = match (self.edit.is_new, self.edit.is_change) {
            (true, true) => {
                format!("{}: `{name}`, in the new file `{}`", self.done, path.display())
            }
            (false, true) => format!("{}: `{name}`, in `{}`", self.done, path.display()),
            (_, false) => format!("`{name}` is {} already, in `{}`", self.done, path.display()),
        };
        format!("{what}; {}", self.outcome.text(&self.file))
    }

    fn json(&self, server: Option<&ServerReport>) -> Value {
        json!({
            "server": self.name,
            "file": self.file.path(),
            "changed": self.edit.is_change,
            "outcome": self.outcome.as_str(),
            "state": server,
        })
    }
}

/// How a server is, and what to paste if it lacks something.
pub(in super::super) fn explained(server: &ServerReport) -> String {
    let refused = allow::lines(server).into_iter().map(|line| format!("\n  {line}"));
    format!("{}{}", doctor::explain(server), refused.collect::<String>())
}

/// A server that does not work is a failure, though the configuration has it.
fn exit_code(server: Option<&ServerReport>) -> ExitCode {
    if server.is_none_or(doctor::is_ok) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How a server is once it has started or failed to.
pub(in super::super) async fn settled(
    backend: &Backend,
    name: &str,
) -> anyhow::Result<ServerReport> {
    let until = Instant::now() + DIAGNOSIS;
    let _progress = Progress::new(format!("waiting for `{name}` to start"));
    loop {
        let all: Vec<ServerReport> = backend.get("/servers").await?;
        let server = all.into_iter().find(|server| server.source.status.id.as_str() == name);
        let server = server.with_context(|| format!("the gateway does not know `{name}`"))?;
        if server.source.status.state != SourceState::Starting || Instant::now() > until {
            return Ok(server);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl AddArgs {
    fn server(&self) -> anyhow::Result<NewServer> {
        let (command, args) = match self.command.split_first() {
            Some((command, args)) => (Some(from_here(command)?), args),
            None => (None, [].as_slice()),
        };
        for arg in args {
            if is_key_shaped(arg.rsplit('=').next().unwrap_or(arg)) {
                bail!(
                    "an argument looks like a secret, and other users can read command lines; pass it by `--env NAME=env:VARIABLE`, and replace the secret if it is one"
                );
            }
        }
        let sandbox = self.sandbox.or((!self.allow_host.is_empty()).then_some(Profile::Network));
        for host in &self.allow_host {
            host.parse::<HostRule>().map_err(|error| anyhow::anyhow!("`{host}`: {error}"))?;
        }
        SourceId::new(&self.name)?;
        let mut server = NewServer {
            name: self.name.clone(),
            transport: self.url.as_deref().and_then(|url| self.transport_of(url)),
            command,
            args: args.iter().map(|arg| from_here(arg)).collect::<anyhow::Result<_>>()?,
            env: self.env.iter().map(|text| setting("env", text)).collect::<anyhow::Result<_>>()?,
            url: self.url.clone(),
            headers: self
                .header
                .iter()
                .map(|text| setting("header", text))
                .collect::<anyhow::Result<_>>()?,
            sandbox,
            read: self.read.iter().map(|path| absolute(path)).collect::<anyhow::Result<_>>()?,
            write: self.write.iter().map(|path| absolute(path)).collect::<anyhow::Result<_>>()?,
            hosts: self.allow_host.clone(),
            ..NewServer::default()
        };
        for (name, value) in server.take_env_prefix() {
            secret::check("env", &name, &value).map_err(anyhow::Error::msg)?;
        }
        Ok(server)
    }

    fn transport_of(&self, url: &str) -> Option<&'static str> {
        let is_websocket = url.starts_with("ws://") || url.starts_with("wss://");
        match self.transport {
            Some(transport) => Some(transport.as_str()),
            None => is_websocket.then_some(Transport::Websocket.as_str()),
        }
    }
}

/// `NAME=VALUE`, where a value that may be a secret must be a reference.
fn setting(option: &str, text: &str) -> anyhow::Result<(String, String)> {
    let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        // The text may be a secret that lost its name.
        bail!("write `--{option} NAME=env:VARIABLE`");
    };
    let name = name.trim();
    secret::check(option, name, value).map_err(anyhow::Error::msg)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A word of a command line as it is meant in the current folder.
fn from_here(word: &str) -> anyhow::Result<String> {
    let is_relative =
        matches!(word, "." | "..") || word.starts_with("./") || word.starts_with("../");
    if is_relative { absolute(Path::new(word)) } else { Ok(word.to_owned()) }
}

pub(super) fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path)?;
    let text = path.to_str().with_context(|| format!("`{}` is not UTF-8", path.display()))?;
    Ok(text.to_owned())
}

fn transport(text: &str) -> Result<Transport, String> {
    serde_json::from_value(json!(text))
        .map_err(|_| "use `streamable_http`, `sse` or `websocket`".to_owned())
}
