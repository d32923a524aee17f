//! `drawgate servers fetch`: fetches the packages of servers that a package runner starts.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use drawgate_core::model::SourceId;
use drawgate_runtime::packages::{PackageRequest, PinnedPackage, RunnerCommand};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::super::backend::Backend;
use super::super::edit::ConfigFile;
use super::super::packages::{self, Wanted};
use super::super::progress::Progress;
use super::super::{Context, doctor};
use super::change::{explained, settled};
use super::table::NewServer;

#[derive(Debug, clap::Args)]
pub(in super::super) struct FetchArgs {
    /// The server; without one, all that package runners start
    name: Option<String>,
    /// Take the newest versions that the command line allows, instead of those that are pinned
    #[arg(long)]
    update: bool,
}

pub(super) async fn run(args: &FetchArgs, context: Context) -> anyhow::Result<ExitCode> {
    let file = ConfigFile::find(&context).await?;
    let all = requests(&file, args.name.as_deref())?;
    let pinned = file.packages()?;
    let (mut fetched, mut report) = (BTreeMap::new(), Vec::new());
    let progress = Progress::new("looking at the packages");
    for (number, (id, request)) in (1..).zip(&all) {
        progress.say(format!("package {number} of {}, of `{id}`", all.len()));
        let present = pinned.get(id).filter(|pinned| pinned.request == *request);
        let is_there = match present.filter(|_| !args.update) {
            Some(present) => is_intact(&context, id, present).await?,
            None => false,
        };
        if let Some(present) = present.filter(|_| is_there) {
            report.push(shown(id, present, "there"));
            say(
                &context,
                &format!("`{id}` has its package already: {}", packages::described(present)),
            )?;
            continue;
        }
        let keep = present.filter(|_| !args.update).map(|present| present.pins.clone());
        notice!("drawgate: fetching `{}` for `{id}`", request.packages.join("`, `"));
        let new = Wanted { id: id.clone(), request, keep }.fetch(&context).await?;
        say(&context, &format!("fetched for `{id}`: {}", packages::described(&new)))?;
        report.push(shown(id, &new, "fetched"));
        fetched.insert(id.clone(), new);
    }
    drop(progress);
    let names: Vec<SourceId> = fetched.keys().cloned().collect();
    if !fetched.is_empty() {
        packages::pin(&file, &context.data, fetched).await?;
    }
    let is_ok = tell_how_they_are(&file, &names, &context).await?;
    if context.out.is_json() {
        context.out.json(&report)?;
    }
    Ok(if is_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says how servers do with their new packages, where a gateway runs.
async fn tell_how_they_are(
    file: &ConfigFile,
    names: &[SourceId],
    context: &Context,
) -> anyhow::Result<bool> {
    let Some(running) = file.running() else { return Ok(true) };
    let backend = Backend::Running(running.clone());
    let mut is_ok = true;
    for id in names {
        let server = settled(&backend, id.as_str()).await?;
        is_ok &= doctor::is_ok(&server);
        say(context, &explained(&server))?;
    }
    Ok(is_ok)
}

/// What package runners are asked for, by server.
fn requests(
    file: &ConfigFile,
    name: Option<&str>,
) -> anyhow::Result<BTreeMap<SourceId, PackageRequest>> {
    let config = file.prepare(|_| Ok(()))?.into_config();
    let mut all = BTreeMap::new();
    for (id, server) in &config.servers {
        let command = server.connection.command.as_deref();
        let runner = command.and_then(|it| RunnerCommand::of(it, &server.connection.args));
        let is_asked = name.is_none_or(|name| name == id.as_str());
        match runner.filter(|_| is_asked).map(|runner| runner.request) {
            Some(Ok(request)) => drop(all.insert(id.clone(), request)),
            Some(Err(error)) if name.is_some() => return Err(error.into()),
            Some(Err(_)) | None => {}
        }
    }
    match name {
        Some(name) if !config.servers.keys().any(|id| id.as_str() == name) => {
            bail!("the configuration has no server `{name}`; `drawgate servers list` shows them")
        }
        Some(name) if all.is_empty() => {
            bail!(
                "`{name}` is not started by `npx`, `uvx` or the like, so that there is nothing to fetch"
            )
        }
        Some(_) | None => Ok(all),
    }
}

async fn is_intact(
    context: &Context,
    id: &SourceId,
    pinned: &PinnedPackage,
) -> anyhow::Result<bool> {
    let (folder, pinned) = (packages::folder(&context.data, id)?, pinned.clone());
    Ok(spawn_blocking(move || pinned.is_sound() && pinned.check(&folder).is_ok()).await?)
}

/// Fetches the package of a server that is about to be added, if a package runner starts it. It is not
/// pinned yet.
pub(in super::super) async fn before_adding(
    server: &NewServer,
    context: &Context,
) -> anyhow::Result<Option<(SourceId, PinnedPackage)>> {
    let Some(request) = request_of(server)? else { return Ok(None) };
    let id = SourceId::new(&server.name)?;
    notice!("drawgate: fetching `{}` for `{id}`", request.packages.join("`, `"));
    let wanted = Wanted { id: id.clone(), request: &request, keep: None };
    Ok(Some((id, wanted.fetch(context).await?)))
}

/// What a package runner is asked for, if one starts the server.
pub(in super::super) fn request_of(server: &NewServer) -> anyhow::Result<Option<PackageRequest>> {
    let command = server.command.as_deref();
    let Some(runner) = command.and_then(|command| RunnerCommand::of(command, &server.args)) else {
        return Ok(None);
    };
    let name = runner.runner;
    let request =
        runner.request.with_context(|| format!("what `{name}` is asked for can't be fetched"))?;
    Ok(Some(request))
}

fn shown(id: &SourceId, pinned: &PinnedPackage, outcome: &str) -> Value {
    let mut shown = packages::json(pinned);
    shown["server"] = json!(id);
    shown["outcome"] = json!(outcome);
    shown
}

/// Tells people what happens; programs get the report.
fn say(context: &Context, text: &str) -> anyhow::Result<()> {
    if context.out.is_json() { Ok(()) } else { context.out.text(text) }
}
