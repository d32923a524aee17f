//! `drawgate profiles new`: a profile to start from.

use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use drawgate_agents::profile::read_file;
use serde_json::json;

use super::words;
use crate::cli::exit::Exit;
use crate::cli::{Context, files};

/// Its text, where `NAME` stands for its name.
const STARTER: &str = "\
---
name: NAME
description: Answers questions, and keeps notes in files
# model: anthropic/claude-sonnet-4-6     # without it, `[models] default` of the configuration
tools: [vfs_read, vfs_write, vfs_list]   # `drawgate tools list` shows others
ceiling: [file.read, file.write]         # no call of it, or of agents below it, may do more
budget: {tokens: 100000}
---
You are a careful assistant. Use your tools where they help, and keep notes in files.
Answer in a few sentences, and say what you did.
";

/// Writes it into the first folder of the configuration. A file that is there is never overwritten.
pub(super) fn run(name: &str, context: &Context) -> anyhow::Result<ExitCode> {
    let loaded = context.whole()?;
    let folder = loaded.config.profiles.folders.first();
    let folder = folder.context("`[profiles] folders` of the configuration names no folder")?;
    let folder = std::path::absolute(loaded.resolve(folder))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || !name.chars().all(is_name) {
        let rule = "a profile's name has letters, digits, `-` and `_`, such as `note-taker`";
        return Err(Exit::Usage.error(rule));
    }
    files::make_private_folder(&folder)
        .with_context(|| format!("`{}` can't be made", folder.display()))?;
    let path = folder.join(format!("{name}.md"));
    let shown = path.display();
    match files::create(&path, &STARTER.replace("NAME", name)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("`{shown}` is there already and stays as it is; choose another name")
        }
        made => made.with_context(|| format!("`{shown}` can't be made"))?,
    }
    if let Err(problems) = read_file(&path).parsed {
        bail!("`{shown}` is written, and can't be used:\n{}", words::problems(&problems));
    }
    context.out.either(&json!({ "written": path }), || {
        format!(
            "wrote {shown}\nedit it, then: `drawgate profiles accept {name}`, `drawgate run {name} \"…\"`"
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
