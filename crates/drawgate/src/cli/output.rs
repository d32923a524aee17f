//! What commands print: tables and prose for people, JSON for programs.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Table, presets};
use drawgate_core::registry::visible_text;
use serde::Serialize;

/// Where a command's answer goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    json: bool,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(super) fn is_json(self) -> bool {
        self.json
    }

    /// JSON of `value`, or the text.
    pub(super) fn either(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if self.json {
            self.raw(format!("{}\n", serde_json::to_string_pretty(value)?).as_bytes())
        } else {
            self.text(&text())
        }
    }

    /// JSON of `value`, or a table with a sentence for when it is empty.
    pub(super) fn table(
        self,
        value: &impl Serialize,
        header: &[&str],
        rows: Vec<Vec<String>>,
        empty: &str,
    ) -> anyhow::Result<()> {
        self.either(value, || {
            if rows.is_empty() {
                return empty.to_owned();
            }
            let mut table = Table::new();
            table
                .load_style(presets::NOTHING)
                .set_header(header.iter().map(|text| text.to_uppercase()));
            for row in rows {
                table.add_row(row.iter().map(|cell| visible_text(cell).into_owned()));
            }
            let text = table.to_string();
            text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
        })
    }

    /// Text for a person. Hidden and control characters are shown, not obeyed, on a terminal.
    pub(super) fn text(self, text: &str) -> anyhow::Result<()> {
        let line_end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        let shown = if io::stdout().is_terminal() { visible_text(text) } else { text.into() };
        self.raw(format!("{shown}{line_end}").as_bytes())
    }

    /// Bytes as they are.
    #[expect(clippy::unused_self, reason = "one of the ways to print, like its siblings")]
    pub(super) fn raw(self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(not_written)
    }
}

/// Whoever read standard output has had enough. That ends a command, but is no failure.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
pub(super) struct Closed;

/// Tells a reader that has gone away from a disk that is full.
pub(super) fn not_written(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Closed.into(),
        _ => anyhow::Error::from(error).context("standard output can't be written"),
    }
}

/// Milliseconds since the epoch, for people: `2026-11-15 10:20:30Z`.
pub(super) fn time(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// The date of a day since 1970 in the Gregorian calendar, by counting eras of 400 years from March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    #[test]
    fn times() {
        assert_eq!(super::time(0), "1970-01-01 00:00:00Z");
        assert_eq!(super::time(951_782_400_000), "2000-02-29 00:00:00Z");
        assert_eq!(super::time(1_794_738_030_999), "2026-11-15 10:20:30Z");
    }
}
