//! `drawgate backup` and `drawgate restore`: a copy of the data folder, and its way back.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use drawgate_host::store::DataDir;
use drawgate_host::store::backup::{Destination, Snapshot};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{BackUp, BackedUp};

use super::Context;
use super::backend::Backend;
use super::progress::Progress;
use super::running::Running;

#[derive(Debug, clap::Args)]
pub(super) struct BackupArgs {
    /// The folder of the copy: one that is not there yet, or is empty
    dir: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// The folder that `drawgate backup` has made
    dir: PathBuf,
}

pub(super) async fn back_up(args: &BackupArgs, context: &Context) -> anyhow::Result<ExitCode> {
    // A gateway of our own would make the folder.
    DataDir::existing(&context.data)?;
    let folder = std::path::absolute(&args.dir)?;
    check_way(&folder)?;
    let backend = Backend::open(context, Start::Nothing).await?;
    let progress = Progress::new("copying and verifying the data folder");
    let done = backend.post::<BackedUp>("/backup", &BackUp { folder }).await;
    backend.close().await;
    drop(progress);
    let done = done?;
    context.out.either(&done, || {
        format!(
            "copied {} to {}: verified, up to audit event {}{}",
            context.data.display(),
            done.folder.display(),
            done.head,
            reservations(&done)
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn restore(args: &RestoreArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let data = std::path::absolute(&context.data)?;
    if Running::find(&data).await.is_some() {
        bail!("a gateway runs on `{}`; stop it and move that folder away first", data.display());
    }
    check_way(&data)?;
    if let Some(above) = data.parent() {
        super::files::make_private_folder(above)
            .with_context(|| format!("`{}` can't be made", above.display()))?;
    }
    let from = DataDir::existing(&args.dir)?;
    let destination = Destination::new(&from, &data)?;
    let progress = Progress::new("copying and verifying the data folder");
    let copied = tokio::task::spawn_blocking(move || {
        let snapshot = Snapshot::take(from)?;
        let missing = snapshot.missing_keys();
        snapshot.write(destination).map(|copied| (copied, missing))
    });
    let (copied, missing) = copied.await??;
    let done = BackedUp::new(data, copied);
    drop(progress);
    context.out.either(&done, || {
        format!(
            "restored {} to {}: verified, up to audit event {}{}",
            args.dir.display(),
            done.folder.display(),
            done.head,
            reservations(&done)
        )
    })?;
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    notice!(
        "drawgate: no gateway starts on `{}` yet: the copy has no `{}`; put it there from another backup, with mode 600",
        done.folder.display(),
        missing.join("` and no `")
    );
    Ok(ExitCode::FAILURE)
}

fn check_way(folder: &Path) -> anyhow::Result<()> {
    super::files::check_way(folder)
        .with_context(|| format!("nothing can be copied to `{}`", folder.display()))
}

/// What is not proved of the copy's log.
fn reservations(done: &BackedUp) -> String {
    let lines: Vec<String> =
        done.unproved.iter().map(|reason| format!("\nnot proved: {reason}")).collect();
    lines.concat()
}
