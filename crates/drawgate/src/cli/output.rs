//! What commands print: tables and prose for people, JSON for programs.

use std::io::{self, IsTerminal, Write};

use anyhow::Context as _;
use drawgate_core::registry::visible_text;
use rustix::termios::{QueueSelector, tcflush};
use serde::Serialize;

use super::progress::{Ends, print_above};
use super::screen::Screen;
use super::table::{self, Column};

/// Prints a line on standard error, like `eprintln!`. Hidden and control characters, which others may have
/// written, are shown and not obeyed.
macro_rules! notice {
    ($($text:tt)*) => {
        $crate::cli::output::painted_notice(
            &drawgate_core::registry::visible_text(&format!($($text)*)),
        )
    };
}

/// The same for a line in which all that others wrote has been made visible already.
pub(super) fn painted_notice(line: &str) {
    // Where standard error is closed there is no reader.
    let _closed = print_above(Ends::Line, || writeln!(io::stderr().lock(), "{line}"));
}

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
        if self.json { self.json(value) } else { self.text(&text()) }
    }

    /// JSON of `value`, or a table with a sentence for when it is empty.
    pub(super) fn table(
        self,
        value: &impl Serialize,
        columns: &[Column],
        rows: &[Vec<String>],
        empty: &str,
    ) -> anyhow::Result<()> {
        if self.json {
            return self.json(value);
        }
        if rows.is_empty() {
            return self.text(empty);
        }
        self.painted(&table::render(columns, rows, Screen::stdout()))
    }

    /// Text in which all that others wrote has been made visible already; its colours stay.
    pub(super) fn painted(self, text: &str) -> anyhow::Result<()> {
        self.raw(format!("{text}\n").as_bytes())
    }

    /// Text for a person. Hidden and control characters are shown, not obeyed, on a terminal.
    pub(super) fn text(self, text: &str) -> anyhow::Result<()> {
        let line_end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        let shown = if io::stdout().is_terminal() { visible_text(text) } else { text.into() };
        self.raw(format!("{shown}{line_end}").as_bytes())
    }

    /// JSON of `value`, as clean as text on a terminal.
    pub(super) fn json(self, value: &impl Serialize) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(value)?;
        let shown = if io::stdout().is_terminal() { escaped(&json) } else { json };
        self.raw(format!("{shown}\n").as_bytes())
    }

    /// Bytes as they are.
    #[expect(clippy::unused_self, reason = "one of the ways to print, like its siblings")]
    pub(super) fn raw(self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        let is_open = !bytes.ends_with(b"\n") && out.is_terminal();
        let ends = if is_open { Ends::Open } else { Ends::Line };
        print_above(ends, || out.write_all(bytes).and_then(|()| out.flush())).map_err(not_written)
    }
}

/// The same JSON, with the characters that a terminal obeys or hides written as numbers. They stand in
/// its strings only.
fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if visible_text(c.encode_utf8(&mut [0; 4])).chars().eq([c]) {
            shown.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                shown.extend(format!("\\u{unit:04x}").chars());
            }
        }
    }
    shown
}

/// How a person agrees to what a command shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// By an option of the command.
    Given,
    /// The person at the terminal is asked.
    Asked,
    /// Nobody is there who could be asked.
    Impossible,
}

impl Consent {
    /// What is possible here; `given` is whether the command has the option.
    pub(super) fn new(given: bool, out: Output) -> Self {
        let can_ask = io::stdin().is_terminal() && io::stdout().is_terminal() && !out.is_json();
        match (given, can_ask) {
            (true, _) => Self::Given,
            (false, true) => Self::Asked,
            (false, false) => Self::Impossible,
        }
    }

    /// What is possible where nothing but a person will do: they must see the question, and type the
    /// answer. Programs that read a command's output have standard error too.
    pub(super) fn of_person(out: Output) -> Self {
        let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal() && !out.is_json();
        if can_ask { Self::Asked } else { Self::Impossible }
    }

    /// Whether the person agrees.
    pub(super) async fn to(self, question: &str) -> anyhow::Result<bool> {
        match self {
            Self::Given => Ok(true),
            Self::Asked => agrees(question).await,
            Self::Impossible => Ok(false),
        }
    }
}

async fn agrees(question: &str) -> anyhow::Result<bool> {
    // What was typed or pasted before the question is no answer to it.
    let _not_a_terminal = tcflush(io::stdin(), QueueSelector::IFlush);
    let question = visible_text(question);
    let _closed = print_above(Ends::Open, || write!(io::stderr().lock(), "{question} [y/N] "));
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    let answer = answer.await?.context("the answer can't be read")?;
    print_above(Ends::Line, || ());
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// The reader of standard output has closed it. That ends a command, but is not a failure.
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
