//! Signs of life: what a command is doing when it takes long, and how far it is.
//!
//! On a terminal that is one line of standard error with a spinner, written over and over and erased at the
//! end; elsewhere each new state is a plain line. Programs that read JSON get nothing. What other code prints
//! goes above the line: all output of commands comes through [`print_above`].

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use drawgate_core::registry::visible_line;
use parking_lot::Mutex;

use super::machine;
use super::screen::columns;

/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(100);
/// What takes less is not shown on a terminal: a line that flashes up says nothing.
const TERMINAL_DELAY: Duration = Duration::from_millis(500);
/// What takes less is not worth a plain line.
const PLAIN_DELAY: Duration = Duration::from_secs(1);
/// The least time between two plain lines about one work.
const PLAIN_PAUSE: Duration = Duration::from_secs(5);
/// After so long without news a plain line says that the work still goes on.
const PLAIN_REMINDER: Duration = Duration::from_secs(30);
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

static LINE: Mutex<Line> = Mutex::new(Line::new());

/// Something that takes a while, shown as long as this value lives.
#[derive(Debug)]
pub(super) struct Progress {
    id: u64,
}

/// Where the signs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not looked at yet.
    Unknown,
    /// Nowhere: a program reads the output.
    Hidden,
    /// A terminal that can write a line over.
    Terminal,
    /// A file, a pipe, or a terminal that can't.
    Plain,
}

/// The last line of the terminal, and the work that it is about.
#[derive(Debug)]
struct Line {
    place: Place,
    /// The innermost work is last, and is what is shown.
    tasks: Vec<Task>,
    /// Columns that are drawn now.
    drawn: usize,
    /// Whether other output ended in the middle of a line, which must not be written over.
    is_occupied: bool,
    /// Whether the thread that draws is at work.
    is_drawing: bool,
    turns: usize,
    /// When a person last saw something else: work in many short steps is long, too.
    quiet_since: Option<Instant>,
}

#[derive(Debug)]
struct Task {
    id: u64,
    text: String,
    since: Instant,
    /// What was said of it in plain lines, and when.
    said: Option<(String, Instant)>,
}

/// Shows nothing from now on: a program reads what this one prints.
pub(super) fn hide() {
    LINE.lock().place = Place::Hidden;
}

impl Progress {
    /// Begins to show what is done: in the present, without a full stop, and how far it is.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self::begin(text.into(), Vec::push)
    }

    /// The same for what is shown only where nothing more precise is.
    pub(super) fn fallback(text: impl Into<String>) -> Self {
        Self::begin(text.into(), |tasks, task| tasks.insert(0, task))
    }

    fn begin(text: String, place: impl FnOnce(&mut Vec<Task>, Task)) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut line = LINE.lock();
        line.look();
        line.quiet_since.get_or_insert_with(Instant::now);
        if line.place != Place::Hidden {
            place(&mut line.tasks, Task { id, text, since: Instant::now(), said: None });
            if !std::mem::replace(&mut line.is_drawing, true) {
                // A thread, because work that blocks must not stop the signs of it.
                // Where there is none, only its signs are missing.
                let _none = std::thread::Builder::new().spawn(draw);
            }
        }
        Self { id }
    }

    /// Says a line that stays, whole however narrow the terminal is, because it has something to copy; and
    /// shows something else from now on.
    pub(super) fn announce(&self, announced: &str, text: impl Into<String>) {
        let (mut line, text) = (LINE.lock(), text.into());
        line.look();
        if line.place == Place::Hidden {
            return;
        }
        line.erase();
        let begin = if std::mem::take(&mut line.is_occupied) { "\n" } else { "" };
        write(&format!("{begin}drawgate: {}\n", visible_line(announced)));
        let now = Instant::now();
        line.quiet_since = Some(now);
        if let Some(task) = line.tasks.iter_mut().find(|task| task.id == self.id) {
            task.said = Some((text.clone(), now));
            task.text = text;
        }
    }

    /// Shows something else from now on: the next step, or a higher count.
    pub(super) fn say(&self, text: impl Into<String>) {
        let mut line = LINE.lock();
        if let Some(task) = line.tasks.iter_mut().find(|task| task.id == self.id) {
            task.text = text.into();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut line = LINE.lock();
        line.tasks.retain(|task| task.id != self.id);
        line.erase();
    }
}

/// Whether output leaves the terminal's line open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// It ends with a line, or does not go to a terminal.
    Line,
    /// It goes on in the same line.
    Open,
}

/// Prints something where the line is, which comes back below it.
pub(super) fn print_above<T>(ends: Ends, print: impl FnOnce() -> T) -> T {
    let mut line = LINE.lock();
    line.erase();
    line.is_occupied = ends == Ends::Open;
    line.quiet_since = Some(Instant::now());
    print()
}

/// Draws until nothing is under way.
fn draw() {
    loop {
        std::thread::sleep(TURN);
        let mut line = LINE.lock();
        if line.tasks.is_empty() {
            line.is_drawing = false;
            return;
        }
        line.turn();
    }
}

impl Line {
    const fn new() -> Self {
        let place = Place::Unknown;
        Self {
            place,
            tasks: Vec::new(),
            drawn: 0,
            is_occupied: false,
            is_drawing: false,
            turns: 0,
            quiet_since: None,
        }
    }

    fn look(&mut self) {
        if self.place == Place::Unknown {
            let can_write_over = io::stderr().is_terminal() && machine::can_write_over();
            self.place = if can_write_over { Place::Terminal } else { Place::Plain };
        }
    }

    fn turn(&mut self) {
        match self.place {
            Place::Terminal if !self.is_occupied => self.spin(),
            Place::Plain => self.tell(),
            Place::Terminal | Place::Hidden | Place::Unknown => {}
        }
    }

    fn spin(&mut self) {
        let turns = self.turns;
        let Some(task) = self.tasks.last() else { return };
        if self.quiet_since.is_none_or(|since| since.elapsed() < TERMINAL_DELAY) {
            return;
        }
        let spinner = SPINNER.get(turns % SPINNER.len()).copied().unwrap_or_default();
        let text = visible_line(&task.text);
        let text = spinner_line(spinner, &text, task.since.elapsed(), columns(io::stderr()));
        let width = text.chars().count();
        let rest = " ".repeat(self.drawn.saturating_sub(width));
        write(&format!("\r{text}{rest}"));
        (self.drawn, self.turns) = (width.max(self.drawn), turns.wrapping_add(1));
    }

    fn tell(&mut self) {
        let Some(task) = self.tasks.last_mut() else { return };
        let elapsed = task.since.elapsed();
        let text = match &task.said {
            None if elapsed < PLAIN_DELAY => return,
            Some((_, at)) if at.elapsed() < PLAIN_PAUSE => return,
            Some((said, at)) if *said == task.text => {
                if at.elapsed() < PLAIN_REMINDER {
                    return;
                }
                format!("{} ({} s)", task.text, elapsed.as_secs())
            }
            None | Some(_) => task.text.clone(),
        };
        task.said = Some((task.text.clone(), Instant::now()));
        write(&format!("drawgate: {}\n", visible_line(&text)));
    }

    /// Takes the line away. Blanks instead of control sequences, which not every terminal has.
    fn erase(&mut self) {
        if self.drawn > 0 {
            write(&format!("\r{}\r", " ".repeat(self.drawn)));
            self.drawn = 0;
        }
    }
}

/// What is drawn, in one line of the terminal: the text is cut, the time is not.
fn spinner_line(spinner: char, text: &str, elapsed: Duration, columns: usize) -> String {
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let time = match elapsed.as_secs() {
        0 => String::new(),
        seconds => format!(" ({seconds} s)"),
    };
    // The last column stays free: some terminals begin a new line when it is written.
    let room = columns.saturating_sub(3 + time.len());
    let shown: String = if text.chars().count() > room {
        text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
    } else {
        text
    };
    format!("{spinner} {shown}{time}")
}

fn write(text: &str) {
    let mut out = io::stderr().lock();
    // Signs of life are lost where standard error is closed.
    let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_the_terminal_and_keeps_its_time() {
        let line = |text: &str, seconds, columns| {
            spinner_line('*', text, Duration::from_secs(seconds), columns)
        };
        assert_eq!(line("fetching `a`", 0, 80), "* fetching `a`");
        assert_eq!(line("fetching\n `a`", 7, 80), "* fetching `a` (7 s)");
        let cut = line("fetching a package with a long name", 12, 20);
        assert_eq!(cut, "* fetching … (12 s)");
        assert_eq!(cut.chars().count(), 19);
    }
}
