//! What the place where a command writes can show: how wide it is, and whether it has colours.

use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;

use chrono::{Local, TimeZone as _};

use super::machine;

/// Columns of a terminal that does not say how many it has.
const USUAL_WIDTH: usize = 80;

/// Where a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Screen {
    /// Columns; `None` where it is not a terminal, and nothing is cut.
    pub(super) width: Option<usize>,
    /// Whether it has colours.
    pub(super) has_colours: bool,
}

/// What a word means. Colours only underline what the word says already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// As it should be.
    Good,
    /// Failed, or refused.
    Bad,
    /// Waits for something.
    Open,
    /// The title of a column.
    Title,
    /// Less important.
    Faint,
    /// Nothing special.
    Plain,
}

impl Screen {
    /// Standard output.
    pub(super) fn stdout() -> Self {
        Self::of(io::stdout().is_terminal())
    }

    /// A terminal of this process, or something else.
    pub(super) fn of(is_terminal: bool) -> Self {
        let has_colours = is_terminal && machine::has_colours();
        Self { width: is_terminal.then(|| columns(io::stdout())), has_colours }
    }

    /// The text in the colour of its tone, where there are colours.
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Open => "33",
            Tone::Title => "1",
            Tone::Faint => "2",
            Tone::Plain => return text.to_owned(),
        };
        if self.has_colours && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The columns of a terminal.
pub(super) fn columns(terminal: impl AsFd) -> usize {
    let columns = rustix::termios::tcgetwinsize(terminal).map(|size| usize::from(size.ws_col));
    columns.ok().filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH)
}

/// A time for people: `2026-11-17 14:05:09`, in local time.
pub(super) fn local_time(ms: u64) -> String {
    let known = i64::try_from(ms).ok().and_then(|ms| Local.timestamp_millis_opt(ms).earliest());
    known.map_or_else(|| "?".to_owned(), |at| at.format("%Y-%m-%d %H:%M:%S").to_string())
}

/// A number of things, in words: `1 tool`, `2 tools`.
pub(super) fn count(number: impl TryInto<u64>, one: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}
