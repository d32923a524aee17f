//! `drawgate init`: a configuration to start from.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use super::{Globals, Output, files};
use drawgate_runtime::config::{Config, STARTER};

/// The schema that the first line of the configuration refers to.
const SCHEMA_FILE: &str = "drawgate.schema.json";

#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// The file to write; one that is there already is never overwritten [default: that of the user's own
    /// gateway, `~/.config/drawgate/drawgate.toml`]
    file: Option<PathBuf>,
}

pub(super) fn run(args: &InitArgs, globals: &Globals) -> anyhow::Result<ExitCode> {
    let out = Output::new(globals.json);
    let (target, options) = match &args.file {
        Some(file) => (file.clone(), format!(" --config {}", file.display())),
        None => (own_file(globals)?, String::new()),
    };
    let path = target.display();
    match files::create(&target, STARTER) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "`{path}` is there already and stays as it is; `drawgate init OTHER.toml` writes elsewhere"
        ),
        made => made.with_context(|| {
            format!("`{path}` can't be made; `drawgate init OTHER.toml` writes elsewhere")
        })?,
    }
    let schema = target.with_file_name(SCHEMA_FILE);
    let text = format!("{}\n", serde_json::to_string_pretty(&Config::json_schema())?);
    files::put(&schema, text)
        .with_context(|| format!("`{}` can't be written", schema.display()))?;
    out.either(&serde_json::json!({ "written": target, "schema": schema }), || {
        format!(
            "wrote {path}, and {} for editors\nedit it, then: drawgate config check{options}, drawgate serve{options}",
            schema.display()
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration of the gateway that the options name. Its folder is made if need be.
fn own_file(globals: &Globals) -> anyhow::Result<PathBuf> {
    let source = globals.target()?.source;
    let file = source.file().context("there is no file to write with `--config none`; name one")?;
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        files::make_private_folder(folder)
            .with_context(|| format!("`{}` can't be made", folder.display()))?;
    }
    Ok(file.to_owned())
}
