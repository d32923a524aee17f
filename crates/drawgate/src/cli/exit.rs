//! Exit codes, and how a command says that it failed: one line for people, one JSON object for programs.
//!
//! `docs/commands.md` has the same table; a test compares them.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use drawgate_core::audit::Report;
use drawgate_core::registry::visible_text;
use drawgate_runtime::config::ConfigErrors;
use serde_json::json;

use super::output::{Closed, painted_notice};
use super::screen::{Screen, Tone};

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did what it was asked to.
    Done,
    /// It did not, or what it looked at has problems.
    Failed,
    /// `audit verify`: the log was tampered with.
    Tampered,
    /// `audit verify`: only the last record of the log is incomplete.
    Incomplete,
    /// `servers review`: something waits to be accepted.
    Waiting,
    /// `audit verify`: nothing is wrong with the log, but not all of it is proved.
    Unproved,
    /// The command line itself is wrong.
    Usage,
    /// It needs a running gateway, and none answers.
    Unavailable,
    /// A person must do it: at a terminal, or with the operator's token.
    Operator,
    /// The configuration has errors.
    Configuration,
}

impl Exit {
    /// Every way to end.
    pub const ALL: [Self; 10] = [
        Self::Done,
        Self::Failed,
        Self::Tampered,
        Self::Incomplete,
        Self::Waiting,
        Self::Unproved,
        Self::Usage,
        Self::Unavailable,
        Self::Operator,
        Self::Configuration,
    ];

    /// The number that a shell sees. From 64 on they are those of `sysexits.h`.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Tampered => 2,
            Self::Incomplete | Self::Waiting => 3,
            Self::Unproved => 4,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::Operator => 77,
            Self::Configuration => 78,
        }
    }

    /// Its name: `code` of an error as JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Tampered => "tampered",
            Self::Incomplete => "incomplete",
            Self::Waiting => "waiting",
            Self::Unproved => "unproved",
            Self::Usage => "usage",
            Self::Unavailable => "unavailable",
            Self::Operator => "operator",
            Self::Configuration => "configuration",
        }
    }

    /// What `audit verify` found.
    pub(super) const fn of_report(report: &Report) -> Self {
        match report.exit_code() {
            0 => Self::Done,
            2 => Self::Tampered,
            3 => Self::Incomplete,
            _ => Self::Unproved,
        }
    }

    /// The way in which a command failed.
    fn of_error(error: &anyhow::Error) -> Self {
        match error.downcast_ref::<Ended>() {
            Some(ended) => ended.exit,
            None if error.is::<ConfigErrors>() => Self::Configuration,
            None => Self::Failed,
        }
    }

    /// An error that ends a command in this way.
    pub(super) fn error(self, message: impl Into<String>) -> anyhow::Error {
        Ended { exit: self, message: message.into() }.into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// An error that is not an ordinary failure.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Ended {
    exit: Exit,
    message: String,
}

/// Says what went wrong with an argument that clap could not check.
pub(super) trait OrUsage<T> {
    /// The same, as an error of usage.
    fn or_usage(self) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrUsage<T> for Result<T, E> {
    fn or_usage(self) -> anyhow::Result<T> {
        self.map_err(|error| Exit::Usage.error(format!("{:#}", error.into())))
    }
}

/// What to do about a command line that can't be read, or that asks for help.
pub(super) fn not_parsed(error: &clap::Error, is_json: bool) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        // Printed by clap to standard output. A reader that has gone away is not a failure.
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _gone = error.print();
            Exit::Done.into()
        }
        _ if is_json => {
            let text = error.render().to_string();
            let said = text.strip_prefix("error: ").unwrap_or(&text);
            let said = said.split("\n\nUsage:").next().unwrap_or_default();
            let said = said.split("\n\nFor more information").next().unwrap_or_default();
            complain(Exit::Usage, said.trim(), true);
            Exit::Usage.into()
        }
        _ => {
            let _gone = error.print();
            Exit::Usage.into()
        }
    }
}

/// Ends a command that failed, after saying why.
pub(super) fn failed(error: &anyhow::Error, is_json: bool) -> ExitCode {
    if error.is::<Closed>() {
        return Exit::Done.into();
    }
    let exit = Exit::of_error(error);
    complain(exit, &format!("{error:#}"), is_json);
    exit.into()
}

/// The last line on standard error. An error may repeat what others wrote.
pub(super) fn complain(exit: Exit, message: &str, is_json: bool) {
    if is_json {
        let error = json!({ "error": { "code": exit.as_str(), "message": message } });
        notice!("{error}");
    } else {
        let name = Screen::of(std::io::stderr().is_terminal()).paint(Tone::Bad, "drawgate:");
        painted_notice(&format!("{name} {}", visible_text(message)));
    }
}
