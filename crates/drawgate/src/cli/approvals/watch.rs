//! `drawgate approvals watch`: tells a person of each call that comes to wait for them.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use drawgate_core::policy::ApprovalState;
use drawgate_runtime::operations::ListedApproval;
use serde_json::json;

use super::{ring, words};
use crate::cli::Context;
use crate::cli::backend::Backend;
use crate::cli::exit::Exit;
use crate::cli::running::Running;
use crate::cli::screen::{Screen, Tone};
use crate::cli::table::tone_of;

/// How often the gateway is asked.
const PAUSE: Duration = Duration::from_millis(500);

/// Follows until it is interrupted, or its output is not read any more.
pub(super) async fn run(quiet: bool, context: &Context) -> anyhow::Result<ExitCode> {
    if Running::find(&context.data).await.is_none() {
        return Err(Exit::Unavailable.error(format!(
            "no gateway runs on `{}`, and only a running one holds calls; `drawgate serve` starts it",
            context.data.display()
        )));
    }
    let mut watch = Watch { context, quiet, known: BTreeMap::new() };
    if !context.out.is_json() {
        notice!("drawgate: watching for calls that wait for a person; Ctrl-C ends it");
    }
    let mut is_there = true;
    loop {
        match approvals(context).await {
            Ok(approvals) => {
                is_there = true;
                watch.show(&approvals).await?;
            }
            Err(error) => {
                if std::mem::take(&mut is_there) {
                    notice!("drawgate: {error:#}; waiting for it");
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn approvals(context: &Context) -> anyhow::Result<Vec<ListedApproval>> {
    match Running::find(&context.data).await {
        Some(running) => Backend::Running(running).get("/approvals").await,
        None => Err(Exit::Unavailable.error("the gateway is gone")),
    }
}

struct Watch<'a> {
    context: &'a Context,
    quiet: bool,
    /// The approvals that are known, with their states.
    known: BTreeMap<String, ApprovalState>,
}

impl Watch<'_> {
    /// Prints what is new, and what became of what was known. Approvals that were settled before this
    /// command began are not of interest.
    async fn show(&mut self, approvals: &[ListedApproval]) -> anyhow::Result<()> {
        let screen = Screen::stdout();
        let mut states = BTreeMap::new();
        for listed in approvals {
            let (id, state) = (&listed.approval.id, listed.approval.state);
            states.insert(id.clone(), state);
            match self.known.get(id) {
                Some(known) if *known == state => {}
                None if state != ApprovalState::Pending => {}
                _ if self.context.out.is_json() => {
                    self.context.out.raw(format!("{}\n", json!(listed)).as_bytes())?;
                }
                None => {
                    self.context.out.painted(&words::block(listed, screen))?;
                    if !self.quiet {
                        ring::ring(listed).await;
                    }
                }
                Some(_) => {
                    let word = screen.paint(tone_of(state.as_str()), state.as_str());
                    let id = screen.paint(Tone::Title, id);
                    self.context.out.painted(&format!("{id}  {word}"))?;
                }
            }
        }
        self.known = states;
        Ok(())
    }
}
