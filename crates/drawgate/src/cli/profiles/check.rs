//! Whether the files of profiles are in order. Needs no gateway.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use drawgate_agents::profile::{Found, read_file, read_folders};
use drawgate_runtime::config::Loaded;
use drawgate_runtime::profiles::check_configured;
use serde_json::{Value, json};

use super::words;
use crate::cli::machine;
use crate::cli::output::Output;

/// Checks these files and folders.
pub(super) fn files(paths: &[PathBuf], out: Output) -> anyhow::Result<ExitCode> {
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.iter().cloned().partition(|path| path.is_dir());
    let mut all: Vec<Found> = files.iter().map(|file| read_file(file)).collect();
    all.extend(read_folders(&folders));
    report(&all, out)
}

/// Checks the folders of a configuration, against it and each other.
pub(super) fn configured(loaded: &Loaded, out: Output) -> anyhow::Result<ExitCode> {
    report(&check_configured(loaded, &Arc::new(machine::host()?)), out)
}

fn report(all: &[Found], out: Output) -> anyhow::Result<ExitCode> {
    let value: Vec<Value> = all.iter().map(as_json).collect();
    out.either(&value, || match all {
        [] => "there are no profiles to check".to_owned(),
        all => all.iter().map(verdict).collect(),
    })?;
    let is_good = all.iter().all(|found| found.parsed.is_ok());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(found: &Found) -> Value {
    let (valid, problems, warnings) = match &found.parsed {
        Ok(parsed) => (true, json!([]), json!(parsed.warnings)),
        Err(problems) => (false, json!(problems), json!([])),
    };
    let (path, name) = (&found.path, &found.name);
    json!({ "path": path, "name": name, "valid": valid, "problems": problems, "warnings": warnings })
}

fn verdict(found: &Found) -> String {
    let path = found.path.display();
    match &found.parsed {
        Ok(parsed) => {
            format!("{path}: `{}` is valid\n{}", found.name, words::warnings(&parsed.warnings))
        }
        Err(problems) => format!("{path}: can't be used\n{}", words::problems(problems)),
    }
}
