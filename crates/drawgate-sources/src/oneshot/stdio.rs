//! A program for each call. Dropping the future kills it and its descendants.

use drawgate_core::source::SourceError;
use drawgate_host::Host;
use drawgate_host::process::Spawn;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin};

use super::{MAX_RESULT, Silence};
use crate::confine::ended_by_box;
use crate::excerpt::{MAX_READ, excerpt};

pub(super) async fn perform(
    host: &Host,
    spawn: &Spawn,
    call: &[u8],
    silence: Silence,
) -> Result<Vec<u8>, SourceError> {
    let started = host.start(spawn).await;
    let mut child = started.map_err(|error| SourceError::unreachable(error.to_string()))?;
    let pipes = (child.take_stdin(), child.take_stdout(), child.take_stderr());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(SourceError::unreachable("the program's pipes are missing"));
    };
    // All at once: a program may answer before it has read everything, or complain at length first.
    let ((), output, complaint) = tokio::join!(write(stdin, call), read(stdout), complaint(stderr));
    let output = output?;
    let status = child.wait().await.map_err(|error| SourceError::lost(error.to_string()))?;
    if let Some(error) = child.box_failure().await {
        return Err(ended_by_box(&error));
    }
    let failed = match silence {
        Silence::Fails => output.trim_ascii().is_empty(),
        Silence::Passes => !status.success(),
    };
    if failed {
        let complaint = excerpt(&complaint, &host.secrets.known_values());
        let complaint =
            if complaint.is_empty() { complaint } else { format!("; it said: {complaint}") };
        return Err(SourceError::Protocol(format!(
            "the program ended ({status}) without a result{complaint}"
        )));
    }
    Ok(output)
}

/// A program need not read its input, so that an error here is none.
async fn write(mut stdin: ChildStdin, call: &[u8]) {
    if stdin.write_all(call).await.is_ok() {
        let _unread = stdin.write_all(b"\n").await;
    }
}

async fn read(stdout: impl AsyncRead + Unpin) -> Result<Vec<u8>, SourceError> {
    let mut output = Vec::new();
    let mut bounded = stdout.take(MAX_RESULT as u64 + 1);
    bounded.read_to_end(&mut output).await.map_err(|error| SourceError::lost(error.to_string()))?;
    if output.len() > MAX_RESULT {
        return Err(SourceError::Protocol(format!("the result is larger than {MAX_RESULT} bytes")));
    }
    Ok(output)
}

/// The beginning of what the program says to its standard error; the rest is read and dropped.
async fn complaint(mut stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(count) = stderr.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        let room = MAX_READ.saturating_sub(kept.len());
        kept.extend(buffer.iter().take(count.min(room)));
    }
    String::from_utf8_lossy(&kept).into_owned()
}
