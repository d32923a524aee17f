//! `drawgate import`: servers that an MCP client starts itself are moved behind the gate.
//!
//! What is read and where is in `read`, what becomes of each server in `translate`. Nothing is written
//! before a person agrees: first the secrets, then the configuration, and the client's own file last.

mod read;
mod translate;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;
use drawgate_core::model::SourceId;
use drawgate_runtime::config::Config;
use drawgate_runtime::operations::ServerReport;
use futures_util::future::join_all;
use serde_json::{Value, json};
use toml_edit::DocumentMut;

use self::read::Entry;
use self::translate::{Surroundings, Translated, translate};
use super::backend::Backend;
use super::client_files::Format;
use super::connect::{Client, Folders};
use super::edit::{ConfigFile, Outcome};
use super::files::{self, Change};
use super::output::Consent;
use super::packages;
use super::progress::Progress;
use super::servers::change::{explained, settled};
use super::servers::{allow, fetch, needs};
use super::{Context, client_folders, doctor, secrets_file};
use crate::cli::table::{cut, spare, whole};

const EXAMPLES: &str = "\
Examples:
  drawgate import claude                       show, ask, and import what Claude Code and Desktop have
  drawgate import .mcp.json --yes              import from a file, without questions
  drawgate import cursor --yes --take-out      also take the servers out of Cursor's own files

Secrets are not copied into the configuration: it refers to variables of the gateway's environment, and
the values go into `secrets.env` in the data folder, which only you can read.";

/// Move the servers of an MCP client behind this gateway
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ImportArgs {
    /// `claude`, `claude-desktop`, `codex`, `gemini`, `cursor`, `vscode` or `windsurf` for all that the client has
    /// for you and for the current folder; or a file with `mcpServers`, `servers` (JSON) or `mcp_servers` (TOML)
    #[arg(value_name = "CLIENT|FILE")]
    source: PathBuf,
    /// Don't ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Take what was imported out of the client's own file, so that nothing bypasses the gateway; a
    /// copy of the file is kept in the data folder
    #[arg(long)]
    take_out: bool,
    /// This server only; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Another name for a server; may be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = renaming)]
    rename: Vec<(String, String)>,
}

/// A server of the client, and what becomes of it.
struct Planned {
    entry: Entry,
    name: String,
    action: Action,
}

enum Action {
    /// It is added.
    Add(Box<Translated>),
    /// The configuration has the same server under this name.
    Present,
    /// It stays where it is, and why.
    LeaveOut(String),
}

pub(super) async fn run(args: &ImportArgs, context: Context) -> anyhow::Result<ExitCode> {
    let folders = client_folders()?;
    let file = ConfigFile::find(&context).await?;
    let config = file.prepare(|_| Ok(()))?.into_config();
    let mut plan = plan(args, &folders, entries(&args.source, &folders)?, &config);
    plan.retain(|it| args.only.is_empty() || args.only.contains(&it.entry.name));
    if plan.is_empty() {
        bail!(
            "there is no server to import{}",
            if args.only.is_empty() { "" } else { " of that name" }
        );
    }
    let consent = Consent::new(args.yes, context.out);
    note_packages(&mut plan);
    if consent != Consent::Asked {
        note_needs(&mut plan);
    }
    let change =
        |document: &mut DocumentMut| added(&plan).try_for_each(|it| it.server.add_to(document));
    file.prepare(change)?;
    if !context.out.is_json() {
        show(&plan, &file, &context)?;
    }
    let is_wanted = added(&plan).next().is_some();
    let mut report =
        Report { json: json!({ "servers": described(&plan), "file": file.path() }), is_ok: true };
    if is_wanted {
        if !consent.to("Import them?").await? {
            return refused(consent, report, &context);
        }
        if consent == Consent::Asked {
            ask_for_folders(&mut plan, &context).await?;
        }
        let change =
            |document: &mut DocumentMut| added(&plan).try_for_each(|it| it.server.add_to(document));
        import(&plan, change, &file, &context, consent, &mut report).await?;
    }
    let question = "Take them out of the client's own files? (copies are kept)";
    let is_moved = !matches!(report.json["outcome"].as_str(), Some("other_file"));
    let has_some = plan.iter().any(Planned::is_behind_the_gate);
    if has_some
        && is_moved
        && (args.take_out || (consent == Consent::Asked && consent.to(question).await?))
    {
        take_out(&plan, &context, &mut report)?;
    } else if has_some {
        say(
            &context,
            "the client still starts these servers itself, past the gateway; `--take-out` takes them out of its files",
        )?;
    }
    report.end(&context)
}

/// Says what will be fetched for package runners, or why it can't be.
fn note_packages(plan: &mut [Planned]) {
    for it in plan {
        let Action::Add(translated) = &mut it.action else { continue };
        let note = match fetch::request_of(&translated.server) {
            Ok(None) => continue,
            Ok(Some(request)) => {
                format!(
                    "its package is fetched now, and pinned: `{}`",
                    request.packages.join("`, `")
                )
            }
            Err(error) => format!("{error:#}"),
        };
        translated.notes.push(note);
    }
}

/// Says what each server will lack in its sandbox.
fn note_needs(plan: &mut [Planned]) {
    for it in plan {
        if let Action::Add(translated) = &mut it.action {
            let notes = needs::notes(&translated.server);
            translated.notes.extend(notes);
        }
    }
}

/// Asks which of the folders that command lines name may be written.
async fn ask_for_folders(plan: &mut [Planned], context: &Context) -> anyhow::Result<()> {
    for it in plan {
        if let Action::Add(translated) = &mut it.action {
            let wanted = allow::folders_to_write(context, &translated.server).await?;
            translated.server.write.extend(wanted);
        }
    }
    Ok(())
}

/// Fetches what package runners start. A server whose package can't be fetched is imported all the same, so
/// that nothing bypasses the gateway, and is refused until it is there.
async fn fetch_packages(
    plan: &[Planned],
    file: &ConfigFile,
    context: &Context,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (mut all, mut pins) = (Vec::new(), BTreeMap::new());
    let has_package = |it: &&Translated| !matches!(fetch::request_of(&it.server), Ok(None));
    let (done, number) = (Cell::new(0), added(plan).filter(has_package).count());
    let progress = Progress::new(format!("fetching packages: 0 of {number} done"));
    let work = added(plan).filter(has_package).map(async |it| {
        let fetched = fetch::before_adding(&it.server, context).await;
        done.set(done.get() + 1);
        progress.say(format!("fetching packages: {} of {number} done", done.get()));
        fetched
    });
    let all_fetched = join_all(work).await;
    drop(progress);
    for (it, fetched) in added(plan).filter(has_package).zip(all_fetched) {
        let name = &it.server.name;
        match fetched {
            Ok(None) => {}
            Ok(Some((id, fetched))) => {
                say(context, &format!("fetched for `{name}`: {}", packages::described(&fetched)))?;
                if let Some(note) = needs::place(&it.server, &fetched, &context.data) {
                    say(context, &format!("  {note}"))?;
                }
                all.push(json!({ "server": name, "package": packages::json(&fetched) }));
                pins.insert(id, fetched);
            }
            Err(error) => {
                report.is_ok = false;
                let reason = format!("{error:#}");
                let then = format!("it is imported without; then: `drawgate servers fetch {name}`");
                say(context, &format!("{reason}\n  {then}"))?;
                all.push(json!({ "server": name, "problem": reason }));
            }
        }
    }
    if !pins.is_empty() {
        packages::pin(file, &context.data, pins).await?;
    }
    report.json["packages"] = json!(all);
    Ok(())
}

/// What was done, for programs; people are told as it happens.
struct Report {
    json: Value,
    is_ok: bool,
}

impl Report {
    fn end(self, context: &Context) -> anyhow::Result<ExitCode> {
        if context.out.is_json() {
            context.out.json(&self.json)?;
        }
        Ok(if self.is_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Tells people what happens; programs get the report.
fn say(context: &Context, text: &str) -> anyhow::Result<()> {
    if context.out.is_json() { Ok(()) } else { context.out.text(text) }
}

fn refused(consent: Consent, mut report: Report, context: &Context) -> anyhow::Result<ExitCode> {
    let again = if consent == Consent::Impossible { "; `--yes` agrees" } else { "" };
    say(context, &format!("nothing was changed{again}"))?;
    report.json["outcome"] = json!("nothing_changed");
    report.is_ok = false;
    report.end(context)
}

/// Writes the secrets, then the configuration, and says how the servers do.
async fn import(
    plan: &[Planned],
    change: impl FnOnce(&mut DocumentMut) -> anyhow::Result<()>,
    file: &ConfigFile,
    context: &Context,
    consent: Consent,
    report: &mut Report,
) -> anyhow::Result<()> {
    let secrets: BTreeMap<&str, &str> = added(plan)
        .flat_map(|it| &it.secrets)
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    if !secrets.is_empty() {
        let path = secrets_file::add(&context.data, &secrets)?;
        report.json["secrets"] = json!(path);
        let shown = path.display();
        say(context, &format!("secrets are in `{shown}`, where the gateway finds them"))?;
    }
    fetch_packages(plan, file, context, report).await?;
    let edit = file.write(change).await?;
    let outcome = file.outcome(&edit).await?;
    let made = if edit.is_new { "made" } else { "changed" };
    report.json["outcome"] = json!(outcome.as_str());
    say(context, &format!("{made} `{}`; {}", file.path().display(), outcome.text(file)))?;
    if let (Outcome::InForce, Some(running)) = (&outcome, file.running()) {
        let backend = Backend::Running(running.clone());
        for it in added(plan).filter(|it| !it.server.is_disabled) {
            let name = &it.server.name;
            let mut server = settled(&backend, name).await?;
            if consent == Consent::Asked && !server.refusals().is_empty() {
                allow::ask(context, name).await?;
                server = settled(&backend, name).await?;
            } else {
                say(context, &explained(&server))?;
            }
            report.is_ok &= doctor::is_ok(&server);
        }
    }
    if outcome == Outcome::Written {
        try_once(plan, context, report).await?;
    }
    Ok(())
}

/// Starts each server once where no gateway runs, and says how it does. Its tools are known from then on, so
/// that the next gateway lists them at once.
async fn try_once(plan: &[Planned], context: &Context, report: &mut Report) -> anyhow::Result<()> {
    let wanted = added(plan).filter(|it| !it.server.is_disabled);
    let names: Vec<&str> = wanted.map(|it| it.server.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let backend = match Backend::open_for_trial(context, &names).await {
        Ok(backend) => backend,
        Err(error) => return say(context, &format!("the servers were not tried: {error:#}")),
    };
    let servers = backend.get::<Vec<ServerReport>>("/servers").await;
    backend.close().await;
    let mut servers = servers?;
    servers.retain(|server| names.contains(&server.source.status.id.as_str()));
    for server in &servers {
        say(context, &explained(server))?;
    }
    report.json["tried"] = json!(servers);
    Ok(())
}

fn take_out(plan: &[Planned], context: &Context, report: &mut Report) -> anyhow::Result<()> {
    let mut files: BTreeMap<&Path, Vec<&Entry>> = BTreeMap::new();
    for it in plan.iter().filter(|it| it.is_behind_the_gate()) {
        files.entry(&it.entry.file).or_default().push(&it.entry);
    }
    let mut taken = Vec::new();
    for (file, entries) in files {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let Change::Updated(backup) = remove(file, &context.data, &entries)? else {
            continue;
        };
        let (names_shown, file_shown) = (names.join("`, `"), file.display());
        let backup_shown = backup.display();
        say(
            context,
            &format!(
                "took `{names_shown}` out of `{file_shown}`; its earlier content is in `{backup_shown}`"
            ),
        )?;
        taken.push(json!({ "file": file, "backup": backup, "servers": names }));
    }
    report.json["takenOut"] = json!(taken);
    say(context, "next: `drawgate connect CLIENT --write`, so that the client uses the gateway")
}

/// Removes servers from a client's file.
fn remove(file: &Path, data: &Path, entries: &[&Entry]) -> anyhow::Result<Change> {
    let members: Vec<Vec<&str>> = entries.iter().map(|entry| entry.keys()).collect();
    files::change(file, data, |text| Format::of(file).remove(text.context("it is gone")?, &members))
}

/// All servers of a client, or of a file.
fn entries(source: &Path, folders: &Folders) -> anyhow::Result<Vec<Entry>> {
    let client = source.to_str().and_then(|name| Client::from_str(name, false).ok());
    let Some(client) = client else {
        let path = std::path::absolute(source)?;
        return read::file(&path, &folders.project)?
            .with_context(|| format!("there is no client and no file `{}`", source.display()));
    };
    let places = client.places(folders);
    let mut all = Vec::new();
    for place in &places {
        all.extend(read::file(place, &folders.project)?.unwrap_or_default());
    }
    if all.is_empty() {
        let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        bail!("{} has no servers; looked at:\n  {}", client.title(), places.join("\n  "));
    }
    Ok(all)
}

fn plan(
    args: &ImportArgs,
    folders: &Folders,
    entries: Vec<Entry>,
    config: &Config,
) -> Vec<Planned> {
    let mut plan: Vec<Planned> = Vec::new();
    for entry in entries {
        let renamed = args.rename.iter().find(|(old, _)| *old == entry.name);
        let name = renamed.map_or_else(|| normalised(&entry.name), |(_, new)| new.clone());
        let surroundings = Surroundings::of(&entry.file, folders);
        let action = match translate(&name, &entry.server, &surroundings) {
            Err(reason) => Action::LeaveOut(reason),
            Ok(translated) => decide(translated, &plan, config),
        };
        plan.push(Planned { entry, name, action });
    }
    plan
}

fn decide(translated: Translated, plan: &[Planned], config: &Config) -> Action {
    let server = &translated.server;
    let clash =
        format!("there is another server `{0}`; choose a name by `--rename {0}=NEW`", server.name);
    if let Some((_, present)) = config.servers.iter().find(|(id, _)| id.as_str() == server.name) {
        let has = &present.connection;
        let is_same =
            has.command == server.command && has.args == server.args && has.url == server.url;
        return if is_same { Action::Present } else { Action::LeaveOut(clash) };
    }
    let same_name = added(plan).find(|it| it.server.name == server.name);
    match same_name {
        None => Action::Add(Box::new(translated)),
        Some(first) if first.server == *server => Action::Present,
        Some(_) => Action::LeaveOut(clash),
    }
}

fn added(plan: &[Planned]) -> impl Iterator<Item = &Translated> {
    plan.iter().filter_map(|it| match &it.action {
        Action::Add(translated) => Some(&**translated),
        Action::Present | Action::LeaveOut(_) => None,
    })
}

impl Planned {
    fn is_behind_the_gate(&self) -> bool {
        match self.action {
            Action::Add(_) | Action::Present => true,
            Action::LeaveOut(_) => false,
        }
    }

    fn what(&self) -> String {
        match &self.action {
            Action::Add(it) if it.server.is_disabled => "add, disabled".to_owned(),
            Action::Add(_) => "add".to_owned(),
            Action::Present => "there already".to_owned(),
            Action::LeaveOut(reason) => format!("left out: {reason}"),
        }
    }
}

/// The table, the tables of the configuration, and what to know about them.
fn show(plan: &[Planned], file: &ConfigFile, context: &Context) -> anyhow::Result<()> {
    let rows =
        plan.iter().map(|it| vec![it.name.clone(), it.entry.file.display().to_string(), it.what()]);
    let columns = [whole("server"), spare("from"), cut("what")];
    context.out.table(&(), &columns, &rows.collect::<Vec<_>>(), "")?;
    let mut text = String::new();
    for it in added(plan) {
        text.push_str(&it.server.text()?);
        text.push('\n');
    }
    if !text.is_empty() {
        context.out.text(&format!("\nfor `{}`:\n\n{}", file.path().display(), text.trim_end()))?;
    }
    for it in added(plan) {
        for note in &it.notes {
            context.out.text(&format!("note: `{}`: {note}", it.server.name))?;
        }
    }
    if let Some(note) = needs::without_network(added(plan).map(|it| &it.server)) {
        context.out.text(&format!("note: {note}"))?;
    }
    context.out.text("")
}

fn described(plan: &[Planned]) -> Value {
    let each = plan.iter().map(|it| {
        let (action, reason) = match &it.action {
            Action::Add(_) => ("add", None),
            Action::Present => ("present", None),
            Action::LeaveOut(reason) => ("leave_out", Some(reason)),
        };
        let notes = match &it.action {
            Action::Add(translated) => translated.notes.as_slice(),
            Action::Present | Action::LeaveOut(_) => &[],
        };
        json!({ "name": it.name, "from": it.entry.file, "action": action, "reason": reason, "notes": notes })
    });
    each.collect()
}

/// A client's name for a server as the configuration can have it.
fn normalised(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' };
    let name: String = name.chars().map(allowed).take(64).collect();
    let name = name.trim_matches('-');
    match name {
        "" => "server".to_owned(),
        "builtin" => "builtin-server".to_owned(),
        name => name.to_owned(),
    }
}

fn renaming(text: &str) -> Result<(String, String), String> {
    let (old, new) = text.split_once('=').ok_or("write `OLD=NEW`")?;
    SourceId::new(new).map_err(|error| error.to_string())?;
    Ok((old.to_owned(), new.to_owned()))
}

#[cfg(test)]
#[path = "import/import_tests.rs"]
mod tests;
