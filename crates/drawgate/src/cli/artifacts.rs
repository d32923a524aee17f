//! `drawgate artifacts`: outputs that were too long to return.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use drawgate_core::model::ArtifactRef;
use drawgate_core::store::ArtifactInfo;
use rustix::fs::OFlags;
use serde_json::json;

use super::backend::{Backend, part};
use super::{Context, files};
use crate::cli::screen::local_time as time;
use crate::cli::table::{cut, spare, whole};
use drawgate_runtime::assemble::Start;

#[derive(Debug, clap::Subcommand)]
pub(super) enum ArtifactsCommand {
    /// List artifacts, newest first
    List,
    /// Print an artifact, or write it to a file
    Get {
        /// Its hash or its URI
        hash: String,
        /// The file to write
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remove an artifact
    Remove {
        /// Its hash or its URI
        hash: String,
    },
}

pub(super) async fn run(command: ArtifactsCommand, context: Context) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn perform(
    command: ArtifactsCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<()> {
    match command {
        ArtifactsCommand::List => {
            let all: Vec<ArtifactInfo> = backend.get("/artifacts").await?;
            let rows = all.iter().map(|info| {
                let ArtifactRef { sha256, size, mime_type, .. } = &info.reference;
                vec![
                    sha256.clone(),
                    size.to_string(),
                    mime_type.clone(),
                    info.tool_id.clone(),
                    info.owner.to_string(),
                    time(info.created_at),
                ]
            });
            let columns = [
                whole("hash"),
                whole("bytes"),
                spare("type"),
                cut("tool"),
                spare("owner"),
                spare("made"),
            ];
            context.out.table(&all, &columns, &rows.collect::<Vec<_>>(), "no artifacts")
        }
        ArtifactsCommand::Get { hash, output } => {
            let bytes = backend.get_bytes(&path_of(&hash)).await?;
            match output {
                Some(file) => write(&file, &bytes)
                    .with_context(|| format!("can't write `{}`", file.display())),
                None => context.out.raw(&bytes),
            }
        }
        ArtifactsCommand::Remove { hash } => {
            backend.delete(&path_of(&hash)).await?;
            context.out.either(&json!({ "removed": hash }), || format!("removed {hash}"))
        }
    }
}

/// Writes bytes to a file, a pipe, a device or a stream of this process.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Only the system makes links there, such as `/dev/stdout`, which may well lead to a file.
    let streams = ["/dev", "/dev/fd", "/proc/self/fd"].map(Path::new);
    let is_stream = path.parent().is_some_and(|folder| streams.contains(&folder));
    let kind = path.symlink_metadata().map(|found| found.file_type());
    if is_stream || kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device()) {
        // A pipe that nothing reads is refused instead of waited for.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut stream = OpenOptions::new().append(true).custom_flags(flags).open(path)?;
        rustix::fs::fcntl_setfl(&stream, OFlags::APPEND)?;
        return stream.write_all(bytes);
    }
    files::put(path, bytes)
}

fn path_of(hash: &str) -> String {
    format!("/artifacts/{}", part(hash.trim_start_matches(ArtifactRef::URI_PREFIX)))
}
