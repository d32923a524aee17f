//! Structured logs on standard error. Every line passes the redactor.

use std::fmt;
use std::io::{IsTerminal as _, Write};
use std::sync::Arc;

use arc_swap::ArcSwap;
use chrono::{Local, TimeZone as _};
use drawgate_core::clock::Clock as _;
use drawgate_core::redact::Redactor;
use drawgate_core::registry::visible_line;
use drawgate_host::clock::SystemClock;
use tracing::Level;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::machine;
use drawgate_runtime::config::{LogFormat, LogLevel};

/// Begins to log. Later calls in the same process change nothing.
pub fn init(level: LogLevel, format: LogFormat, redactor: Arc<ArcSwap<Redactor>>) {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // Libraries below us may log what they carry; only their errors are let through.
    let targets = Targets::new()
        .with_default(Level::ERROR)
        .with_target("drawgate", level)
        .with_target("drawgate_agents", level)
        .with_target("drawgate_core", level)
        .with_target("drawgate_host", level)
        .with_target("drawgate_runtime", level)
        .with_target("drawgate_sources", level);
    let writer = RedactedStderr(redactor);
    let registry = tracing_subscriber::registry().with(targets);
    let done = match format {
        LogFormat::Json => {
            registry.with(tracing_subscriber::fmt::layer().json().with_writer(writer)).try_init()
        }
        LogFormat::Text => {
            let fields = debug_fn(write_field).delimited(" ");
            let layer = tracing_subscriber::fmt::layer().fmt_fields(fields).with_writer(writer);
            if std::io::stderr().is_terminal() {
                // For a person who looks on: the time of day, and no names of modules.
                let layer = layer.with_ansi(machine::has_colours()).with_timer(TimeOfDay);
                registry.with(layer.with_target(false)).try_init()
            } else {
                registry.with(layer.with_ansi(false)).try_init()
            }
        }
    };
    drop(done);
}

/// Writes a field of a line. What others wrote neither begins a line of its own nor moves the cursor.
fn write_field(line: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() != "message" {
        write!(line, "{}=", field.name())?;
    }
    fmt::Write::write_fmt(&mut OneLine(line), format_args!("{value:?}"))
}

/// Text on its way into a line: line breaks, and characters that a terminal obeys or hides, are escaped.
struct OneLine<'a, 'w>(&'a mut Writer<'w>);

impl fmt::Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(&visible_line(text))
    }
}

/// `14:05:09`, in local time.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, line: &mut Writer<'_>) -> std::fmt::Result {
        let now = i64::try_from(SystemClock::new().now_ms()).unwrap_or_default();
        match Local.timestamp_millis_opt(now).earliest() {
            Some(now) => write!(line, "{}", now.format("%H:%M:%S")),
            None => Ok(()),
        }
    }
}

struct RedactedStderr(Arc<ArcSwap<Redactor>>);

/// One line on its way out.
struct LogLine {
    redactor: Arc<Redactor>,
    text: Vec<u8>,
}

impl<'a> MakeWriter<'a> for RedactedStderr {
    type Writer = LogLine;

    fn make_writer(&'a self) -> LogLine {
        LogLine { redactor: self.0.load_full(), text: Vec::with_capacity(256) }
    }
}

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        // Where standard error is closed there is nobody to tell.
        let _ = std::io::stderr().lock().write_all(self.redactor.redact_text(&text).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn what_others_wrote_stays_in_its_line() {
        let mut text = String::new();
        let forged = "no\n2026-11-18 ERROR all is lost\r\u{1b}[2Jgone";
        write!(OneLine(&mut Writer::new(&mut text)), "{forged}").unwrap();
        assert_eq!(text, r"no\n2026-11-18 ERROR all is lost\u{d}\u{1b}[2Jgone");
    }
}
