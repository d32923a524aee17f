//! `drawgate servers review`: definitions of tools that wait to be accepted.
//!
//! What is shown has a digest, and an acceptance names it, so that exactly what was shown is accepted.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, ensure};
use drawgate_core::canonical;
use drawgate_core::model::shown_name;
use drawgate_core::registry::{Acceptance, Held, HeldReason, SourceState, visible_text};
use serde_json::{Value, json};

use super::Context;
use super::backend::{Backend, part};
use super::diff::{self, Mark};
use super::exit::Exit;
use super::output::Consent;
use super::screen::Screen;
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{Accept, Review};

/// Longer than a server may take to start by default.
const START: Duration = Duration::from_secs(35);
/// Hexadecimal digits of a digest.
const DIGEST: usize = 40;

/// What a person accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acceptances<'a> {
    /// The digest of what was shown; without one the person is asked.
    pub(super) digest: Option<&'a str>,
    /// These only; all of it if there is none.
    pub(super) only: &'a [String],
}

pub(super) async fn run(
    name: &str,
    accept: Option<Acceptances<'_>>,
    context: Context,
) -> anyhow::Result<ExitCode> {
    let consent = accept.map(|accept| Consent::new(accept.digest.is_some(), context.out));
    ensure!(
        consent != Some(Consent::Impossible),
        "`--accept` needs the digest of what was shown; `drawgate servers review {name}` shows it"
    );
    let backend = Backend::open(&context, Start::Sources).await?;
    backend.settle(START).await;
    let done = review(&backend, name, accept, &context).await;
    backend.close().await;
    done
}

async fn review(
    backend: &Backend,
    name: &str,
    accept: Option<Acceptances<'_>>,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let path = format!("/servers/{}/review", part(name));
    let review: Review = backend.get(&path).await?;
    if review.waiting.is_empty() && review.state != SourceState::Ready {
        let problem = review.problem.as_deref().unwrap_or("it has not answered yet");
        let state = review.state.as_str();
        bail!("`{name}` is {state}, so that nothing can be compared: {problem}");
    }
    let wanted = accept.map(|accept| chosen(name, &review, accept)).transpose()?;
    let digest = digest(&review.waiting);
    if !context.out.is_json() {
        let colours = Screen::stdout().has_colours;
        // Everything in it that a server wrote has been made visible already; colours must stay.
        context.out.raw(describe(name, &review, colours).as_bytes())?;
    }
    let agreed = match accept {
        Some(_) if review.waiting.is_empty() => true,
        Some(Acceptances { digest, .. }) => {
            Consent::new(digest.is_some(), context.out).to("accept what is shown?").await?
        }
        None => false,
    };
    let accepted: Option<Vec<Held>> = match wanted {
        Some(accept) if agreed && !accept.is_empty() => {
            Some(backend.post(&path, &Accept { accept }).await?)
        }
        Some(_) | None => None,
    };
    let waits = accepted.is_none() && !review.waiting.is_empty();
    if context.out.is_json() {
        let value = json!({
            "server": name,
            "state": review.state,
            "waiting": review.waiting,
            "digest": digest,
            "accepted": accepted,
        });
        context.out.either(&value, String::new)?;
    } else {
        context.out.raw(conclude(name, &review, &digest, accepted.as_deref()).as_bytes())?;
    }
    Ok(if waits { Exit::Waiting.into() } else { ExitCode::SUCCESS })
}

/// Stands for all that is shown. It is long enough that no server can prepare two manifests, a harmless
/// and another, that share one.
fn digest(waiting: &[Held]) -> String {
    let mut all: Vec<_> =
        waiting.iter().map(|held| (held.kind.as_str(), &held.name, &held.hash)).collect();
    all.sort_unstable();
    canonical::hash(&json!(all)).chars().take(DIGEST).collect()
}

/// The hashes of what was shown: should it change meanwhile, nothing is accepted.
fn chosen(
    server: &str,
    review: &Review,
    accept: Acceptances<'_>,
) -> anyhow::Result<Vec<Acceptance>> {
    let names = accept.only;
    let same = accept.digest.is_none_or(|shown| shown == digest(&review.waiting));
    ensure!(same, "what waits at `{server}` has changed since; review it once more");
    for name in names {
        let known = review.waiting.iter().any(|held| held.name == *name);
        ensure!(known, "`{}` does not wait for review", shown_name(name));
    }
    let wanted =
        review.waiting.iter().filter(|held| names.is_empty() || names.contains(&held.name));
    let accept = |held: &Held| Acceptance {
        kind: held.kind,
        name: held.name.clone(),
        hash: held.hash.clone(),
    };
    Ok(wanted.map(accept).collect())
}

fn describe(name: &str, review: &Review, colours: bool) -> String {
    if review.waiting.is_empty() {
        return format!("{name}: nothing waits for review\n");
    }
    review.waiting.iter().map(|held| describe_one(held, colours) + "\n").collect()
}

/// What was accepted, or how to.
fn conclude(name: &str, review: &Review, digest: &str, accepted: Option<&[Held]>) -> String {
    if let Some(accepted) = accepted {
        let line = |held: &Held| {
            format!("accepted: {} `{}`\n", held.kind.as_str(), shown_name(&held.name))
        };
        return accepted.iter().map(line).collect();
    }
    if review.waiting.is_empty() {
        return String::new();
    }
    format!(
        "{} kept from callers; to accept exactly this, or with `--only NAME` one of it:\n  \
         drawgate servers review {name} --accept {digest}\n",
        review.waiting.len()
    )
}

fn describe_one(held: &Held, colours: bool) -> String {
    let reason = match held.reason {
        HeldReason::Changed => "has changed",
        HeldReason::New => "is new",
    };
    let mut text = format!(
        "{} `{}` {reason}, hash {}\n",
        held.kind.as_str(),
        shown_name(&held.name),
        held.hash
    );
    let new = pretty(&held.definition);
    let old = held.pinned.as_ref().map(pretty);
    let lines: Vec<(Mark, &str)> = match (&held.reason, &old) {
        (HeldReason::Changed, Some(old)) if *old == new => {
            text.push_str("  it differs in what is masked here\n");
            Vec::new()
        }
        (HeldReason::Changed, Some(old)) => diff::lines(old, &new),
        (HeldReason::Changed, None) => {
            text.push_str(
                "  the accepted definition was too large to keep; this is the new one:\n",
            );
            diff::lines("", &new)
        }
        (HeldReason::New, _) => diff::lines("", &new),
    };
    for (mark, line) in lines {
        text.push_str(&paint(mark, line, colours));
    }
    text
}

fn paint(mark: Mark, line: &str, colours: bool) -> String {
    let colour = match mark {
        Mark::Removed if colours => "\u{1b}[31m",
        Mark::Added if colours => "\u{1b}[32m",
        Mark::Skipped if colours => "\u{1b}[36m",
        Mark::Same | Mark::Removed | Mark::Added | Mark::Skipped => "",
    };
    let end = if colour.is_empty() { "" } else { "\u{1b}[0m" };
    format!("{colour}{} {line}{end}\n", mark.sign())
}

/// JSON with nothing hidden: what JSON itself does not escape, we do.
fn pretty(definition: &Value) -> String {
    let text = serde_json::to_string_pretty(definition).unwrap_or_default();
    visible_text(&text).into_owned()
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
