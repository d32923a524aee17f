//! `drawgate init`: a configuration to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use super::Output;
use drawgate_runtime::config::{Config, STARTER};

/// The schema that the first line of the configuration refers to.
const SCHEMA_FILE: &str = "drawgate.schema.json";

#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// The file to write; one that is there already is never overwritten
    #[arg(default_value = drawgate_runtime::config::DEFAULT_FILE)]
    file: PathBuf,
}

pub(super) fn run(args: &InitArgs, out: Output) -> anyhow::Result<ExitCode> {
    let path = args.file.display();
    let opened = OpenOptions::new().write(true).create_new(true).open(&args.file);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "`{path}` is there already and stays as it is; `drawgate init OTHER.toml` writes elsewhere"
        ),
        opened => opened.with_context(|| {
            format!("`{path}` can't be made; `drawgate init OTHER.toml` writes elsewhere")
        })?,
    };
    file.write_all(STARTER.as_bytes())?;
    let schema = args.file.with_file_name(SCHEMA_FILE);
    let text = format!("{}\n", serde_json::to_string_pretty(&Config::json_schema())?);
    std::fs::write(&schema, text)
        .with_context(|| format!("`{}` can't be written", schema.display()))?;
    out.either(&serde_json::json!({ "written": args.file, "schema": schema }), || {
        format!(
            "wrote {path}, and {} for editors\nedit it, then: drawgate config check --config {path}, drawgate serve --config {path}",
            schema.display()
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
