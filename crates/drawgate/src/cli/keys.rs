//! `drawgate keys`: which SSH keys let packs and agents in.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use drawgate_host::user_files;
use serde::Serialize;
use serde_json::json;

use super::Context;
use super::backend::Backend;
use super::exit::Exit;
use crate::cli::table::{cut, spare, whole};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{
    AddKey, GatewayKey, KeyListView, KeyOwner, KeyView, RemoveKeys, Status,
};
use drawgate_runtime::peers::read_key;

/// No file with one public key is longer.
const MAX_KEY: u64 = 64 * 1024;

#[derive(Debug, clap::Subcommand)]
pub(super) enum KeysCommand {
    /// Authorise an SSH key for a pack or an agent; takes effect immediately
    Add(AddArgs),
    /// List authorised keys, and the lines of their file that can't be used
    List,
    /// Remove keys; connections that use them close immediately
    Remove(RemoveArgs),
    /// Show the gateway's own key, by which packs and agents recognise it
    Server,
}

/// Whose key it is.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(super) struct KeyOwnerArgs {
    /// The key of a pack, which offers tools
    #[arg(long, value_name = "NAME")]
    pack: Option<String>,
    /// The key of an agent, which calls tools
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    /// The file with the public key, or the key itself; `-` or nothing for standard input
    key: Option<String>,
    #[command(flatten)]
    whose: KeyOwnerArgs,
    /// The names of tools that the pack may offer, with `*` for any run of characters; repeat for
    /// more [default: `*`]
    #[arg(long, value_name = "PATTERN")]
    tools: Vec<String>,
    /// What the agent may hold, or what callers of the pack's tools need; repeat for more
    #[arg(long = "capability", value_name = "CAPABILITY")]
    capabilities: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    /// The key: its fingerprint (`SHA256:…`), the file with the public key, or the key itself
    key: Option<String>,
    #[command(flatten)]
    whose: KeyOwnerArgs,
}

pub(super) async fn run(command: KeysCommand, context: Context) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn perform(command: KeysCommand, context: &Context, backend: &Backend) -> anyhow::Result<()> {
    match command {
        KeysCommand::Add(args) => add(args, context, backend).await,
        KeysCommand::List => list(context, backend).await,
        KeysCommand::Remove(args) => remove(args, context, backend).await,
        KeysCommand::Server => {
            let server: GatewayKey = backend.get("/keys/server").await?;
            context.out.either(&server, || server.fingerprint.clone())
        }
    }
}

impl KeyOwnerArgs {
    fn read(self) -> Option<KeyOwner> {
        let pack = self.pack.map(|name| KeyOwner { purpose: "pack".to_owned(), name });
        pack.or_else(|| self.agent.map(|name| KeyOwner { purpose: "agent".to_owned(), name }))
    }
}

async fn add(args: AddArgs, context: &Context, backend: &Backend) -> anyhow::Result<()> {
    let whose =
        args.whose.read().context("say whose key it is: `--pack NAME` or `--agent NAME`")?;
    let is_pack = whose.purpose == "pack";
    if !is_pack && !args.tools.is_empty() {
        let wrong = "`--tools` is for packs; what an agent may hold is `--capability CAPABILITY`";
        return Err(Exit::Usage.error(wrong));
    }
    let takes_any = is_pack && args.tools.is_empty();
    let tools = if takes_any { vec!["*".to_owned()] } else { args.tools };
    let key = key_text(args.key.as_deref())?;
    let new = AddKey { whose, tools, capabilities: args.capabilities, key };
    let added: KeyView = backend.post("/keys", &new).await?;
    let GatewayKey { fingerprint: server, .. } = backend.get("/keys/server").await?;
    let address = address(context, backend).await?;
    let report = Added { key: &added, server: &server };
    context.out.either(&report, || added_text(&added, takes_any, &address, &server))
}

/// A key that was added, and the gateway's own.
#[derive(Serialize)]
struct Added<'a> {
    #[serde(flatten)]
    key: &'a KeyView,
    server: &'a str,
}

/// Where the gateway listens, or would.
async fn address(context: &Context, backend: &Backend) -> anyhow::Result<String> {
    let status: Status = backend.get("/status").await?;
    let scheme = if context.loaded.config.server.tls.is_some() { "https" } else { "http" };
    Ok(match status.endpoint {
        Some(endpoint) => endpoint.trim_end_matches("/mcp").to_owned(),
        None => format!("{scheme}://{}", context.listen),
    })
}

/// What is in force now, and what to do next.
fn added_text(added: &KeyView, takes_any: bool, address: &str, server: &str) -> String {
    let KeyView { purpose, name, tools, capabilities, fingerprint, .. } = added;
    let mut lines = vec![format!("{purpose} `{name}` may connect with the key {fingerprint}")];
    let held = capabilities.join(" ");
    if purpose == "pack" {
        let why = if takes_any { "; `--tools PATTERN` would limit it" } else { "" };
        lines.push(format!("it may offer tools named {tools}{why}"));
        if !held.is_empty() {
            lines.push(format!("callers of its tools need {held}"));
        }
    } else if held.is_empty() {
        lines.push("it holds no capability; `--capability CAPABILITY` would give it some".into());
    } else {
        lines.push(format!("it may hold {held}"));
    }
    lines.push(format!(
        "next: start it with the private key, the address {address} and, for it to know this gateway by, {server}"
    ));
    lines.join("\n")
}

async fn list(context: &Context, backend: &Backend) -> anyhow::Result<()> {
    let keys: KeyListView = backend.get("/keys").await?;
    let rows = keys.keys.iter().map(|key| {
        vec![
            key.purpose.clone(),
            key.name.clone(),
            key.tools.clone(),
            key.capabilities.join(" "),
            key.fingerprint.clone(),
            key.comment.clone(),
        ]
    });
    let columns = [
        whole("for"),
        whole("name"),
        cut("tools"),
        cut("capabilities"),
        whole("key"),
        spare("comment"),
    ];
    let empty = "no keys yet; `drawgate keys add --pack NAME FILE.pub` adds one";
    context.out.table(&keys, &columns, &rows.collect::<Vec<_>>(), empty)?;
    are_ok(&keys);
    Ok(())
}

/// Whether nothing is wrong with the list; says on standard error what is.
pub(super) fn are_ok(keys: &KeyListView) -> bool {
    let complaints = complaints(keys);
    for complaint in &complaints {
        notice!("drawgate: {complaint}");
    }
    complaints.is_empty()
}

fn complaints(keys: &KeyListView) -> Vec<String> {
    let problem = keys.problem.iter().map(|problem| format!("no key counts: {problem}"));
    let faults = keys.faults.iter().map(|fault| {
        format!("`{}`, line {} does not count: {}", keys.file, fault.line, fault.reason)
    });
    problem.chain(faults).collect()
}

async fn remove(args: RemoveArgs, context: &Context, backend: &Backend) -> anyhow::Result<()> {
    let fingerprint = args.key.as_deref().map(fingerprint).transpose()?;
    let which = RemoveKeys { whose: args.whose.read(), fingerprint };
    if which.whose.is_none() && which.fingerprint.is_none() {
        bail!("say which key: its fingerprint or file, `--pack NAME` or `--agent NAME`");
    }
    let gone: Vec<KeyView> = backend.post("/keys/remove", &which).await?;
    context.out.either(&json!({ "removed": gone }), || {
        let lines = gone
            .iter()
            .map(|key| format!("removed {} of {} `{}`", key.fingerprint, key.purpose, key.name));
        lines.collect::<Vec<_>>().join("\n")
    })
}

fn fingerprint(key: &str) -> anyhow::Result<String> {
    if key.starts_with("SHA256:") {
        return Ok(key.to_owned());
    }
    let key = read_key(&key_text(Some(key))?)?;
    Ok(key.fingerprint(ssh_key::HashAlg::Sha256).to_string())
}

/// One public key: from a file, from standard input, or as it was written on the command line.
fn key_text(given: Option<&str>) -> anyhow::Result<String> {
    let text = match given {
        None | Some("-") => read_limited(std::io::stdin()).context("standard input")?,
        Some(text) if text.contains([' ', '\t']) && !Path::new(text).exists() => text.to_owned(),
        Some(file) => {
            let opened = user_files::open(Path::new(file)).and_then(read_limited);
            opened.map_err(|error| unreadable(file, error))?
        }
    };
    let is_key = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let mut lines = text.lines().map(str::trim).filter(is_key);
    match (lines.next(), lines.next()) {
        (Some(line), None) => Ok(line.to_owned()),
        // The judge of keys says it better.
        (Some(first), Some(_)) if first.contains("PRIVATE KEY") => Ok(first.to_owned()),
        (Some(_), Some(_)) => bail!("there is more than one key; add them one by one"),
        (None, _) => bail!("there is no key; give the file that ends in `.pub`"),
    }
}

fn unreadable(file: &str, error: std::io::Error) -> anyhow::Error {
    let private = file.strip_suffix(".pub").unwrap_or(file);
    let step = match error.kind() {
        ErrorKind::NotFound => format!(" (`ssh-keygen -t ed25519 -f {private}` makes a pair)"),
        _ => String::new(),
    };
    let message = format!("`{file}` can't be read; give the file of a public key{step}");
    anyhow::Error::new(error).context(message)
}

fn read_limited(source: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    source.take(MAX_KEY).read_to_string(&mut text)?;
    Ok(text)
}
