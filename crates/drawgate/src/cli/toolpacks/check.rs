//! Whether toolpacks are in order: their manifests, what is behind them, and the lock file.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use drawgate_sources::toolpack::{FILE as MANIFEST, Finding, Manifest, Problem};
use serde_json::{Value, json};

use super::text;
use crate::cli::Context;
use crate::cli::backend::{Backend, part};
use crate::cli::output::Output;
use drawgate_runtime::operations::{ToolpackList, ToolpackView};
use drawgate_runtime::toolpacks::check_files;

/// Checks a folder that is named like one, or is one. Needs no gateway.
pub(super) fn validate_folder(folder: &str, out: Output) -> Option<anyhow::Result<ExitCode>> {
    let path = Path::new(folder);
    // The manifest stands for its folder.
    let path =
        match path.parent() {
            Some(parent) if path.ends_with(MANIFEST) && path.is_file() => {
                if parent == Path::new("") { Path::new(".") } else { parent }
            }
            Some(_) | None => path,
        };
    let meant = folder.starts_with('.') || folder.contains('/') || path.is_dir();
    meant.then(|| {
        let read = Manifest::read(path);
        let mut problems = read.err().map(|all| all.problems).unwrap_or_default();
        // What else would keep it from being installed: symbolic links, for instance.
        if path.is_dir()
            && let Err(error) = check_files(path)
        {
            let (path, message) = ("its files".to_owned(), error.to_string());
            problems.push(Problem { path, message, hint: None });
        }
        let valid = problems.is_empty();
        let value = json!([{ "folder": folder, "valid": valid, "problems": problems }]);
        out.either(&value, || verdict(folder, &problems, None))?;
        Ok(code(problems.is_empty()))
    })
}

/// Checks what is installed.
pub(super) async fn validate(
    id: Option<&str>,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    let packs = chosen(id, backend).await?;
    let is_valid = |pack: &ToolpackView| matches!(pack.state.as_str(), "enabled" | "disabled");
    let value = packs.iter().map(|pack| {
        json!({
            "id": pack.id, "valid": is_valid(pack), "state": pack.state,
            "problem": pack.problem, "problems": pack.problems,
        })
    });
    let value: Vec<Value> = value.collect();
    context.out.either(&value, || {
        let lines = packs.iter().map(|pack| {
            let other = pack.problem.as_deref().filter(|_| !is_valid(pack));
            verdict(&pack.id, &pack.problems, other)
        });
        or_none(&lines.collect::<Vec<_>>())
    })?;
    Ok(code(packs.iter().all(is_valid)))
}

/// Tries what is behind the tools.
pub(super) async fn doctor(
    id: Option<&str>,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    let packs = chosen(id, backend).await?;
    let mut report = Vec::new();
    let mut texts = Vec::new();
    let mut well = true;
    for pack in &packs {
        let mut found: Vec<Finding> = text::complaints(pack).into_iter().map(complaint).collect();
        if pack.state != "missing" {
            found.extend(
                backend
                    .get::<Vec<Finding>>(&format!("/toolpacks/{}/doctor", part(&pack.id)))
                    .await?,
            );
        }
        well &= found.iter().all(|one| one.ok);
        texts.push(findings(&pack.id, &found));
        report.push(json!({ "id": pack.id, "state": pack.state, "findings": found }));
    }
    context.out.either(&report, || or_none(&texts))?;
    Ok(code(well))
}

/// Compares with the lock file.
pub(super) async fn verify(context: &Context, backend: &Backend) -> anyhow::Result<ExitCode> {
    let found: Vec<Finding> = backend.get("/toolpacks.lock").await?;
    let well = found.iter().all(|one| one.ok);
    context.out.either(&found, || match found.as_slice() {
        [] => "no toolpacks are installed, and none are locked".to_owned(),
        all => all.iter().map(line).collect::<Vec<_>>().join("\n"),
    })?;
    Ok(code(well))
}

async fn chosen(id: Option<&str>, backend: &Backend) -> anyhow::Result<Vec<ToolpackView>> {
    match id {
        Some(id) => Ok(vec![backend.get(&format!("/toolpacks/{}", part(id))).await?]),
        None => Ok(backend.get::<ToolpackList>("/toolpacks").await?.toolpacks),
    }
}

fn complaint(message: String) -> Finding {
    Finding { subject: "toolpack".to_owned(), ok: false, message, advice: None }
}

fn verdict(name: &str, problems: &[Problem], other: Option<&str>) -> String {
    let mut text = match (problems.len(), other) {
        (0, None) => format!("{name}: valid"),
        (0, Some(problem)) => format!("{name}: {problem}"),
        (1, _) => format!("{name}: 1 problem"),
        (count, _) => format!("{name}: {count} problems"),
    };
    for problem in problems {
        let _ = write!(text, "\n  {}: {}", problem.path, problem.message);
        if let Some(hint) = &problem.hint {
            let _ = write!(text, "\n    {hint}");
        }
    }
    text
}

fn findings(id: &str, found: &[Finding]) -> String {
    let word = if found.iter().all(|one| one.ok) { "ok" } else { "has problems" };
    let lines = found.iter().map(|one| format!("\n  {}", line(one).replace('\n', "\n  ")));
    format!("{id}: {word}{}", lines.collect::<String>())
}

fn line(found: &Finding) -> String {
    let mark = if found.ok { "ok  " } else { "FAIL" };
    let advice = found.advice.as_ref().map(|advice| format!("\n       {advice}"));
    format!("{mark} {}: {}{}", found.subject, found.message, advice.unwrap_or_default())
}

fn or_none(lines: &[String]) -> String {
    if lines.is_empty() { "no toolpacks are installed".to_owned() } else { lines.join("\n") }
}

fn code(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
