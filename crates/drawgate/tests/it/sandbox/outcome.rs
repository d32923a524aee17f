//! A command run to its end, with as much of its output as a test needs.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// Nothing that a test starts takes this long.
const NEVER: Duration = Duration::from_mins(2);

/// How much output is kept of each stream.
const KEPT: usize = 1 << 20;

/// How a command ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Its exit code, or 128 and the signal.
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// How many bytes it wrote to each stream.
    pub(super) written: (usize, usize),
    /// Whether its port could be reached from here.
    pub(super) reached: bool,
}

/// Runs a command; `None` if it never ends. Once it has written `TRIED`, `probe` is connected to.
pub(super) async fn observe(command: &mut Command, probe: Option<u16>) -> Option<Outcome> {
    let mut child = command.spawn().unwrap();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let all = async { tokio::join!(read(stdout, probe), read(stderr, None), child.wait()) };
    let (out, err, status) = tokio::time::timeout(NEVER, all).await.ok()?;
    let status = status.unwrap();
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap();
    Some(Outcome {
        code,
        stdout: String::from_utf8_lossy(&out.kept).into_owned(),
        stderr: String::from_utf8_lossy(&err.kept).into_owned(),
        written: (out.total, err.total),
        reached: out.reached,
    })
}

/// The same for what must end.
pub(super) async fn run(command: &mut Command) -> Outcome {
    observe(command, None).await.unwrap_or_else(|| panic!("never ended: {command:?}"))
}

#[derive(Default)]
struct Read {
    kept: Vec<u8>,
    total: usize,
    reached: bool,
}

async fn read(mut from: impl AsyncRead + Unpin, mut probe: Option<u16>) -> Read {
    let mut read = Read::default();
    let mut chunk = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        read.total += length;
        let room = KEPT.saturating_sub(read.kept.len()).min(length);
        read.kept.extend_from_slice(&chunk[..room]);
        if String::from_utf8_lossy(&read.kept).contains("TRIED") {
            read.reached |= probe.take().is_some_and(is_reachable);
        }
    }
    read
}

fn is_reachable(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}
