//! Which HTTP a peer speaks, told by its first bytes: HTTP/2 begins with a preface that is no request
//! of HTTP/1.1.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

/// Enough of HTTP/2's preface, `PRI * HTTP/2.0`, to tell it from every method there is.
const PREFACE: &[u8] = b"PRI";
/// Bytes that were peeked at stay, and so the stream stays readable: whoever sends the preface byte by
/// byte is looked at again after this, so many times.
const AGAIN: Duration = Duration::from_millis(5);
const LOOKS: u32 = 200;

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// HTTP/1.1, or nothing that is known.
    One,
    /// HTTP/2.
    Two,
}

/// Waits for the first bytes and leaves them where they are. `None` if the peer goes without a word.
pub(super) async fn version(stream: &TcpStream) -> io::Result<Option<Version>> {
    let mut first = [0; PREFACE.len()];
    for _ in 0..LOOKS {
        let count = stream.peek(&mut first).await?;
        let seen = first.get(..count).unwrap_or_default();
        if seen.is_empty() {
            return Ok(None);
        }
        if !PREFACE.starts_with(seen) {
            return Ok(Some(Version::One));
        }
        if seen == PREFACE {
            return Ok(Some(Version::Two));
        }
        tokio::time::sleep(AGAIN).await;
    }
    // Neither; HTTP/1.1 has a limit of its own for a head that does not end.
    Ok(Some(Version::One))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.unwrap(), accepted.unwrap().0)
    }

    #[tokio::test]
    async fn the_first_bytes_tell() {
        let rows: [(&[u8], Option<Version>); 7] = [
            (b"PR", Some(Version::One)),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Version::Two)),
            (b"POST /mcp HTTP/1.1\r\n", Some(Version::One)),
            (b"PROPFIND / HTTP/1.1\r\n", Some(Version::One)),
            (b"GET / HTTP/1.1\r\n", Some(Version::One)),
            (b"\x16\x03\x01", Some(Version::One)),
            (b"", None),
        ];
        for (sent, expected) in rows {
            let (mut client, server) = pair().await;
            client.write_all(sent).await.unwrap();
            client.shutdown().await.unwrap();
            assert_eq!(version(&server).await.unwrap(), expected, "{sent:?}");
        }
    }

    #[tokio::test]
    async fn a_preface_in_pieces_is_waited_for() {
        for (rest, expected) in [(b"I * ".as_slice(), Version::Two), (b"OPFIND", Version::One)] {
            let (mut client, server) = pair().await;
            client.set_nodelay(true).unwrap();
            client.write_all(b"PR").await.unwrap();
            let told = tokio::spawn(async move { version(&server).await });
            client.write_all(rest).await.unwrap();
            assert_eq!(told.await.unwrap().unwrap(), Some(expected));
        }
    }
}
