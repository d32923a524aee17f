//! `drawgate audit`: what happened, and whether the record of it is whole.

mod ask;
mod line;
mod when;

use std::io::{BufWriter, ErrorKind, IsTerminal as _, Stdout, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use drawgate_core::audit::{Anchor, PrunePlan, Report, SignedHead, VerifyKeys};
use drawgate_core::clock::Clock as _;
use drawgate_core::store::{AuditReader, VerifyOptions};
use drawgate_host::clock::SystemClock;
use drawgate_host::store::{DataDir, StorageChoice, open_reader, verify_file};
use drawgate_host::user_files;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::ask::{Asker, Question, Shown};
use super::Context;
use super::backend::Backend;
use super::exit::Exit;
use super::output::{Consent, not_written};
use super::progress::Progress;
use super::screen::count;
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{Prune, Pruned};

const TAIL_HELP: &str = "\
Each event is looked at by itself; `drawgate audit search` puts the events of a call together.

  drawgate audit tail --follow --agent research-bot
  drawgate audit tail --code PERMISSION_DENIED --since 2h";

const SEARCH_HELP: &str = "\
Who deleted the file at 14:05?
  drawgate audit search --since 14:05 --until 14:05 --tool '*delete*'

Everything that one agent did with one file since yesterday's 9 o'clock, or that was refused today:
  drawgate audit search --agent research-bot --text notes.txt --since 2026-11-16T09:00
  drawgate audit search --code PERMISSION_DENIED --since 2026-11-17";

const SHOW_HELP: &str = "\
  drawgate audit show 4711              event 4711, and the calls whose request id is 4711
  drawgate audit show request:4711      only those calls
  drawgate audit show 9f3c1a2b          a call or an approval, as `audit search` prints its id";

/// Events that are read at a time.
const PAGE: usize = 1000;

#[derive(Debug, clap::Subcommand)]
pub(super) enum AuditCommand {
    /// Show the newest events, each on a line
    #[command(after_help = TAIL_HELP)]
    Tail {
        /// How many
        #[arg(long, short = 'n', default_value_t = 20)]
        lines: usize,
        /// Keep printing new events
        #[arg(long, short)]
        follow: bool,
        /// Also show commands that opened and closed the log and did nothing; with `--json` they are there
        /// anyway
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        question: Question,
    },
    /// Find calls, with their arguments, how they ended and who approved them, and other events
    #[command(after_help = SEARCH_HELP)]
    Search {
        /// At most this many, the newest
        #[arg(long, short = 'n', default_value_t = 100)]
        lines: usize,
        #[command(flatten)]
        question: Question,
    },
    /// Show events in full, by sequence, call id, request id or approval id, with large arguments that
    /// are kept beside them
    #[command(after_help = SHOW_HELP)]
    Show {
        /// The sequence or id; where it could be several, all are shown. `event:7`, `call:ID`,
        /// `request:7` and `approval:ID` mean one
        id: String,
    },
    /// Print the whole log as JSON, one a line: what was pruned, events, and signed checkpoints, the
    /// last of them over the newest event, so that `verify --file` can check it anywhere
    Export {
        /// Events alone; such a file can't be proved later
        #[arg(long)]
        events_only: bool,
    },
    /// Remove old events; a signed record of where the log begins replaces them
    ///
    /// A call keeps all its events: the cut moves back to where no call is under way.
    Prune {
        /// All before this sequence
        #[arg(long, value_name = "SEQUENCE")]
        before: u64,
        /// Say what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
        /// Don't ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Print the newest event's sequence and hash, signed, to be kept elsewhere for `verify --anchor`
    Anchor,
    /// Check that nothing was changed, removed, swapped or cut
    ///
    /// Exits 0 if the log is intact and signed up to its newest event, 2 if it was tampered with, 3 if
    /// only the last record is incomplete, 4 if nothing is wrong with it but not all of it is proved.
    /// The first line says which, and why.
    Verify {
        /// A head kept elsewhere that the log must contain: `SEQUENCE:HASH`, a line that `audit anchor`
        /// printed, or a file of such lines. May be repeated
        #[arg(long, value_name = "HEAD|FILE")]
        anchor: Vec<String>,
        /// Compare stored artifacts and kept arguments with their recorded hashes too
        #[arg(long)]
        artifacts: bool,
        /// Verify an exported file instead of the data folder
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// The public key that must have signed, in hexadecimal, as in `audit.pub`
        #[arg(long, value_name = "HEX")]
        key: Option<String>,
    },
}

pub(super) async fn run(command: AuditCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let reader = || {
        let folder = StorageChoice::Folder(DataDir::existing(&context.data)?);
        anyhow::Ok(open_reader(&folder)?)
    };
    match command {
        AuditCommand::Tail { lines, follow, all, question } => {
            if let Some(loss) = reader()?.loss().await? {
                notice!("drawgate: {loss}; run `drawgate audit verify`");
            }
            let shown = if all { Shown::All } else { Shown::WithoutLooks };
            Asker::open(context).await?.tail(lines, follow, shown, &question).await?;
        }
        AuditCommand::Search { lines, question } => {
            Asker::open(context).await?.search(lines, &question).await?;
        }
        AuditCommand::Show { id } => Asker::open(context).await?.show(&id).await?,
        AuditCommand::Export { events_only } => {
            let reader = reader()?;
            let written = Written::new();
            if events_only {
                export_events(&*reader, written).await?;
            } else {
                export(&*reader, written).await?;
            }
        }
        AuditCommand::Prune { before, dry_run: true, .. } => {
            let plan = reader()?.plan_prune(before).await?;
            context.out.either(&planned(&plan), || in_words(&plan))?;
        }
        AuditCommand::Prune { before, yes, .. } => prune(context, &*reader()?, before, yes).await?,
        AuditCommand::Anchor => {
            let head = reader()?.signed_head(now_ms()).await?;
            context.out.raw(format!("{}\n", head.to_json()).as_bytes())?;
        }
        AuditCommand::Verify { anchor, file: Some(file), key, .. } => {
            let keys = key.as_deref().map(VerifyKeys::public).transpose()?;
            let anchors = parse_all_anchors(&anchor)?;
            let progress = Progress::new(format!("verifying `{}`", file.display()));
            let found = verify_file(&file, keys, anchors)?;
            drop(progress);
            return report(context, &found);
        }
        AuditCommand::Verify { anchor, artifacts, file: None, key } => {
            let anchors = parse_all_anchors(&anchor)?;
            let days = context.loaded.config.artifacts.max_age_days;
            let artifact_max_age_ms = days.saturating_mul(24 * 60 * 60 * 1000);
            let options = VerifyOptions { anchors, key, artifacts, artifact_max_age_ms };
            return verify(context, &*reader()?, options).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn verify(
    context: &Context,
    reader: &dyn AuditReader,
    options: VerifyOptions,
) -> anyhow::Result<ExitCode> {
    let newest = reader.tail(1).await.ok().and_then(|tail| Some(tail.first()?.sequence));
    let upto = newest.map(|newest| format!(" up to event {newest}")).unwrap_or_default();
    let progress = Progress::new(format!("verifying the audit log{upto}"));
    let found = reader.verify(options).await?;
    drop(progress);
    report(context, &found)
}

fn planned(plan: &PrunePlan) -> Value {
    let PrunePlan { first, last, events, is_held_back } = plan;
    json!({ "first": first, "last": last, "events": events, "heldBack": is_held_back })
}

fn in_words(plan: &PrunePlan) -> String {
    let PrunePlan { first, last, events, is_held_back } = plan;
    let held = format!(
        "the events from {} on stay, because a call that begins there ends later or is under way",
        last + 1
    );
    let which = match events {
        0 => return format!("no event would go: {held}"),
        1 => format!("event {first} would go"),
        _ => format!("events {first}\u{2013}{last} would go"),
    };
    if *is_held_back { format!("{which}; {held}") } else { which }
}

async fn prune(
    context: &Context,
    reader: &dyn AuditReader,
    before: u64,
    yes: bool,
) -> anyhow::Result<()> {
    let plan = reader.plan_prune(before).await?;
    let (consent, words) = (Consent::new(yes, context.out), in_words(&plan));
    if consent == Consent::Impossible {
        bail!("{words}; removed events can't be brought back: say `--yes` if you mean it");
    }
    if !consent.to(&format!("{words}; remove them for good?")).await? {
        return context.out.text("nothing was removed");
    }
    let backend = Backend::open(context, Start::Nothing).await?;
    let done = backend.post::<Pruned>("/audit/prune", &Prune { before }).await;
    backend.close().await;
    let done = done?;
    context.out.either(&done, || format!("removed {}", count(done.removed, "event")))
}

async fn export(reader: &dyn AuditReader, out: Written) -> anyhow::Result<()> {
    let failure = Arc::clone(&out.failure);
    let done = reader.export(Box::new(BufWriter::new(out)), now_ms()).await;
    if let Some(kind) = failure.lock().take() {
        return Err(not_written(kind.into()));
    }
    if let Some(reason) = done? {
        notice!("drawgate: the export's newest events are not signed: {reason}");
    }
    Ok(())
}

async fn export_events(reader: &dyn AuditReader, out: Written) -> anyhow::Result<()> {
    let mut out = BufWriter::new(out);
    let mut last = 0;
    loop {
        let page = reader.read(last, PAGE).await?;
        for event in &page {
            last = event.sequence;
            writeln!(out, "{}", event.body).map_err(not_written)?;
        }
        if page.is_empty() {
            return out.flush().map_err(not_written);
        }
    }
}

fn now_ms() -> u64 {
    SystemClock::new().now_ms()
}

/// Standard output: shows how much was written, and notes why writing failed, which the store's errors don't
/// tell apart.
struct Written {
    out: Stdout,
    failure: Arc<Mutex<Option<ErrorKind>>>,
    bytes: usize,
    /// None where a person sees the export itself.
    progress: Option<Progress>,
}

impl Written {
    fn new() -> Self {
        let out = std::io::stdout();
        let progress = (!out.is_terminal()).then(|| Progress::new("exporting the audit log"));
        Self { out, failure: Arc::default(), bytes: 0, progress }
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes);
        let written = written.inspect_err(|error| *self.failure.lock() = Some(error.kind()))?;
        self.bytes += written;
        if let Some(progress) = &self.progress {
            progress.say(format!("exporting the audit log: {} KiB", self.bytes / 1024));
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush().inspect_err(|error| *self.failure.lock() = Some(error.kind()))
    }
}

fn report(context: &Context, report: &Report) -> anyhow::Result<ExitCode> {
    let bad = report.first_bad.as_ref();
    let proved = report.proved.as_ref();
    let value = json!({
        "intact": report.exit_code() == 0,
        "finding": report.finding(),
        "events": report.events,
        "checkpoints": report.checkpoints,
        "head": { "sequence": report.head.0, "hash": report.head.1 },
        "proved": proved.map(|(upto, by)| json!({ "upTo": upto, "by": by })),
        "unproved": report.unproved,
        "firstBad": bad.map(|(sequence, reason)| json!({ "sequence": sequence, "reason": reason })),
        "torn": report.torn,
        "warnings": report.warnings,
    });
    context.out.either(&value, || report.to_string())?;
    Ok(Exit::of_report(report).into())
}

fn parse_all_anchors(texts: &[String]) -> anyhow::Result<Vec<Anchor>> {
    let parsed: Vec<Vec<Anchor>> =
        texts.iter().map(|text| parse_anchors(text)).collect::<anyhow::Result<_>>()?;
    Ok(parsed.concat())
}

/// A head, or a file with one a line.
fn parse_anchors(text: &str) -> anyhow::Result<Vec<Anchor>> {
    if let Some(anchor) = parse_anchor(text)? {
        return Ok(vec![anchor]);
    }
    let wrong = || {
        format!(
            "`{text}` is not an anchor; write `SEQUENCE:HASH`, as `audit verify` prints the head, a line of `audit anchor`, or a file of such lines"
        )
    };
    let lines = user_files::read_to_string(Path::new(text)).with_context(wrong)?;
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| parse_anchor(line)?.with_context(wrong)).collect()
}

fn parse_anchor(text: &str) -> anyhow::Result<Option<Anchor>> {
    if text.starts_with('{') {
        let head = SignedHead::parse(text).context("the anchor was changed")?;
        return Ok(Some(Anchor::signed(&head, "the anchor")));
    }
    let pair = text.split_once(':').and_then(|(sequence, hash)| {
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some((sequence.parse().ok()?, hash)).filter(|_| is_hash)
    });
    Ok(pair.map(|(sequence, hash)| Anchor::new(sequence, hash)))
}
