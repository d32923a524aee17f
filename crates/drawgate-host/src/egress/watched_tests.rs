use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

struct Line {
    near: Watched<DuplexStream>,
    far: DuplexStream,
}

impl Line {
    fn new() -> Self {
        let (near, far) = duplex(4 * MAX_HEAD);
        let near = Watched { stream: near, stage: Stage::Listening, last: LastHead::default() };
        Self { near, far }
    }

    /// Asks, and reads an answer that comes in pieces of this length; what is kept of it.
    async fn ask(&mut self, answer: &[u8], piece: usize) -> Vec<u8> {
        self.near.write_all(b"GET").await.unwrap();
        for piece in answer.chunks(piece) {
            self.far.write_all(piece).await.unwrap();
            let mut read = vec![0; piece.len()];
            self.near.read_exact(&mut read).await.unwrap();
            assert_eq!(read, piece);
        }
        self.near.last.0.lock().clone()
    }
}

const REDIRECT: &[u8] = b"HTTP/1.1 302 Found\r\nlocation: /a\0\r\n\r\n";
const SOON: &[u8] = b"HTTP/1.1 103 Soon\r\nlink: </a>\r\n\r\n";

#[tokio::test]
async fn the_last_redirect_is_kept_and_nothing_else() {
    let mut line = Line::new();
    for piece in [1, 5, 1000] {
        for (answer, kept) in [
            (REDIRECT.to_vec(), REDIRECT),
            (b"HTTP/1.1 200 OK\r\nlocation: /\r\n\r\nHTTP/1.1 302 Found\r\n\r\n".to_vec(), b""),
            ([REDIRECT, b"and a body"].concat(), REDIRECT),
            ([SOON, SOON, b"\r\n", REDIRECT].concat(), REDIRECT),
            ([SOON, b"HTTP/1.1 404 No\r\n\r\n"].concat(), b""),
            (b"\n\r\n\rHTTP/1.1 302 Found".to_vec(), b"HTTP/1.1 302 Found"),
            // The rest of that one, though something more was asked for meanwhile.
            (b"\nx: y\n\nbody".to_vec(), b"HTTP/1.1 302 Found\nx: y\n\n"),
            (SOON[..20].to_vec(), &SOON[..20]),
            ([&SOON[20..], b"SSH-2.0-OpenSSH_9\r\n"].concat(), b""),
        ] {
            let told = answer.escape_ascii().to_string();
            assert_eq!(line.ask(&answer, piece).await, kept, "{told} in {piece}");
        }
    }
}

#[tokio::test]
async fn what_is_kept_is_bounded() {
    let mut line = Line::new();
    let long = [b"HTTP/1.1 302 Found\r\nx: ".to_vec(), vec![b'x'; 3 * MAX_HEAD]].concat();
    assert_eq!(line.ask(&long, 1000).await, long[..MAX_HEAD]);
    assert_eq!(line.ask(&long, usize::MAX).await, long[..MAX_HEAD]);
    assert_eq!(line.ask(&SOON.repeat(3000), 10_000).await, b"");
    assert_eq!(line.ask(REDIRECT, 3).await, REDIRECT);
    let empty = vec![b'\n'; 2 * MAX_HEAD];
    assert_eq!(line.ask(&empty, usize::MAX).await, b"");
}

#[tokio::test]
async fn a_connection_tells_of_it() {
    let mut line = Line::new();
    let last = LastHead::of(&line.near.connected()).unwrap();
    assert!(!last.is_broken_in_location());
    line.ask(REDIRECT, 1000).await;
    assert!(last.is_broken_in_location());
    line.ask(b"HTTP/1.1 200 OK\r\n\r\n", 1000).await;
    assert!(!last.is_broken_in_location());
    assert!(LastHead::of(&Connected::new()).is_none());
}
