//! What waits in the box's sockets: memory that belongs to no process.
//!
//! The kernel tells bytes, not the memory around them, and nothing about who has sent them and is gone.
//! So what is found here is what it may be at most.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// As much as waits in one socket of the family Unix, unless its owner was allowed a larger buffer.
const BUFFER: u64 = 2 * 212_992;
/// As many messages wait in one without connections, each with a buffer of its sender.
const MESSAGES: u64 = 10;
/// As much as waits in one TCP connection.
const CONNECTION: u64 = 64 << 20;
/// Bytes and the memory around them.
const AROUND: u64 = 2;
/// Fewer sockets than these are not worth a look.
const FEW: u64 = 16;
/// Where the kernel does not tell, so many are taken as empty: programs have many that are.
const UNSEEN: u64 = 256;

const STREAM: u8 = 1;
const SEQPACKET: u8 = 5;
/// A state: what waits are connections, which are sockets of their own.
const LISTENING: u8 = 10;

/// Bytes at most, in all sockets of this network namespace. Connections are looked at only if they
/// could be more than `most`: that takes a walk through a table of the whole machine.
pub(super) fn waiting(most: u64) -> u64 {
    let numbers = Numbers::read();
    if numbers.all <= FEW {
        return 0;
    }
    count(&numbers, most).unwrap_or_else(|_| unseen(&numbers))
}

/// What a kernel that does not tell may hide: each may be full.
const fn unseen(numbers: &Numbers) -> u64 {
    numbers.all.saturating_sub(UNSEEN).saturating_mul(BUFFER)
}

/// How many sockets there are.
#[derive(Debug, Default, PartialEq, Eq)]
struct Numbers {
    all: u64,
    tcp: u64,
    udp: u64,
}

impl Numbers {
    fn read() -> Self {
        let each = |file: &str| Self::of(&fs::read_to_string(file).unwrap_or_default());
        let (four, six) = (each("/proc/self/net/sockstat"), each("/proc/self/net/sockstat6"));
        Self { all: four.all, tcp: four.tcp + six.tcp, udp: four.udp + six.udp }
    }

    fn of(text: &str) -> Self {
        let number = |names: [&str; 2]| {
            let line = text.lines().find_map(|line| {
                names.iter().find_map(|name| line.strip_prefix(name)?.split(' ').next())
            });
            line.and_then(|number| number.parse().ok()).unwrap_or_default()
        };
        Self {
            all: number(["sockets: used ", "sockets: used "]),
            tcp: number(["TCP: inuse ", "TCP6: inuse "]),
            udp: number(["UDP: inuse ", "UDP6: inuse "]),
        }
    }
}

fn count(numbers: &Numbers, most: u64) -> io::Result<u64> {
    let kernel = kernel()?;
    let mut total = ask(&kernel, &unix(), &local)?;
    let families = [AddressFamily::INET, AddressFamily::INET6];
    if numbers.tcp.saturating_mul(CONNECTION) > most {
        for family in families {
            let found = ask(&kernel, &internet(family, libc::IPPROTO_TCP), &connection)?;
            total = total.saturating_add(found);
        }
    }
    if numbers.udp > 0 {
        for family in families {
            let found = ask(&kernel, &internet(family, libc::IPPROTO_UDP), &connection)?;
            total = total.saturating_add(found);
        }
    }
    Ok(total)
}

fn kernel() -> io::Result<OwnedFd> {
    let protocol = Some(netlink::SOCK_DIAG);
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?)
}

/// Asks for all sockets of a kind, and adds up what waits in each.
fn ask(kernel: &OwnedFd, question: &[u8], waits: &dyn Fn(&[u8]) -> Option<u64>) -> io::Result<u64> {
    const KIND: u16 = 20;
    const ALL: u16 = 0x301;
    const HEADER: usize = 16;
    let length = u32::try_from(HEADER + question.len()).map_err(io::Error::other)?;
    let mut packet = length.to_ne_bytes().to_vec();
    packet.extend([KIND.to_ne_bytes(), ALL.to_ne_bytes()].concat());
    packet.extend([0; 8]);
    packet.extend(question);
    send(kernel, &packet, SendFlags::empty())?;
    let mut total: u64 = 0;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let (length, _) = recv(kernel, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        if rest.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some((kind, content, next)) = message(rest) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(total),
                libc::NLMSG_ERROR => return Err(io::Error::other("the kernel does not tell")),
                _ => total = total.saturating_add(waits(content).unwrap_or_default()),
            }
            rest = next;
        }
    }
}

/// The kind and the content of the first message, and what comes after it.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(number(bytes, 0)?).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, bytes.get(16..length)?, next))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// All of the family Unix, with the lengths of their queues.
fn unix() -> Vec<u8> {
    const LENGTHS: u32 = 0x10;
    let numbers = [u32::MAX, 0, LENGTHS, 0, 0];
    let family = u8::try_from(libc::AF_UNIX).unwrap_or_default();
    [family, 0, 0, 0].into_iter().chain(numbers.into_iter().flat_map(u32::to_ne_bytes)).collect()
}

fn local(socket: &[u8]) -> Option<u64> {
    const LENGTHS: u16 = 4;
    let (kind, state) = (*socket.get(1)?, *socket.get(2)?);
    let mut rest = socket.get(16..)?;
    while let Some([a, b, c, d]) = rest.first_chunk() {
        let length = usize::from(u16::from_ne_bytes([*a, *b]));
        let name = u16::from_ne_bytes([*c, *d]);
        if name == LENGTHS {
            let bytes = u64::from(number(rest, 4)?);
            let at_most = BUFFER.max(bytes.saturating_mul(AROUND));
            return Some(match (bytes, state, kind) {
                (0, ..) | (_, LISTENING, _) => 0,
                (_, _, STREAM | SEQPACKET) => at_most,
                (..) => at_most.saturating_mul(MESSAGES),
            });
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

/// All of a family and a protocol.
fn internet(family: AddressFamily, protocol: libc::c_int) -> Vec<u8> {
    let family = u8::try_from(family.as_raw()).unwrap_or_default();
    let protocol = u8::try_from(protocol).unwrap_or_default();
    let mut question = vec![family, protocol, 0, 0];
    question.extend(u32::MAX.to_ne_bytes());
    question.extend([0; 48]);
    question
}

fn connection(socket: &[u8]) -> Option<u64> {
    if *socket.get(1)? == LISTENING {
        return None;
    }
    let (received, sent) = (number(socket, 56)?, number(socket, 60)?);
    Some(u64::from(received).saturating_add(u64::from(sent)).saturating_mul(AROUND))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use rustix::fs::fstat;

    use super::*;

    /// Where the kernel puts a socket's number in what it tells about one of the family Unix.
    const UNIX_NUMBER: usize = 4;
    /// And of the others.
    const INTERNET_NUMBER: usize = 68;

    /// What is found in this socket alone, whatever others of the machine do meanwhile.
    fn waits_in(
        socket: impl AsFd,
        (question, at): (&[u8], usize),
        waits: fn(&[u8]) -> Option<u64>,
    ) -> u64 {
        let wanted = fstat(socket).unwrap().st_ino;
        let was_told = Cell::new(false);
        let only = |socket: &[u8]| {
            let is_it = number(socket, at).is_some_and(|found| u64::from(found) == wanted);
            was_told.set(was_told.get() || is_it);
            waits(socket).filter(|_| is_it)
        };
        let kernel = kernel().unwrap();
        // Where others end meanwhile, one answer may leave some out.
        for _ in 0..100 {
            let found = ask(&kernel, question, &only).unwrap();
            if was_told.get() {
                return found;
            }
        }
        panic!("the kernel does not tell about {wanted}")
    }

    #[test]
    fn what_waits_is_found_in_every_kind_of_socket() {
        let all = unix();
        let unix = (all.as_slice(), UNIX_NUMBER);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        assert_eq!(waits_in(&theirs, unix, local), 0);
        ours.write_all(b"x").unwrap();
        // Nobody is left who has sent it.
        drop(ours);
        assert_eq!(waits_in(&theirs, unix, local), BUFFER);
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        assert_eq!(waits_in(&theirs, unix, local), 0);
        ours.send(b"x").unwrap();
        assert_eq!(waits_in(&theirs, unix, local), BUFFER * MESSAGES);
    }

    #[test]
    fn what_waits_in_connections_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let all = internet(AddressFamily::INET, libc::IPPROTO_TCP);
        let tcp = (all.as_slice(), INTERNET_NUMBER);
        assert_eq!(waits_in(&receiver, tcp, connection), 0);
        sender.write_all(&[0; 10_000]).unwrap();
        receiver.peek(&mut [0]).unwrap();
        let both = waits_in(&sender, tcp, connection) + waits_in(&receiver, tcp, connection);
        assert!(both >= 10_000, "{both}");
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let all = internet(AddressFamily::INET, libc::IPPROTO_UDP);
        let udp = (all.as_slice(), INTERNET_NUMBER);
        assert_eq!(waits_in(&datagrams, udp, connection), 0);
        datagrams.send_to(&[0; 10_000], datagrams.local_addr().unwrap()).unwrap();
        datagrams.peek(&mut [0]).unwrap();
        assert!(waits_in(&datagrams, udp, connection) >= 10_000);
    }

    #[test]
    fn all_kinds_are_added_up() {
        let (ours, _theirs) = UnixDatagram::pair().unwrap();
        ours.send(b"x").unwrap();
        let numbers = Numbers { all: FEW + 1, tcp: 1, udp: 1 };
        assert!(count(&numbers, 0).unwrap() >= BUFFER * MESSAGES);
    }

    #[test]
    fn a_kernel_that_does_not_tell_hides_something_only_in_many() {
        let hidden = |all| unseen(&Numbers { all, ..Numbers::default() });
        assert_eq!([UNSEEN, UNSEEN + 2].map(hidden), [0, 2 * BUFFER]);
    }

    #[test]
    fn the_numbers_are_read() {
        let text = "sockets: used 51\nTCP: inuse 5 orphan 0 tw 1\nUDP: inuse 2 mem 0\n";
        assert_eq!(Numbers::of(text), Numbers { all: 51, tcp: 5, udp: 2 });
        let six = Numbers { all: 0, tcp: 1, udp: 3 };
        assert_eq!(Numbers::of("TCP6: inuse 1\nUDP6: inuse 3\n"), six);
        assert_eq!(Numbers::of(""), Numbers::default());
    }
}
