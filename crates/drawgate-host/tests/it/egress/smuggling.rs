//! Requests that two readers may cut in two different places. A strict server behind the proxy tells
//! where it cuts them, and whether anything is left over.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use drawgate_host::egress::network::Network;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::proxy::serve;

/// One connection, as the server behind the proxy read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    line: String,
    body: Vec<u8>,
    /// What is wrong with it, for a reader that forgives nothing.
    wrong: Option<String>,
    /// What came after the request.
    rest: Vec<u8>,
}

#[derive(Clone)]
struct Strict {
    address: SocketAddr,
    /// Connections that were made, and not yet told about.
    made: Arc<AtomicUsize>,
    seen: Arc<Mutex<UnboundedReceiver<Seen>>>,
}

impl Strict {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, seen) = unbounded_channel();
        let seen = Arc::new(Mutex::new(seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move { tell.send(read(stream).await) });
            }
        });
        Self { address, made: Arc::default(), seen }
    }

    /// All connections since the last time, each to its end.
    async fn take(&self) -> Vec<Seen> {
        let mut all = Vec::new();
        for _ in 0..self.made.swap(0, Ordering::SeqCst) {
            all.push(self.seen.lock().await.recv().await.unwrap());
        }
        all
    }
}

#[async_trait]
impl Network for Strict {
    async fn resolve(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![([93, 184, 216, 34], port).into()])
    }

    async fn connect(&self, _: SocketAddr) -> io::Result<TcpStream> {
        self.made.fetch_add(1, Ordering::SeqCst);
        TcpStream::connect(self.address).await
    }
}

async fn read(stream: TcpStream) -> Seen {
    let mut stream = BufReader::new(stream);
    let mut seen = Seen::default();
    match request(&mut stream, &mut seen).await {
        Ok(()) => {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
            let _gone = stream.write_all(answer).await;
            let _gone = stream.shutdown().await;
            let _gone = stream.read_to_end(&mut seen.rest).await;
        }
        Err(error) => seen.wrong = Some(error.to_string()),
    }
    seen
}

async fn request(stream: &mut BufReader<TcpStream>, seen: &mut Seen) -> io::Result<()> {
    let bad = |what: &str| io::Error::other(what.to_owned());
    seen.line = line(stream).await?;
    let (mut length, mut chunked) = (None, false);
    loop {
        let header = line(stream).await?;
        let Some((name, value)) = header.split_once(": ") else {
            if header.is_empty() {
                break;
            }
            return Err(bad(&header));
        };
        match name {
            "content-length" if length.is_some() => return Err(bad("two lengths")),
            "content-length" => length = Some(value.parse().map_err(io::Error::other)?),
            "transfer-encoding" if chunked || value != "chunked" => return Err(bad(value)),
            "transfer-encoding" => chunked = true,
            _ => {}
        }
    }
    match (length, chunked) {
        (Some(_), true) => return Err(bad("a length in two ways")),
        (None, false) => {}
        (Some(length), false) => {
            seen.body = vec![0; length];
            stream.read_exact(&mut seen.body).await?;
        }
        (None, true) => loop {
            let size = usize::from_str_radix(&line(stream).await?, 16).map_err(io::Error::other)?;
            let mut chunk = vec![0; size];
            stream.read_exact(&mut chunk).await?;
            seen.body.append(&mut chunk);
            if !line(stream).await?.is_empty() {
                return Err(bad("a chunk is longer than it says, or there are trailers"));
            }
            if size == 0 {
                break;
            }
        },
    }
    Ok(())
}

async fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let stripped = line.strip_suffix("\r\n").filter(|line| !line.contains(['\r', '\n']));
    stripped.map(str::to_owned).ok_or_else(|| io::Error::other(format!("{line:?} is no line")))
}

const EVIL: &str = "GET http://evil.tg.test/two HTTP/1.1\r\nhost: evil.tg.test\r\n\r\n";

/// Headers of a `POST`, its body, and what the server may see of it: the body, or nothing.
const CASES: &[(&str, &str, Option<&[u8]>)] = &[
    // Whole requests, so that what is refused below is refused for what it is.
    ("content-length: 4\r\n", "body", Some(b"body")),
    ("transfer-encoding: chunked\r\n", "4\r\nbody\r\n0\r\n\r\n", Some(b"body")),
    ("transfer-encoding: chunked\r\n", "4;a=b\r\nbody\r\n0\r\nx: y\r\n\r\n", Some(b"body")),
    // Two ways to say how long it is: only the chunks count, or nothing does.
    ("content-length: 4\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n", Some(b"")),
    ("transfer-encoding: chunked\r\ncontent-length: 4\r\n", "0\r\n\r\n", Some(b"")),
    ("content-length: 0\r\ntransfer-encoding: chunked\r\n", "1\r\nx\r\n0\r\n\r\n", Some(b"x")),
    // Encodings that are none, or not the last.
    ("transfer-encoding: xchunked\r\n", "0\r\n\r\n", None),
    ("transfer-encoding: chunked, identity\r\n", "0\r\n\r\n", None),
    ("transfer-encoding: chunked\r\ntransfer-encoding: x\r\n", "0\r\n\r\n", None),
    ("transfer-encoding : chunked\r\n", "0\r\n\r\n", None),
    ("transfer-encoding:\u{b}chunked\r\n", "0\r\n\r\n", None),
    ("transfer-encoding:\r\n chunked\r\n", "0\r\n\r\n", None),
    (" transfer-encoding: chunked\r\n", "0\r\n\r\n", None),
    // Lengths that are none.
    ("content-length: 4\r\ncontent-length: 5\r\n", "body!", None),
    ("content-length: 4, 5\r\n", "body!", None),
    ("content-length: +4\r\n", "body", None),
    ("content-length: -4\r\n", "body", None),
    ("content-length: 0x4\r\n", "body", None),
    ("content-length: 4 4\r\n", "body", None),
    ("content-length: 18446744073709551620\r\n", "body", None),
    // Chunks that are none.
    ("transfer-encoding: chunked\r\n", "FFFFFFFFFFFFFFFFF\r\nx\r\n0\r\n\r\n", None),
    ("transfer-encoding: chunked\r\n", "-1\r\nx\r\n0\r\n\r\n", None),
    ("transfer-encoding: chunked\r\n", "0x1\r\nx\r\n0\r\n\r\n", None),
    ("transfer-encoding: chunked\r\n", "1;a=\nb\r\nx\r\n0\r\n\r\n", None),
    ("transfer-encoding: chunked\r\n", "1\r\nxyz\r\n0\r\n\r\n", None),
    ("transfer-encoding: chunked\r\n", "1\nx\n0\n\n", None),
    // Headers that name others to be dropped.
    ("content-length: 4\r\nconnection: content-length\r\n", "body", Some(b"body")),
    (
        "transfer-encoding: chunked\r\nconnection: transfer-encoding\r\n",
        "1\r\nx\r\n0\r\n\r\n",
        Some(b"x"),
    ),
];

#[tokio::test]
async fn every_connection_carries_one_request() {
    let strict = Strict::start().await;
    let (proxy, stop) = serve(Arc::new(strict.clone()), &["good.tg.test"]).await;
    for (headers, body, expected) in CASES {
        let mut stream = TcpStream::connect(proxy).await.unwrap();
        let request = format!(
            "POST http://good.tg.test/one HTTP/1.1\r\nhost: good.tg.test\r\n{headers}\r\n{body}{EVIL}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        let all = strict.take().await;
        let served = answer.matches("HTTP/1.1 200 ").count();
        let Some(expected) = expected else {
            assert_eq!(served, 0, "{headers:?} {body:?}: {answer}");
            // It may have begun when the proxy saw what it is, and the server saw no end of it.
            assert!(all.iter().all(|it| it.wrong.is_some()), "{headers:?} {body:?}: {all:?}");
            continue;
        };
        assert_eq!(served, 1, "{headers:?} {body:?}: {answer}");
        let whole = Seen {
            line: "POST /one HTTP/1.1".to_owned(),
            body: expected.to_vec(),
            ..Seen::default()
        };
        assert_eq!(all, [whole], "{headers:?} {body:?}: {answer}");
    }
    stop.cancel();
}

#[tokio::test]
async fn old_versions_have_no_chunks() {
    let strict = Strict::start().await;
    let (proxy, stop) = serve(Arc::new(strict.clone()), &["good.tg.test"]).await;
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    let head =
        "POST http://good.tg.test/one HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.0 400 "), "{answer}");
    assert_eq!(strict.take().await, []);
    stop.cancel();
}
