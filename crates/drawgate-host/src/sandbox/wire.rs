//! What the gateway and init say to each other: packets over a socket, with descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use super::error::SandboxError;

/// Gateway to fork server, with the plan, the program's streams and a socket: build a box. The rest is
/// said over that socket.
pub(crate) const START: u8 = b'S';
/// Gateway to init: ask all processes to end.
pub(crate) const TERM: u8 = b'T';
/// Gateway to init: end them.
pub(crate) const KILL: u8 = b'K';

/// The largest report; its texts are short.
const PACKET: usize = 16 * 1024;
/// The most descriptors of one packet.
const DESCRIPTORS: usize = 5;

/// Init to gateway.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The first report of a box's init: its process id.
    Forked(i32),
    /// Comes with the listening socket inside the box.
    Proxy,
    /// The program runs.
    Started(Enforced),
    /// The memory of all its processes, in MiB, now and then.
    Uses(u64),
    /// It had planted something in a folder.
    Swept(Swept),
    /// It does not, or was stopped.
    Failed(SandboxError),
    /// Nobody is left in the box, and nothing of what they planted; a status as of `wait`. What comes
    /// after is cleaning up.
    Ended(i32),
}

/// What became of what a program had planted in one folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Swept {
    pub(crate) folder: PathBuf,
    /// Moved away.
    pub(crate) removed: Vec<String>,
    /// Could not be moved, or not even be looked for.
    pub(crate) left: Vec<String>,
}

impl Swept {
    pub(crate) const fn has_findings(&self) -> bool {
        !self.removed.is_empty() || !self.left.is_empty()
    }
}

/// How the limits are held on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Enforced {
    /// Control groups in force: `memory`, `cpu`, `pids`.
    pub(crate) cgroups: Vec<String>,
    /// The version of Landlock's interface; 0 without it.
    pub(crate) landlock: u32,
    /// Whether the folders of the gateway's user are mapped to another user.
    pub(crate) mapped: bool,
}

/// A packet.
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Sends one packet; never waits, never raises a signal.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)?;
    Ok(())
}

/// Sends a report; the gateway may be gone, and then nobody wants it.
pub(crate) fn report(socket: impl AsFd, report: &Report) {
    let _gone = report_with(socket, report, &[]);
}

/// Sends a report that must arrive.
pub(crate) fn report_with(
    socket: impl AsFd,
    report: &Report,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    send(socket.as_fd(), &serde_json::to_vec(report)?, fds)
}

/// Takes one packet; `None` when the other side is gone. One that is too long is
/// [`InvalidData`](io::ErrorKind::InvalidData).
pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<Packet>> {
    let mut bytes = vec![0; PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let got = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if got.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the packet is too long"));
    }
    if got.bytes == 0 && descriptors.is_empty() {
        return Ok(None);
    }
    bytes.truncate(got.bytes);
    Ok(Some(Packet { bytes, descriptors }))
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn a_packet_that_was_cut_is_none() {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        for (length, arrives) in [(PACKET, true), (PACKET + 1, false), (1, true)] {
            send(ours.as_fd(), &vec![b'x'; length], &[]).unwrap();
            match receive(theirs.as_fd()) {
                Ok(packet) => assert!(arrives && packet.unwrap().bytes.len() == length),
                Err(error) => {
                    assert!(!arrives);
                    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                }
            }
        }
    }
}
