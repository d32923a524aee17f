//! Tables that fit where they are shown. On a terminal that is too narrow, columns that matter less are
//! left out, then long texts are cut; where even that is not enough, each row becomes a block of lines.
//! Where nobody looks at a terminal, nothing is cut.

use drawgate_core::registry::visible_text;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::screen::{Screen, Tone};

/// Columns between two cells.
const GAP: usize = 2;
/// The narrowest that a text is cut to.
const NARROWEST: usize = 16;
/// What the lines of a block begin with, but for its first.
const INDENT: &str = "  ";
/// Columns that a text should have before others are shown that matter less.
const COMFORTABLE: usize = 32;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    title: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    State,
    Cut,
    Spare,
}

/// A column that is always there and never cut: what a person copies.
pub(super) const fn whole(title: &'static str) -> Column {
    Column { title, kind: Kind::Whole }
}

/// The same, of words that say how something is.
pub(super) const fn state(title: &'static str) -> Column {
    Column { title, kind: Kind::State }
}

/// A column of texts that may be cut.
pub(super) const fn cut(title: &'static str) -> Column {
    Column { title, kind: Kind::Cut }
}

/// A column that is left out where it does not fit.
pub(super) const fn spare(title: &'static str) -> Column {
    Column { title, kind: Kind::Spare }
}

/// The table as text, with the colours of the screen and nothing else that a terminal obeys.
pub(super) fn render(columns: &[Column], rows: &[Vec<String>], screen: Screen) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|it| one_line(it)).collect()).collect();
    let natural: Vec<usize> =
        (0..columns.len()).map(|at| natural_width(columns, &rows, at)).collect();
    match widths(columns, &natural, screen.width) {
        Some(widths) => lines(columns, &rows, &widths, screen),
        None => blocks(columns, &rows, screen),
    }
}

/// A cell is one line: what others wrote must not look like a row of its own.
fn one_line(text: &str) -> String {
    visible_text(text).split(['\n', '\r']).collect::<Vec<_>>().join(" ")
}

fn natural_width(columns: &[Column], rows: &[Vec<String>], at: usize) -> usize {
    let title = columns.get(at).map_or(0, |column| column.title.width());
    let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width());
    cells.chain([title]).max().unwrap_or(0)
}

/// The width of each column, `None` for one that is left out; nothing if the table can't fit.
fn widths(
    columns: &[Column],
    natural: &[usize],
    screen: Option<usize>,
) -> Option<Vec<Option<usize>>> {
    let mut widths: Vec<Option<usize>> = natural.iter().copied().map(Some).collect();
    let Some(room) = screen else { return Some(widths) };
    let needed = |widths: &[Option<usize>], text: usize| {
        let least = |(column, width): (&Column, &Option<usize>)| match (column.kind, *width) {
            (_, None) => None,
            (Kind::Cut, Some(width)) => Some(width.min(text) + GAP),
            (Kind::Whole | Kind::State | Kind::Spare, Some(width)) => Some(width + GAP),
        };
        columns.iter().zip(widths).filter_map(least).sum::<usize>().saturating_sub(GAP)
    };
    let spares = columns.iter().enumerate().rev().filter(|(_, column)| column.kind == Kind::Spare);
    for (at, _) in spares {
        if needed(&widths, COMFORTABLE) <= room {
            break;
        }
        if let Some(width) = widths.get_mut(at) {
            *width = None;
        }
    }
    if needed(&widths, NARROWEST) > room {
        return None;
    }
    share(columns, &mut widths, room);
    Some(widths)
}

/// Cuts the widest texts first, until all fit.
fn share(columns: &[Column], widths: &mut [Option<usize>], room: usize) {
    loop {
        let total: usize = widths.iter().flatten().map(|width| width + GAP).sum();
        let excess = total.saturating_sub(GAP).saturating_sub(room);
        let cuttable = columns.iter().zip(widths.iter_mut());
        let widest = cuttable
            .filter(|(column, _)| column.kind == Kind::Cut)
            .filter_map(|(_, width)| width.as_mut());
        match widest.max_by_key(|width| **width) {
            Some(width) if excess > 0 && *width > NARROWEST => *width -= 1,
            _ => return,
        }
    }
}

fn lines(
    columns: &[Column],
    rows: &[Vec<String>],
    widths: &[Option<usize>],
    screen: Screen,
) -> String {
    let title = |column: &Column| column.title.to_uppercase();
    let titles = columns.iter().map(|column| (title(column), Tone::Title)).collect();
    let tone = |at: usize, text: &str| match columns.get(at).map(|column| column.kind) {
        Some(Kind::State) => tone_of(text),
        _ => Tone::Plain,
    };
    let rows = rows.iter().map(|row| {
        row.iter().enumerate().map(|(at, cell)| (cell.clone(), tone(at, cell))).collect()
    });
    let all = std::iter::once(titles).chain(rows);
    all.map(|cells: Vec<(String, Tone)>| line(&cells, widths, screen))
        .collect::<Vec<_>>()
        .join("\n")
}

fn line(cells: &[(String, Tone)], widths: &[Option<usize>], screen: Screen) -> String {
    let mut line = String::new();
    // Blanks are put before a cell only, so that none stand at the end of a line.
    let mut blanks = 0;
    for ((text, tone), width) in cells.iter().zip(widths) {
        let Some(width) = *width else { continue };
        let text = shortened(text, width);
        if !text.is_empty() {
            line.extend(std::iter::repeat_n(' ', blanks));
            line.push_str(&screen.paint(*tone, &text));
            blanks = 0;
        }
        blanks += width.saturating_sub(text.width()) + GAP;
    }
    line
}

/// Each row as a block: its first cell, and the others below it.
fn blocks(columns: &[Column], rows: &[Vec<String>], screen: Screen) -> String {
    let titles = columns.iter().map(|column| column.title.width()).max().unwrap_or(0);
    let block = |row: &Vec<String>| {
        let cells = columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
        let lines = cells.enumerate().map(|(at, (column, cell))| {
            let indent = if at == 0 { "" } else { INDENT };
            let title = screen.paint(Tone::Title, &column.title.to_uppercase());
            let used = indent.len() + column.title.width();
            let blanks = " ".repeat((INDENT.len() + titles + GAP).saturating_sub(used));
            let tone = if column.kind == Kind::State { tone_of(cell) } else { Tone::Plain };
            format!("{indent}{title}{blanks}{}", screen.paint(tone, cell))
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    rows.iter().map(block).collect::<Vec<_>>().join("\n")
}

/// The beginning of a text, in this many columns.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let fits = text.chars().take_while(|c| {
        let wide = c.width().unwrap_or(0);
        let fits = wide <= room;
        room = room.saturating_sub(wide);
        fits
    });
    let mut shown: String = fits.collect();
    shown.truncate(shown.trim_end().len());
    shown.push('…');
    shown
}

/// What a word about a state means. A word that is not known is plain.
pub(super) fn tone_of(word: &str) -> Tone {
    match word.split([' ', ',', ':']).next().unwrap_or_default() {
        "ready" | "ok" | "OK" | "idle" | "approved" | "used" | "connected" | "running"
        | "enabled" | "accepted" | "active" | "done" => Tone::Good,
        "failed" | "refused" | "denied" | "deny" | "has" | "broken" | "invalid" | "unusable"
        | "cancelled" => Tone::Bad,
        "pending" | "starting" | "waiting" | "waits" | "away" | "changed" | "new" | "asked"
        | "asking" => Tone::Open,
        "expired" | "disabled" => Tone::Faint,
        // Codes of refusals, such as `PERMISSION_DENIED`.
        code if code.len() > 2
            && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') =>
        {
            Tone::Bad
        }
        _ => Tone::Plain,
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
