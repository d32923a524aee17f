//! Opening the audit log: its end must be what was written, and calls that were under way when the
//! process died get an outcome that says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use drawgate_core::audit::{
    Chain, Checkpoint, EventDraft, EventKind, HeadRecord, OpenCalls, SignedHead, StoredEvent,
    ToolAuditEvent, ZERO_HASH,
};
use drawgate_core::store::StoreError;
use drawgate_core::{canonical, json};
use rusqlite::{Connection, OptionalExtension as _};

use super::super::lock::DataDir;
use super::audit::{AuditOptions, events, stored};
use super::commit::{Writer, head_record, meta, put_meta};
use super::connection::{Durability, corrupt, integer, open_audit, unavailable};
use super::head_copies::{self, HeadCopies, HeadCopy, Place};
use super::key;
use super::payload::PayloadRoom;
use super::presence::Presence;
use super::resume::resume;

const OPERATION: &str = "open the audit log";
/// Events read at a time while looking for unfinished calls.
const PAGE: usize = 512;

/// A log that was opened.
pub(super) struct Opened {
    pub(super) writer: Writer,
    pub(super) heads: HeadCopies,
}

/// Opens the log for its one writer.
pub(super) fn open(dir: &DataDir, options: AuditOptions) -> Result<Opened, StoreError> {
    let (found, unreadable) = head_copies::look(dir);
    let key = key::load_or_create(dir)?;
    let connection = open_audit(dir, options.durability)?;
    let last = last_event(&connection)?;
    let install = install(&connection, last.is_some())?;
    let head = head_record(&connection)?;
    check_end(last.as_ref(), head.as_ref())?;
    if head
        .as_ref()
        .is_some_and(|head| key.signer.keys().is_head_ours(&install, head) == Some(false))
    {
        return Err(damaged("the head record was not written with this `audit.key`"));
    }
    let checkpoint = last_checkpoint(&connection)?;
    let unfinished = find_open(&connection, checkpoint.as_ref())?;
    let chain = head.map_or_else(Chain::default, |head| Chain::after(head.sequence, head.head));
    let checkpointed = checkpointed(checkpoint.as_ref(), &connection)?;
    let mut heads = HeadCopies::open(dir, options.durability)?;
    let opened = opened(&options, last.as_ref(), &heads.state)?
        .text("install", &install)
        .text("previousHead", chain.head());
    let room = PayloadRoom::measure(&connection, options.payload_quota)
        .map_err(|error| unavailable(OPERATION, &error))?;
    let times = times_after(&connection, checkpointed.0)?;
    let mut writer = Writer {
        connection,
        durability: options.durability,
        checkpoint_every: options.checkpoint_every,
        clock: options.clock,
        signer: key.signer,
        install,
        chain,
        open: OpenCalls::default(),
        checkpointed,
        times,
        boot: match options.durability {
            Durability::Process => head_copies::boot(),
            Durability::Power => None,
        },
        room,
        pages: 0,
        presence: Arc::new(Presence::new(dir)),
        failed: None,
    };
    let loss = match last {
        Some(_) => find_loss(&writer, &found, &unreadable)?,
        None => missing_log(&found, key.is_new),
    };
    if writer.chain.sequence() == 0 && found.is_empty() {
        // Before the first event, so that a log with events always has a record outside it.
        heads.keep(&writer.kept_head())?;
    }
    recover(&mut writer, loss, opened, unfinished)?;
    heads.keep(&writer.kept_head())?;
    Ok(Opened { writer, heads })
}

/// The event of a start, of the time at which it goes on.
fn opened(
    options: &AuditOptions,
    last: Option<&StoredEvent>,
    state: &Connection,
) -> Result<EventDraft, StoreError> {
    let last = last.map(StoredEvent::event).transpose()?;
    let newest = last.as_ref().map_or(0, |last| last.created_at);
    let resumed = resume(newest, &*options.clock, state)?;
    let opened = EventDraft::new(EventKind::LogOpened, options.clock.now_ms())
        .text("version", &options.version)
        .flag("clean", last.is_none_or(|last| last.kind == EventKind::LogClosed));
    Ok(resumed.note(opened))
}

/// Where a start notes that events are missing, and that the state is older than the log.
pub(super) const LOST_EVENTS: &str = "loss";
pub(super) const LOST_STATE: &str = "stateLoss";

/// What a start has found missing, now or earlier, until the event about it is pruned.
pub(super) fn noted_loss(
    connection: &Connection,
    note: &'static str,
) -> Result<Option<String>, StoreError> {
    let noted = meta(connection, note).map_err(|error| unavailable(OPERATION, &error))?;
    Ok(noted.map(|noted| match noted.split_once(' ') {
        Some((event, words)) => format!("{words} (event {event})"),
        None => noted,
    }))
}

/// What a start finds missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Loss {
    #[error("the audit log is missing, and a new one was begun; its signed head outside was of event {}", .0.as_ref().map_or_else(|| "unknown".to_owned(), |head| head.sequence.to_string()))]
    Log(Option<SignedHead>),
    #[error("events are missing from the audit log: it ended at event {ended}, but its signed head outside is of event {}", .head.sequence)]
    Events { ended: u64, head: SignedHead },
    #[error("grants, agents and approvals are of an earlier time than the audit log: the signed head in `drawgate.db` {}, but that in `audit.head` is of event {file}; stop the gateway and restore a backup, or compare agents and grants with the log", .state.map_or_else(|| "is gone".to_owned(), |at| format!("is of event {at}")))]
    State { state: Option<u64>, file: u64 },
    #[error(
        "it is not known whether grants, agents and approvals are of an earlier time than the audit log: the signed head in `drawgate.db` can't be read, and that in `audit.head` is of event {file}; compare agents and grants with the log"
    )]
    StateHead { file: u64 },
    #[error(
        "the signed heads outside the audit log are gone or can't be read, so events may have been removed from its end"
    )]
    Heads,
}

impl Loss {
    const fn key(&self) -> &'static str {
        match self {
            Self::Log(_) | Self::Events { .. } | Self::Heads => LOST_EVENTS,
            Self::State { .. } | Self::StateHead { .. } => LOST_STATE,
        }
    }

    /// Writes it down in the event of the start.
    fn note(&self, opened: EventDraft) -> EventDraft {
        let with = |opened: EventDraft, head: &SignedHead| {
            opened.number("lostHead", head.sequence).text("lostHash", &head.hash)
        };
        match self {
            Self::Log(None) => opened.flag("logMissing", true),
            Self::Log(Some(head)) => with(opened.flag("logMissing", true), head),
            Self::Events { head, .. } if head_copies::may_be_lost(head) => {
                with(opened, head).flag("machineRestarted", true)
            }
            Self::Events { head, .. } => with(opened, head),
            Self::Heads => opened.flag("headMissing", true),
            Self::StateHead { .. } => opened.flag("stateHeadUnreadable", true),
            Self::State { state, .. } => {
                opened.flag("stateSetBack", true).number("stateHead", state.unwrap_or_default())
            }
        }
    }
}

/// A log without events: was there one before?
fn missing_log(found: &[HeadCopy], is_new: bool) -> Option<Loss> {
    let newest = found.iter().filter_map(|found| found.head.as_ref().ok());
    let newest = newest.max_by_key(|head| head.sequence);
    match newest {
        Some(head) if head.sequence > 0 => Some(Loss::Log(Some(head.clone()))),
        // A start that died before its first event.
        Some(_) => None,
        None => (!is_new || !found.is_empty()).then_some(Loss::Log(None)),
    }
}

/// The newest head outside the log must be in it.
fn find_loss(
    writer: &Writer,
    found: &[HeadCopy],
    unreadable: &[Place],
) -> Result<Option<Loss>, StoreError> {
    let own = writer.signer.keys().public_hex();
    let ours = found.iter().filter_map(|found| found.head.as_ref().ok());
    let ours = ours.filter(|head| head.key == own && head.install == writer.install);
    let Some(head) = ours.max_by_key(|head| head.sequence) else { return Ok(Some(Loss::Heads)) };
    let failed = |error: rusqlite::Error| unavailable(OPERATION, &error);
    let first: i64 = writer
        .connection
        .query_row("SELECT min(seq) FROM event", [], |row| row.get(0))
        .map_err(failed)?;
    let before_all = head.sequence < u64::try_from(first).unwrap_or_default();
    if before_all || writer.hash_at(head.sequence).map_err(failed)?.as_ref() == Some(&head.hash) {
        return Ok(set_back(found, unreadable));
    }
    Ok(Some(Loss::Events { ended: writer.chain.sequence(), head: head.clone() }))
}

/// The state's copy of the head is written before that in the file, so it is never the older one, unless
/// the machine went down before it was synced.
fn set_back(found: &[HeadCopy], unreadable: &[Place]) -> Option<Loss> {
    let of = |place| found.iter().find(|copy| copy.place == place).map(|copy| copy.head.as_ref());
    let head = of(Place::File)?.ok()?;
    let file = head.sequence;
    let state = match of(Place::State) {
        Some(Ok(state)) => Some(state.sequence),
        Some(Err(_)) => return Some(Loss::StateHead { file }),
        None if unreadable.contains(&Place::State) => return Some(Loss::StateHead { file }),
        None => None,
    };
    let is_older = state < Some(file) && !head_copies::may_be_lost(head);
    is_older.then_some(Loss::State { state, file })
}

fn recover(
    writer: &mut Writer,
    loss: Option<Loss>,
    opened: EventDraft,
    found: Vec<ToolAuditEvent>,
) -> Result<(), StoreError> {
    let now = opened.at_ms();
    let count = found.len() as u64;
    let noted = writer.chain.sequence() + 1;
    let mut drafts = match &loss {
        Some(loss) => vec![loss.note(opened)],
        None => vec![opened],
    };
    drafts.extend(found.into_iter().map(|decision| unknown_outcome(&decision, now)));
    if count > 0 {
        drafts.push(EventDraft::new(EventKind::Recovered, now).number("calls", count));
    }
    writer.commit_with(OPERATION, &drafts, |connection| match &loss {
        Some(loss) => put_meta(connection, loss.key(), &format!("{noted} {loss}")),
        None => Ok(()),
    })?;
    if let Some(loss) = loss {
        tracing::error!(event = noted, "{loss}; verify the audit log");
    }
    Ok(())
}

/// What a decision says about the run that called, and its outcome too.
const OF_RUNS: [&str; 4] = ["agent", "depth", "rootRunId", "runId"];

fn unknown_outcome(decision: &ToolAuditEvent, now: u64) -> EventDraft {
    let known = OF_RUNS.iter().filter_map(|key| Some((*key, decision.rest.get(*key)?)));
    let draft = known.fold(EventDraft::new(EventKind::Outcome, now), |draft, (key, value)| {
        draft.canonical(key, canonical::to_string(value))
    });
    draft
        .maybe_text("callId", decision.call_id.as_deref())
        .maybe_text("toolId", decision.tool_id.as_deref())
        .maybe_text("requestId", decision.request_id.as_deref())
        .maybe_text("principal", decision.principal.as_deref())
        .maybe_text("inputHash", decision.input_hash.as_deref())
        .text("code", "UNKNOWN")
        .flag("success", false)
        .flag("started", true)
        .flag("recovered", true)
}

/// The decisions without an outcome, oldest first.
fn find_open(
    connection: &Connection,
    checkpoint: Option<&Checkpoint>,
) -> Result<Vec<ToolAuditEvent>, StoreError> {
    let mut after = checkpoint.map_or(0, |checkpoint| {
        checkpoint.oldest_open.map_or(checkpoint.sequence, |oldest| oldest - 1)
    });
    let mut open: BTreeMap<String, ToolAuditEvent> = BTreeMap::new();
    loop {
        let page = events(connection, after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.sequence;
        for stored in &page {
            let event = stored.event()?;
            match (event.kind, event.call_id.clone()) {
                (EventKind::Decision, Some(call)) => drop(open.insert(call, event)),
                (EventKind::Outcome, Some(call)) => drop(open.remove(&call)),
                _ => {}
            }
        }
    }
    let mut found: Vec<ToolAuditEvent> = open.into_values().collect();
    found.sort_by_key(|event| event.sequence);
    Ok(found)
}

fn check_end(last: Option<&StoredEvent>, head: Option<&HeadRecord>) -> Result<(), StoreError> {
    let (last, head) = match (last, head) {
        (None, None) => return Ok(()),
        (Some(last), Some(head)) => (last, head),
        (None, Some(head)) => {
            return Err(damaged(&format!(
                "it is empty, but its head record says {}",
                head.sequence
            )));
        }
        (Some(last), None) => {
            return Err(damaged(&format!("it has {} events and no head record", last.sequence)));
        }
    };
    let Ok(serde_json::Value::Object(mut event)) = json::parse(last.body.as_bytes()) else {
        return Err(damaged(&format!("event {} can't be read", last.sequence)));
    };
    let hash = event.shift_remove("hash");
    let computed = canonical::hash(&serde_json::Value::Object(event));
    let matches = hash.as_ref().and_then(serde_json::Value::as_str) == Some(computed.as_str());
    if !matches || last.sequence != head.sequence || computed != head.head {
        return Err(damaged(&format!(
            "event {} is not what was written; the head record says {}",
            last.sequence, head.sequence
        )));
    }
    Ok(())
}

fn damaged(reason: &str) -> StoreError {
    corrupt(
        OPERATION,
        &format!("{reason}; verify the audit log, then move `audit.db` away to begin a new log"),
    )
}

fn install(connection: &Connection, has_events: bool) -> Result<String, StoreError> {
    let failed = |error: rusqlite::Error| unavailable(OPERATION, &error);
    match meta(connection, "install").map_err(failed)? {
        Some(install) => Ok(install),
        None if has_events => Err(damaged("it does not name its installation")),
        None => {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|error| unavailable(OPERATION, &error))?;
            let install = hex::encode(bytes);
            put_meta(connection, "install", &install).map_err(failed)?;
            Ok(install)
        }
    }
}

/// The earliest and the latest time of the events after a sequence.
fn times_after(connection: &Connection, after: u64) -> Result<Option<(u64, u64)>, StoreError> {
    let sql =
        "SELECT min(json_extract(body, '$.createdAt')), max(json_extract(body, '$.createdAt'))
        FROM event WHERE seq > ?1";
    let number = |value: i64| u64::try_from(value).unwrap_or_default();
    let times = |row: &rusqlite::Row<'_>| {
        let (earliest, latest): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(earliest.map(number).zip(latest.map(number)))
    };
    connection
        .query_row(sql, [integer(after)], times)
        .map_err(|error| unavailable(OPERATION, &error))
}

fn last_event(connection: &Connection) -> Result<Option<StoredEvent>, StoreError> {
    connection
        .query_row("SELECT seq, body FROM event ORDER BY seq DESC LIMIT 1", [], stored)
        .optional()
        .map_err(|error| unavailable(OPERATION, &error))
}

fn last_checkpoint(connection: &Connection) -> Result<Option<Checkpoint>, StoreError> {
    let sql = "SELECT body FROM checkpoint ORDER BY seq DESC LIMIT 1";
    let body: Option<String> = connection
        .query_row(sql, [], |row| row.get(0))
        .optional()
        .map_err(|error| unavailable(OPERATION, &error))?;
    body.map(|body| {
        Checkpoint::parse(&body).map_err(|error| damaged(&format!("checkpoint: {error}")))
    })
    .transpose()
}

/// The newest checkpoint's sequence and hash; after pruning it may be known by its hash alone.
fn checkpointed(
    checkpoint: Option<&Checkpoint>,
    connection: &Connection,
) -> Result<(u64, String), StoreError> {
    if let Some(checkpoint) = checkpoint {
        return Ok((checkpoint.sequence, checkpoint.hash()));
    }
    let head = head_record(connection)?;
    Ok((0, head.map_or_else(|| ZERO_HASH.to_owned(), |head| head.checkpoint)))
}
