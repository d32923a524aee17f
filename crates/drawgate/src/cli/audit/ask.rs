//! Questions to the audit log: of the gateway that runs, or of the data folder where none does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::audit::search::{
    AuditEntry, AuditPage, AuditQuery, AuditView, FoundEvent, FoundEvents, IdKind, IdQuery,
};
use drawgate_core::canonical;
use drawgate_core::registry::visible_text;
use drawgate_core::store::AuditReader;
use drawgate_host::store::{DataDir, StorageChoice, open_reader};
use drawgate_runtime::operations::{find_audit, search_audit};
use serde_json::Value;

use super::line::{ended, is_uneventful, line, row};
use super::{now_ms, when};
use crate::cli::Context;
use crate::cli::backend::Backend;
use crate::cli::exit::OrUsage as _;
use crate::cli::progress::Progress;
use crate::cli::running::Running;
use crate::cli::screen::{Screen, Tone, count, local_time};
use crate::cli::table::{cut, shortened, spare, tone_of, whole};

/// How often `tail --follow` looks for new events.
const FOLLOW_PAUSE: Duration = Duration::from_millis(250);
/// Most events that `show` prints; a request id may be that of many calls.
const MAX_SHOWN: usize = 1000;

/// What to look for. All that is given must hold.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Question {
    /// From this time on: `14:05`, `2026-11-17`, `2026-11-17T14:05`, in local time, or `2h` ago. A
    /// clock time is the last one
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Up to this time, with all of the minute or day that it names. After `--since`, a clock time is
    /// the first one that follows
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Who called or acted, or the profile of a run
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// A tool by its name or id; `*` stands for anything
    #[arg(long, value_name = "PATTERN")]
    tool: Option<String>,
    /// How a call ended: `OK`, or a code such as `PERMISSION_DENIED`
    #[arg(long)]
    code: Option<String>,
    /// A text in what the log holds: redacted arguments, reasons, names. Case does not count
    #[arg(long)]
    text: Option<String>,
}

impl Question {
    fn query(&self, view: AuditView, limit: usize) -> anyhow::Result<AuditQuery> {
        let bounds = when::bounds(self.since.as_deref(), self.until.as_deref(), now_ms());
        let (since, until) = bounds.or_usage()?;
        Ok(AuditQuery {
            since,
            until,
            agent: self.agent.clone(),
            tool: self.tool.clone(),
            code: self.code.clone(),
            text: self.text.clone(),
            view,
            limit,
            after: None,
            before: None,
        })
    }
}

/// Which events are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    All,
    /// Not those of commands that opened the log, without a gateway, and did nothing.
    WithoutLooks,
}

/// Drops `log_opened` with the `log_closed` right behind it. A start that found something wrong stays.
fn drop_looks(found: &mut Vec<AuditEntry>) {
    let of = |entry: &AuditEntry, kind: &str| {
        entry.events.first().is_some_and(|event| event["kind"].as_str() == Some(kind))
    };
    let closed: BTreeSet<u64> =
        found.iter().filter(|it| of(it, "log_closed")).map(|it| it.sequence).collect();
    let is_look = |it: &&AuditEntry| {
        it.sequence > 1
            && closed.contains(&(it.sequence + 1))
            && it.events.first().is_some_and(is_uneventful)
    };
    let looks: BTreeSet<u64> = found.iter().filter(is_look).map(|it| it.sequence).collect();
    found.retain(|it| {
        let before = it.sequence.checked_sub(1);
        !looks.contains(&it.sequence) && !before.is_some_and(|before| looks.contains(&before))
    });
}

/// Who answers.
enum Log {
    Gateway(Backend),
    Folder(Arc<dyn AuditReader>),
}

/// Asks, and prints the answers.
pub(super) struct Asker<'a> {
    context: &'a Context,
    log: Log,
}

impl<'a> Asker<'a> {
    pub(super) async fn open(context: &'a Context) -> anyhow::Result<Self> {
        let log = if let Some(running) = Running::find(&context.data).await {
            Log::Gateway(Backend::Running(running))
        } else {
            let folder = StorageChoice::Folder(DataDir::existing(&context.data)?);
            Log::Folder(open_reader(&folder)?)
        };
        Ok(Self { context, log })
    }

    /// Prints the newest events, oldest of them first.
    pub(super) async fn tail(
        &self,
        lines: usize,
        follow: bool,
        shown: Shown,
        question: &Question,
    ) -> anyhow::Result<()> {
        let mut query = question.query(AuditView::Events, lines)?;
        let shown = if self.context.out.is_json() { Shown::All } else { shown };
        loop {
            // What comes while it is printed is left to the next time.
            let newest = AuditQuery { view: AuditView::Events, limit: 1, ..AuditQuery::default() };
            let newest = self.page(newest).await?.entries.first().map(|entry| entry.sequence);
            query.before = newest.map(|newest| newest + 1);
            let (found, _) = self.collect(query.clone(), shown).await?;
            self.print(&found)?;
            if !follow {
                return Ok(());
            }
            (query.after, query.limit) = (newest.or(query.after), usize::MAX);
            tokio::time::sleep(FOLLOW_PAUSE).await;
        }
    }

    /// Prints calls and other events, oldest first.
    pub(super) async fn search(&self, lines: usize, question: &Question) -> anyhow::Result<()> {
        let (found, has_more) =
            self.collect(question.query(AuditView::Calls, lines)?, Shown::All).await?;
        let columns = [
            whole("event"),
            whole("time"),
            whole("who"),
            spare("over"),
            cut("what"),
            cut("arguments"),
            cut("ended"),
            cut("approval"),
        ];
        let rows: Vec<_> = found.iter().map(row).collect();
        let empty =
            "nothing in the audit log matches; `drawgate audit tail` shows the newest events";
        self.context.out.table(&found, &columns, &rows, empty)?;
        if has_more {
            notice!(
                "drawgate: these are the newest {}; `-n` shows more, `--until` earlier ones",
                found.len()
            );
        }
        Ok(())
    }

    /// Prints all that an id belongs to.
    pub(super) async fn show(&self, id: &str) -> anyhow::Result<()> {
        let mut query = IdQuery::parse(id);
        let mut found = Vec::new();
        loop {
            let FoundEvents { events, next } = self.find(query.clone()).await?;
            found.extend(events);
            query.before = next;
            if next.is_none() || found.len() >= MAX_SHOWN {
                break;
            }
        }
        anyhow::ensure!(
            !found.is_empty(),
            "there is no event, call, request or approval `{}`; `drawgate audit tail` shows the newest events",
            query.id
        );
        found.sort_by_key(|found: &FoundEvent| (found.by, found.sequence));
        for kind in IdKind::ALL {
            let events: Vec<&FoundEvent> = found.iter().filter(|found| found.by == kind).collect();
            if !events.is_empty() {
                let (kind, id) = (kind.as_str(), &query.id);
                notice!("drawgate: {kind} {id}: {}", count(events.len(), "event"));
            }
            for found in events {
                self.context.out.json(&found.event)?;
            }
        }
        if query.before.is_some() {
            notice!("drawgate: there are more; these are the newest {}", found.len());
        }
        Ok(())
    }

    /// Asks page by page until there is enough; oldest first, and whether the log may have more.
    async fn collect(
        &self,
        mut query: AuditQuery,
        shown: Shown,
    ) -> anyhow::Result<(Vec<AuditEntry>, bool)> {
        let (limit, mut found) = (query.limit, Vec::new());
        let _progress = Progress::new("searching the audit log");
        let has_more = loop {
            query.limit = limit - found.len();
            let AuditPage { entries, next } = self.page(query.clone()).await?;
            found.extend(entries);
            if shown == Shown::WithoutLooks {
                drop_looks(&mut found);
            }
            query.before = next;
            if next.is_none() || found.len() >= limit {
                break next.is_some() || found.len() > limit;
            }
        };
        found.sort_by_key(|entry| std::cmp::Reverse(entry.sequence));
        found.truncate(limit);
        found.reverse();
        Ok((found, has_more))
    }

    async fn page(&self, query: AuditQuery) -> anyhow::Result<AuditPage> {
        match &self.log {
            Log::Gateway(backend) => backend.post("/audit/search", &query).await,
            Log::Folder(reader) => Ok(search_audit(&**reader, query).await?),
        }
    }

    async fn find(&self, query: IdQuery) -> anyhow::Result<FoundEvents> {
        match &self.log {
            Log::Gateway(backend) => backend.post("/audit/find", &query).await,
            Log::Folder(reader) => Ok(find_audit(&**reader, query).await?),
        }
    }

    fn print(&self, entries: &[AuditEntry]) -> anyhow::Result<()> {
        let screen = Screen::stdout();
        for entry in entries {
            let event = entry.events.first().unwrap_or(&Value::Null);
            if self.context.out.is_json() {
                self.context.out.raw(format!("{}\n", canonical::to_string(event)).as_bytes())?;
            } else {
                let when = local_time(event["createdAt"].as_u64().unwrap_or(0));
                let head = format!("{:>8}  {when}  ", entry.sequence);
                let line = line(event, entry.arguments.as_deref());
                let line = visible_text(&line);
                let room = screen.width.map_or(usize::MAX, |all| all.saturating_sub(head.len()));
                let tone = match tone_of(&ended(event)) {
                    Tone::Bad => Tone::Bad,
                    _ => Tone::Plain,
                };
                let line = screen.paint(tone, &shortened(&line, room));
                self.context.out.painted(&format!("{}{line}", screen.paint(Tone::Faint, &head)))?;
            }
        }
        Ok(())
    }
}
