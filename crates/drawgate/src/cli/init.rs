//! `drawgate init`: a configuration to start from.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use super::Output;
use crate::config::STARTER;

#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// The file to write; one that is there already is never overwritten
    #[arg(default_value = crate::config::DEFAULT_FILE)]
    file: PathBuf,
}

pub(super) fn run(args: &InitArgs, out: &Output) -> anyhow::Result<ExitCode> {
    let path = args.file.display();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&args.file)
        .with_context(|| format!("`{path}` can't be made; `drawgate init OTHER.toml` writes elsewhere"))?;
    file.write_all(STARTER.as_bytes())?;
    out.either(&serde_json::json!({ "written": args.file }), || {
        format!("wrote {path}; edit it, then: drawgate config check, drawgate serve")
    })?;
    Ok(ExitCode::SUCCESS)
}
