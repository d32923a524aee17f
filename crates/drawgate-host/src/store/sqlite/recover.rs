//! Opening the audit log: its end must be what was written, and calls that were under way when the
//! process died get an outcome that says so.

use std::collections::BTreeMap;

use drawgate_core::audit::{
    Chain, Checkpoint, EventDraft, EventKind, HeadRecord, OpenCalls, StoredEvent, ToolAuditEvent,
    ZERO_HASH,
};
use drawgate_core::store::StoreError;
use drawgate_core::{canonical, json};
use rusqlite::{Connection, OptionalExtension as _};

use super::super::key;
use super::super::lock::DataDir;
use super::audit::{AuditOptions, events, stored};
use super::commit::{Writer, head_record, meta, put_meta};
use super::connection::{corrupt, open_audit, unavailable};

const OPERATION: &str = "open the audit log";
/// Events read at a time while looking for unfinished calls.
const PAGE: usize = 512;

/// Opens the log for its one writer.
pub(super) fn open(dir: &DataDir, options: AuditOptions) -> Result<Writer, StoreError> {
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
    let found = find_open(&connection, checkpoint.as_ref())?;
    let closed = match &last {
        Some(last) => last.event()?.kind == EventKind::LogClosed,
        None => true,
    };
    let chain = head.map_or_else(Chain::default, |head| Chain::after(head.sequence, head.head));
    let checkpointed = checkpointed(checkpoint.as_ref(), &connection)?;
    let mut opened = EventDraft::new(EventKind::LogOpened, options.clock.now_ms())
        .text("install", &install)
        .text("version", &options.version)
        .text("previousHead", chain.head())
        .flag("clean", closed);
    if last.is_none() && !key.is_new {
        // The key outlived its log: somebody removed the file.
        opened = opened.flag("logMissing", true);
    }
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
        failed: None,
    };
    recover(&mut writer, opened, found)?;
    Ok(writer)
}

fn recover(
    writer: &mut Writer,
    opened: EventDraft,
    found: Vec<ToolAuditEvent>,
) -> Result<(), StoreError> {
    let now = opened.at_ms();
    let count = found.len() as u64;
    let mut drafts = vec![opened];
    drafts.extend(found.into_iter().map(|decision| unknown_outcome(&decision, now)));
    if count > 0 {
        drafts.push(EventDraft::new(EventKind::Recovered, now).number("calls", count));
    }
    writer.commit(&drafts).map(drop)
}

fn unknown_outcome(decision: &ToolAuditEvent, now: u64) -> EventDraft {
    EventDraft::new(EventKind::Outcome, now)
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
        &format!(
            "{reason}; run `drawgate audit verify`, then move `audit.db` away to begin a new log"
        ),
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
