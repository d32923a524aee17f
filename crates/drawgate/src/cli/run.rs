//! `drawgate run`: an agent at work, shown as it works.

use std::io::{IsTerminal, Read as _, stderr, stdin, stdout};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use drawgate_agents::profile::Budget;
use drawgate_agents::runs::{Ending, Happened, Phase, RunDetails, RunEvent};
use drawgate_core::registry::{visible_line, visible_text};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{RunEvents, StartRun, StartedRun};
use serde_json::json;

use super::Context;
use super::backend::{Backend, part};
use super::exit::Exit;
use super::output::painted_notice;
use super::progress::Progress;
use super::running::Running;
use super::screen::{Screen, Tone, count};

/// How long one look at events waits.
const WAIT_MS: u64 = 10_000;
/// Characters of arguments and results that are shown.
const SHOWN: usize = 160;
/// Characters of a run's id that tell it apart: `drawgate runs show` takes the end of an id.
const SHOWN_ID: usize = 6;

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// The agent's profile; `drawgate profiles list` shows them
    profile: String,
    /// What it is to do; read from standard input without it
    prompt: Option<String>,
    /// Another model than the profile's, as `provider/model` or an alias
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Go on with a conversation; `drawgate threads list` shows them
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    /// Print the run's id and return at once; `drawgate runs follow ID` shows the rest
    #[arg(long)]
    detach: bool,
}

/// Limits of one run and what is below it, tighter than the profile's.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct BudgetArgs {
    /// Tokens that it may use
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// US dollars that it may cost
    #[arg(long, value_name = "USD")]
    cost_usd: Option<f64>,
    /// Seconds that it may take
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Tool calls that it may make
    #[arg(long, value_name = "N")]
    tool_calls: Option<u64>,
}

impl BudgetArgs {
    const fn budget(self) -> Budget {
        let Self { tokens, cost_usd, seconds, tool_calls } = self;
        Budget { tokens, cost_usd, seconds, tool_calls, runs: None }
    }
}

pub(super) async fn run(args: RunArgs, context: Context) -> anyhow::Result<ExitCode> {
    let prompt = prompt(args.prompt)?;
    let backend = Backend::open(&context, Start::Sources).await?;
    if args.detach && !backend.is_running() {
        backend.close().await;
        bail!("no gateway runs here to go on with it; `drawgate serve` starts one");
    }
    let start = StartRun {
        profile: args.profile,
        prompt,
        model: args.model,
        budget: args.budget.budget(),
        thread: args.thread,
        agent: None,
    };
    let done = begin(&start, args.detach, &context, &backend).await;
    backend.close().await;
    done
}

async fn begin(
    start: &StartRun,
    detach: bool,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    let StartedRun { id } = backend.post("/runs", start).await?;
    if !detach && !context.out.is_json() {
        notice!("drawgate: run {id} of `{}`; Ctrl-C cancels it", start.profile);
    }
    if detach {
        context.out.either(&json!({ "id": id }), || id.clone())?;
        return Ok(ExitCode::SUCCESS);
    }
    follow(&id, context, backend).await
}

fn prompt(given: Option<String>) -> anyhow::Result<String> {
    if let Some(prompt) = given.filter(|prompt| prompt != "-") {
        return Ok(prompt);
    }
    if stdin().is_terminal() {
        bail!("say what it is to do: `drawgate run PROFILE \"PROMPT\"`, or pipe it in");
    }
    let mut text = String::new();
    stdin().lock().read_to_string(&mut text).context("the prompt can't be read")?;
    Ok(text)
}

/// Shows a run until it ends. Ctrl-C cancels it and everything below it.
pub(super) async fn follow(
    id: &str,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    let mut after = 0;
    let mut shown = Shown::new();
    let mut cancelled = false;
    loop {
        let path = format!("/runs/{}/events?after={after}&wait_ms={WAIT_MS}", part(id));
        let answer: RunEvents = tokio::select! {
            answer = backend.get(&path) => match answer {
                Err(error) => return Err(lost(id, error, context, backend).await),
                Ok(answer) => answer,
            },
            interrupted = tokio::signal::ctrl_c(), if !cancelled => {
                interrupted.context("Ctrl-C can't be noticed")?;
                cancelled = true;
                shown.end_line(context)?;
                notice!("drawgate: cancelling");
                // It may have ended just now.
                let _ = backend.delete(&format!("/runs/{}", part(id))).await;
                continue;
            }
        };
        for event in &answer.events {
            after = event.seq;
            shown.show(event, context)?;
            if let (Happened::Ended { ending, text, .. }, true) = (&event.body, event.run == id) {
                shown.answer(text, context)?;
                return Ok(code(*ending));
            }
        }
        if answer.ended {
            let over: RunDetails = backend.get(&format!("/runs/{}", part(id))).await?;
            context.out.either(&over, || over.text.clone())?;
            return Ok(over.run.ending.map_or(ExitCode::FAILURE, code));
        }
    }
}

/// Why a run can't be followed any more: with its gateway it does not end.
async fn lost(
    id: &str,
    error: anyhow::Error,
    context: &Context,
    backend: &Backend,
) -> anyhow::Error {
    if !backend.is_running() || Running::find(&context.data).await.is_some() {
        return error;
    }
    Exit::Unavailable.error(format!(
        "the gateway has ended; the run is suspended, and goes on when `drawgate serve` starts it again: `drawgate runs follow {id}`"
    ))
}

fn code(ending: Ending) -> ExitCode {
    match ending {
        Ending::Done => ExitCode::SUCCESS,
        Ending::Failed
        | Ending::Cancelled
        | Ending::Budget
        | Ending::Deadline
        | Ending::Context
        | Ending::Stuck
        | Ending::Invalid => ExitCode::FAILURE,
    }
}

/// What is shown of a run. On a terminal its text is on standard output as it comes, with an empty line between
/// it and the lines about what the run does, which are on standard error. Elsewhere standard output gets the
/// answer alone.
struct Shown {
    is_terminal: bool,
    /// Whether the last text did not end its line.
    in_line: bool,
    /// Whether the last thing was text.
    after_text: bool,
    progress: Progress,
}

impl Shown {
    fn new() -> Self {
        let progress = Progress::new(FOR_MODEL);
        Self { is_terminal: stdout().is_terminal(), in_line: false, after_text: false, progress }
    }

    fn show(&mut self, event: &RunEvent, context: &Context) -> anyhow::Result<()> {
        if context.out.is_json() {
            return context.out.raw(format!("{}\n", serde_json::to_string(event)?).as_bytes());
        }
        self.progress.say(awaited(&event.body));
        if let (Happened::Text { text }, 0) = (&event.body, event.depth) {
            return if self.is_terminal { self.write(text, context) } else { Ok(()) };
        }
        let Some(line) = line(event) else { return Ok(()) };
        self.end_line(context)?;
        if std::mem::take(&mut self.after_text) {
            context.out.raw(b"\n")?;
        }
        let indent = "  ".repeat(usize::from(event.depth));
        let line = visible_line(&format!("{indent}{}{line}", who(event))).into_owned();
        painted_notice(&Screen::of(stderr().is_terminal()).paint(Tone::Faint, &line));
        Ok(())
    }

    fn write(&mut self, text: &str, context: &Context) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.after_text, true) {
            context.out.raw(b"\n")?;
        }
        self.in_line = !text.ends_with('\n');
        context.out.raw(visible_text(text).as_bytes())
    }

    fn end_line(&mut self, context: &Context) -> anyhow::Result<()> {
        if std::mem::take(&mut self.in_line) { context.out.raw(b"\n") } else { Ok(()) }
    }

    /// The last text, where it was not shown as it came.
    fn answer(&self, text: &str, context: &Context) -> anyhow::Result<()> {
        let is_shown = self.is_terminal || context.out.is_json() || text.is_empty();
        if is_shown { Ok(()) } else { context.out.text(text) }
    }
}

/// What a run waits for at its start, and after each result.
const FOR_MODEL: &str = "waiting for the model";

/// What a run waits for after an event.
fn awaited(event: &Happened) -> String {
    match event {
        Happened::Call { tool, .. } => format!("waiting for `{tool}`"),
        Happened::Phase { phase: Phase::Asking } => "waiting for a person".to_owned(),
        Happened::Phase { phase: Phase::Waiting } => {
            "waiting for agents that it started".to_owned()
        }
        Happened::Retry { .. } => "waiting to ask the model again".to_owned(),
        Happened::Started { .. }
        | Happened::Text { .. }
        | Happened::Result { .. }
        | Happened::Message { .. }
        | Happened::Phase { .. }
        | Happened::Ended { .. } => FOR_MODEL.to_owned(),
    }
}

/// Which run below the first one an event is of: several may have the same profile.
fn who(event: &RunEvent) -> String {
    if event.depth == 0 {
        return String::new();
    }
    let skipped = event.run.chars().count().saturating_sub(SHOWN_ID);
    let end: String = event.run.chars().skip(skipped).collect();
    format!("[{} {end}] ", event.profile)
}

/// An event in one line; nothing for those that a person need not see.
fn line(event: &RunEvent) -> Option<String> {
    match &event.body {
        Happened::Call { tool, arguments, .. } => {
            Some(format!("-> {tool} {}", short(&arguments.to_string())))
        }
        Happened::Result { tool, error: None, text, .. } => {
            Some(format!("<- {tool}: {}", short(text)))
        }
        Happened::Result { tool, error: Some(_), text, .. } => {
            Some(format!("<- {tool} failed: {}", short(text)))
        }
        Happened::Message { from, text } => {
            let from = from.as_deref().unwrap_or("you");
            Some(format!("message from {from}: {}", short(text)))
        }
        Happened::Retry { reason, pause_ms } => {
            Some(format!("asking the model again in {pause_ms} ms: {}", short(reason)))
        }
        Happened::Phase { phase: Phase::Asking } => Some(
            "waiting for a person: `drawgate approvals list` shows what is to be decided"
                .to_owned(),
        ),
        Happened::Phase { phase: Phase::Waiting } => {
            Some("waiting for agents that it started".to_owned())
        }
        Happened::Phase { .. } | Happened::Started { .. } | Happened::Text { .. } => None,
        Happened::Ended { ending, reason, tokens, cached_tokens, cost_usd, .. } => {
            let reason = reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
            let cost = if *cost_usd > 0.0 { format!(", ${cost_usd:.4}") } else { String::new() };
            // A request that was broken off counts with all that was reserved for it.
            let most = if *ending == Ending::Cancelled && *tokens > 0 { "at most " } else { "" };
            let tokens = format!("{most}{}{}", count(*tokens, "token"), cached(*cached_tokens));
            Some(format!("{}: {tokens}{cost}{reason} (run {})", ending.as_str(), event.run))
        }
    }
}

/// How many of some tokens came from a cache, if any did.
pub(super) fn cached(tokens: u64) -> String {
    if tokens == 0 { String::new() } else { format!(" ({tokens} from the cache)") }
}

/// The beginning of a text, in one line.
pub(super) fn short(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = line.chars().take(SHOWN).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}
