//! `drawgate toolpacks update`: what would change, and then, after a yes, the change.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::install::{Stage, commit};
use super::text;
use crate::cli::Context;
use crate::cli::backend::Backend;
use crate::cli::output::Consent;
use crate::cli::progress::Progress;
use drawgate_runtime::operations::{StateAfterUpdate, ToolpackList, ToolpackView};
use drawgate_runtime::toolpacks::{Changes, Folder, Intent, Origin, Staged};

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct UpdateRequest<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) yes: bool,
    pub(super) downgrade: bool,
}

/// What became of one pack.
enum Outcome {
    Same,
    Declined(Changes),
    /// There was no terminal to ask at.
    Waits(Changes),
    Updated(Changes, Box<ToolpackView>),
}

pub(super) async fn run(
    request: UpdateRequest<'_>,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    let all: ToolpackList = backend.get("/toolpacks").await?;
    let stage = Stage::new(&all.folder, context.whole()?)?;
    let chosen: Vec<&ToolpackView> =
        all.toolpacks.iter().filter(|pack| request.id.is_none_or(|id| id == pack.id)).collect();
    if let (Some(id), true) = (request.id, chosen.is_empty()) {
        bail!("no toolpack `{id}` is installed; `drawgate toolpacks list` shows them");
    }
    let mut report = Vec::new();
    let mut well = true;
    for pack in &chosen {
        let done = one(pack, request, &stage, context, backend).await;
        well &= matches!(&done, Ok(Outcome::Same | Outcome::Declined(_) | Outcome::Updated(..)));
        if !context.out.is_json() {
            context.out.text(&sentence(pack, &done))?;
        }
        report.push(as_json(pack, &done));
    }
    let nothing = || if chosen.is_empty() { "no toolpacks are installed" } else { "" }.to_owned();
    context.out.either(&report, nothing)?;
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn one(
    pack: &ToolpackView,
    request: UpdateRequest<'_>,
    stage: &Stage,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<Outcome> {
    let Some(staged) = fetch(pack, request, stage).await? else { return Ok(Outcome::Same) };
    if pack.content_hash.as_deref() == Some(&staged.entry.content_hash)
        && pack.commit == staged.entry.commit
    {
        return Ok(Outcome::Same);
    }
    let compare = move |folder: &Folder| folder.changes(&staged).map(|changes| (staged, changes));
    let (staged, changes) = stage.on_folder(compare).await?;
    if !context.out.is_json() {
        context.out.text(&difference(pack, &changes))?;
    }
    let consent = Consent::new(request.yes, context.out);
    if consent == Consent::Impossible {
        return Ok(Outcome::Waits(changes));
    }
    if !consent.to("change it?").await? {
        return Ok(Outcome::Declined(changes));
    }
    let updated = commit(backend, staged, StateAfterUpdate::Same).await?;
    Ok(Outcome::Updated(changes, Box::new(updated)))
}

/// What there is now where the pack came from; nothing if its commit is the same.
async fn fetch(
    pack: &ToolpackView,
    request: UpdateRequest<'_>,
    stage: &Stage,
) -> anyhow::Result<Option<Staged>> {
    let source = pack.source.as_deref().context("its origin is not recorded; install it again")?;
    let terms = stage.terms(Intent::Update, request.downgrade);
    if let Some(path) = source.strip_prefix("path:") {
        return stage.stage(&Origin::Folder(path.into()), terms).await.map(Some);
    }
    let repository = source.strip_prefix("github:").unwrap_or(source);
    let reference = pack.reference.iter().map(|reference| format!("@{reference}"));
    let text: String = std::iter::once(repository.to_owned()).chain(reference).collect();
    let Origin::Github(repository) = text.parse()? else {
        bail!("`{source}` can't be asked for something newer; install it again")
    };
    let progress = Progress::new(format!("asking for {text}"));
    let pinned = stage.resolve(&repository).await?;
    if pack.commit.as_deref() == Some(pinned.commit.as_str()) {
        return Ok(None);
    }
    stage.download(pinned, terms, &progress).await.map(Some)
}

/// What would change.
fn difference(pack: &ToolpackView, changes: &Changes) -> String {
    let (old, new) = &changes.version;
    let old = old.as_deref().unwrap_or("an unknown version");
    let mut text = format!("`{}`: {old} becomes {new}", pack.id);
    if let (_, Some(commit)) = &changes.commit {
        let _ = write!(text, ", commit {}", text::short(commit));
    }
    text.push('\n');
    let tools = &changes.tools;
    for (sign, what, names) in [
        ('+', "tool", &tools.added),
        ('-', "tool", &tools.removed),
        ('~', "tool, defined otherwise:", &tools.changed),
        ('+', "it", &changes.permissions.added),
        ('-', "it no longer", &changes.permissions.removed),
    ] {
        for name in names {
            let _ = writeln!(text, "  {sign} {what} {name}");
        }
    }
    if changes.is_empty() {
        text.push_str("  the same tools and permissions, in other files\n");
    }
    text
}

fn sentence(pack: &ToolpackView, done: &anyhow::Result<Outcome>) -> String {
    let id = &pack.id;
    match done {
        Ok(Outcome::Same) => format!("`{id}` is up to date"),
        Ok(Outcome::Declined(_)) => format!("`{id}` stays as it is"),
        Ok(Outcome::Waits(_)) => {
            format!("`{id}` stays as it is; to change it:\n  drawgate toolpacks update {id} --yes")
        }
        Ok(Outcome::Updated(_, now)) => format!("updated `{id}`; it is {}", now.state),
        Err(error) => format!("`{id}` can't be updated: {error:#}"),
    }
}

fn as_json(pack: &ToolpackView, done: &anyhow::Result<Outcome>) -> Value {
    let changes = |changes: &Changes| {
        json!({
            "version": changes.version.1,
            "commit": changes.commit.1,
            "tools": {
                "added": changes.tools.added,
                "removed": changes.tools.removed,
                "changed": changes.tools.changed,
            },
            "permissions": {
                "added": changes.permissions.added,
                "removed": changes.permissions.removed,
            },
        })
    };
    let id = &pack.id;
    match done {
        Ok(Outcome::Same) => json!({ "id": id, "outcome": "up_to_date" }),
        Ok(Outcome::Declined(all) | Outcome::Waits(all)) => {
            json!({ "id": id, "outcome": "not_changed", "changes": changes(all) })
        }
        Ok(Outcome::Updated(all, now)) => {
            json!({ "id": id, "outcome": "updated", "changes": changes(all), "toolpack": now })
        }
        Err(error) => json!({ "id": id, "outcome": "failed", "error": format!("{error:#}") }),
    }
}
