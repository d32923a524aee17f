//! `drawgate audit`: what happened, and whether the record of it is whole.

mod line;

use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use drawgate_core::audit::{Anchor, StoredEvent, VerifyKeys};
use drawgate_core::store::StoreError;
use drawgate_host::store::{AuditReader, DataDir, VerifyOptions, verify_file};
use serde_json::{Value, json};

use self::line::line;
use super::Context;
use super::backend::Backend;
use super::output::not_written;
use crate::assemble::Start;
use crate::surface::control::Prune;
use crate::time::shown as time;

/// How often `tail --follow` looks for new events.
const FOLLOW_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug, clap::Subcommand)]
pub(super) enum AuditCommand {
    /// Show the newest events
    Tail {
        /// How many
        #[arg(long, short = 'n', default_value_t = 20)]
        lines: usize,
        /// Go on as events come
        #[arg(long, short)]
        follow: bool,
    },
    /// Show events in full, by sequence, request id or call id
    Show {
        /// The sequence or id
        id: String,
    },
    /// Print all events as JSON, one a line
    Export {
        /// Signed checkpoints too, so that the file can be verified by itself
        #[arg(long)]
        checkpoints: bool,
    },
    /// Remove old events; a signed record of where the log now begins stands for them
    Prune {
        /// All before this sequence, as far as no call under way needs them
        #[arg(long, value_name = "SEQUENCE")]
        before: u64,
    },
    /// Check that nothing was changed, removed, swapped or cut: exits 0 if so, 2 if it was tampered
    /// with, 3 if only the last record is incomplete
    Verify {
        /// A head kept elsewhere, `SEQUENCE:HASH`, that the log must contain
        #[arg(long, value_name = "SEQUENCE:HASH")]
        anchor: Option<String>,
        /// Compare stored artifacts with their recorded hashes too
        #[arg(long)]
        artifacts: bool,
        /// Verify an exported file instead of the data folder
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// The public key for `--file`, in hexadecimal, as in `audit.pub`
        #[arg(long, value_name = "HEX", requires = "file")]
        key: Option<String>,
    },
}

pub(super) async fn run(command: AuditCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let reader = || anyhow::Ok(AuditReader::open(&DataDir::existing(&context.data)?)?);
    match command {
        AuditCommand::Tail { lines, follow } => tail(context, &reader()?, lines, follow).await?,
        AuditCommand::Show { id } => show(context, &reader()?, &id)?,
        AuditCommand::Export { checkpoints } => export(&reader()?, checkpoints)?,
        AuditCommand::Prune { before } => prune(context, before).await?,
        AuditCommand::Verify { anchor, artifacts, file, key } => {
            return verify(context, anchor.as_deref(), artifacts, file.as_ref(), key.as_deref());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, reader: &AuditReader, id: &str) -> anyhow::Result<()> {
    let found = reader.show(id)?;
    anyhow::ensure!(
        !found.is_empty(),
        "there is no event `{id}`; `drawgate audit tail` shows the newest"
    );
    for event in found {
        let value: Value = serde_json::from_str(&event.body)?;
        context.out.json(&value)?;
    }
    Ok(())
}

async fn prune(context: &Context, before: u64) -> anyhow::Result<()> {
    let backend = Backend::open(context, Start::Nothing).await?;
    let done = backend.post::<Value>("/audit/prune", &Prune { before }).await;
    backend.close().await;
    let done = done?;
    context.out.either(&done, || format!("removed {} events", done["removed"]))
}

async fn tail(
    context: &Context,
    reader: &AuditReader,
    lines: usize,
    follow: bool,
) -> anyhow::Result<()> {
    let mut last = 0;
    for event in reader.tail(lines)? {
        last = event.sequence;
        print(context, &event)?;
    }
    if !follow {
        return Ok(());
    }
    loop {
        tokio::time::sleep(FOLLOW_PAUSE).await;
        let mut fresh = Vec::new();
        reader.events(last, usize::MAX, |event| {
            fresh.push(event);
            Ok(())
        })?;
        for event in fresh {
            last = event.sequence;
            print(context, &event)?;
        }
    }
}

fn print(context: &Context, event: &StoredEvent) -> anyhow::Result<()> {
    if context.out.is_json() {
        return context.out.raw(format!("{}\n", event.body).as_bytes());
    }
    let value: Value = serde_json::from_str(&event.body)?;
    let when = time(value["createdAt"].as_u64().unwrap_or(0));
    context.out.text(&format!("{:>8}  {when}  {}", event.sequence, line(&value)))
}

fn export(reader: &AuditReader, checkpoints: bool) -> anyhow::Result<()> {
    let mut out = Noting { out: BufWriter::new(std::io::stdout().lock()), failure: None };
    let done = if checkpoints {
        reader.export(&mut out)
    } else {
        reader.events(0, usize::MAX, |event| {
            writeln!(out, "{}", event.body).map_err(|error| StoreError::Unavailable {
                operation: "export the audit log",
                reason: error.to_string(),
            })
        })
    };
    if let Some(kind) = out.failure {
        return Err(not_written(kind.into()));
    }
    done?;
    out.flush().map_err(not_written)
}

/// Notes why writing failed, which the store's errors don't tell apart.
struct Noting<W> {
    out: W,
    failure: Option<ErrorKind>,
}

impl<W: Write> Write for Noting<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.write(bytes).inspect_err(|error| self.failure = Some(error.kind()))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

fn verify(
    context: &Context,
    anchor: Option<&str>,
    artifacts: bool,
    file: Option<&PathBuf>,
    key: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let anchor = anchor.map(parse_anchor).transpose()?;
    let report = if let Some(file) = file {
        verify_file(file, key.map(VerifyKeys::public).transpose()?, anchor)?
    } else {
        let dir = DataDir::existing(&context.data)?;
        let days = context.loaded.config.artifacts.max_age_days;
        let artifact_max_age_ms = days.saturating_mul(24 * 60 * 60 * 1000);
        AuditReader::open(&dir)?.verify(VerifyOptions { anchor, artifacts, artifact_max_age_ms })?
    };
    let bad = report.first_bad.as_ref();
    let value = json!({
        "intact": report.exit_code() == 0,
        "events": report.events,
        "checkpoints": report.checkpoints,
        "head": { "sequence": report.head.0, "hash": report.head.1 },
        "firstBad": bad.map(|(sequence, reason)| json!({ "sequence": sequence, "reason": reason })),
        "torn": report.torn,
        "warnings": report.warnings,
    });
    context.out.either(&value, || report.to_string())?;
    Ok(ExitCode::from(report.exit_code()))
}

fn parse_anchor(text: &str) -> anyhow::Result<Anchor> {
    let wrong = || {
        format!(
            "`{text}` is not an anchor; write `SEQUENCE:HASH`, as `audit verify` prints the head"
        )
    };
    let (sequence, hash) = text.split_once(':').with_context(wrong)?;
    Ok(Anchor { sequence: sequence.parse().with_context(wrong)?, hash: hash.to_owned() })
}
