//! A long load: whether memory, latency and files stay where they are, and what idle sessions take.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::children::{Load, Server};
use super::extras::{self, Audit};
use super::gateway::{self, Gateway, Program};
use super::paths::median;
use super::table::{Table, figure};
use crate::load::Client;

/// Clients of the load.
const CLIENTS: usize = 64;
/// How many looks are taken during the load.
const LOOKS: u32 = 20;
/// Sessions that are opened after the load and do nothing.
const IDLE_SESSIONS: usize = 1000;

/// What was seen.
#[derive(Serialize)]
pub(crate) struct Soak {
    minutes: f64,
    looks: Vec<Look>,
    audit: Audit,
    /// Resident memory before the idle sessions and with them.
    idle_mib: [f64; 2],
}

/// One part of the load.
#[derive(Serialize)]
struct Look {
    /// Since the beginning, at its end.
    minutes: f64,
    rps: f64,
    p50_us: f64,
    p99_us: f64,
    resident_mib: f64,
    /// All files in the data folder.
    data_mib: f64,
    wal_mib: f64,
    calls: u64,
}

/// Calls for so many minutes, then opens idle sessions.
pub(crate) async fn measure(program: &Program, upstream: &Server, minutes: f64) -> Result<Soak> {
    let gateway = Gateway::start(program, &gateway::http_server(upstream.address())).await?;
    let part = Duration::from_secs_f64(minutes * 60.0) / LOOKS;
    let begin = Instant::now();
    let mut looks = Vec::new();
    for number in 1..=LOOKS {
        looks.push(look(&gateway, part, begin).await?);
        eprintln!("soak, part {number} of {LOOKS}");
    }
    let before = gateway.resident_mib()?;
    let mut sessions = Vec::new();
    for _ in 0..IDLE_SESSIONS {
        let mut client = Client::connect(gateway.target()).await?;
        client.initialize().await?;
        sessions.push(client);
    }
    let with = gateway.resident_mib()?;
    drop(sessions);
    let calls = looks.iter().map(|look| look.calls).sum();
    let audit = extras::audit(program, gateway, calls).await?;
    Ok(Soak { minutes, looks, audit, idle_mib: [before, with] })
}

async fn look(gateway: &Gateway, part: Duration, begin: Instant) -> Result<Look> {
    let milliseconds = u64::try_from(part.as_millis())?.max(1);
    let target = gateway.target();
    let load = Load { target, clients: CLIENTS, milliseconds, list: None, watch: None };
    let measured = load.run().await?;
    let folder = gateway.folder();
    Ok(Look {
        minutes: begin.elapsed().as_secs_f64() / 60.0,
        rps: measured.rps,
        p50_us: measured.p50_us,
        p99_us: measured.p99_us,
        resident_mib: gateway.resident_mib()?,
        data_mib: mib(folder.data_bytes()?),
        wal_mib: mib(folder.audit_wal_bytes()?),
        calls: measured.answered,
    })
}

#[expect(clippy::cast_precision_loss, reason = "files are far below 2^52 bytes")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

impl Soak {
    pub(super) fn text(&self) -> String {
        let title = format!("{CLIENTS} clients for {} minutes", figure(self.minutes));
        let head =
            ["minutes", "calls/s", "p50 µs", "p99 µs", "RSS MiB", "data MiB", "WAL MiB", "B/call"];
        let mut table = Table::new(&title, &head);
        let (mut calls, mut data) = (0, None);
        for look in &self.looks {
            calls += look.calls;
            let grown = data.map(|before: f64| (look.data_mib - before) * 1024.0 * 1024.0);
            data = Some(look.data_mib);
            let each = grown.map_or(f64::NAN, |grown| grown / each_of(look.calls));
            let figures = [
                look.minutes,
                look.rps,
                look.p50_us,
                look.p99_us,
                look.resident_mib,
                look.data_mib,
                look.wal_mib,
                each,
            ];
            table.row(figures.map(figure));
        }
        table.text() + &self.facts(calls)
    }

    fn facts(&self, calls: u64) -> String {
        let change = |figure: fn(&Look) -> f64| {
            let third = self.looks.len() / 3;
            let of = |looks: &[Look]| median(looks.iter().map(figure).collect());
            let (first, rest) = self.looks.split_at(third);
            let (_, last) = rest.split_at(rest.len() - third);
            of(last) / of(first)
        };
        let [before, with] = self.idle_mib;
        format!(
            "last third against the first: resident {:.2}, p99 {:.2}, calls/s {:.2}\n\
             audit verify: intact, {} events for {calls} calls, checked in {:.0} ms\n\
             {IDLE_SESSIONS} idle sessions: {before:.1} MiB became {with:.1}, {:.1} KiB each\n",
            change(|look| look.resident_mib),
            change(|look| look.p99_us),
            change(|look| look.rps),
            self.audit.events,
            self.audit.verify_ms,
            (with - before) * 1024.0 / each_of(IDLE_SESSIONS as u64),
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn each_of(count: u64) -> f64 {
    count.max(1) as f64
}
