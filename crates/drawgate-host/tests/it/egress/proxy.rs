//! The proxy of sandboxed programs.

use std::net::SocketAddr;
use std::sync::Arc;

use drawgate_host::egress::network::{Network, System};
use drawgate_host::egress::proxy::ProxyAccess;
use drawgate_host::egress::{Egress, Internal, ParentProxy, Reach, proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::rules;
use super::town::Town;

/// A proxy, and the town behind it.
pub(super) struct Stand {
    pub(super) town: Town,
    pub(super) proxy: SocketAddr,
    stop: CancellationToken,
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(super) async fn stand(hosts: &[&str]) -> Stand {
    let town = Town::start().await;
    let (proxy, stop) = serve(town.network(), hosts).await;
    Stand { town, proxy, stop }
}

/// A proxy to these hosts of a network.
pub(super) async fn serve(
    network: Arc<dyn Network>,
    hosts: &[&str],
) -> (SocketAddr, CancellationToken) {
    serve_with(network, hosts, None).await
}

/// The same, perhaps with a way to the gateway itself.
async fn serve_with(
    network: Arc<dyn Network>,
    hosts: &[&str],
    internal: Option<Arc<dyn Internal>>,
) -> (SocketAddr, CancellationToken) {
    serve_by(Egress::over(network), hosts, internal).await
}

async fn serve_by(
    egress: Egress,
    hosts: &[&str],
    internal: Option<Arc<dyn Internal>>,
) -> (SocketAddr, CancellationToken) {
    let (egress, reach) = (Arc::new(egress), Reach::only(rules(hosts)));
    let access = ProxyAccess { egress, reach, internal, refused: None };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(proxy::serve(listener, access, stop.clone()));
    (address, stop)
}

impl Stand {
    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy).await.unwrap()
    }

    /// Writes a request and reads until the proxy ends the connection.
    pub(super) async fn say(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

/// Reads the head that says that the tunnel is open, and not a byte more.
pub(super) async fn opened(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
}

#[tokio::test]
async fn tunnels_carry_bytes_to_allowed_hosts() {
    let stand = stand(&["good.tg.test"]).await;
    let mut stream = TcpStream::connect(stand.proxy).await.unwrap();
    let ask = "CONNECT good.tg.test:80 HTTP/1.1\r\nhost: good.tg.test:80\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.unwrap();
    opened(&mut stream).await;
    stream.write_all(b"GET /once HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("\r\n\r\nonce"), "{answer}");
}

#[tokio::test]
async fn requests_are_passed_on_without_what_was_meant_for_the_proxy() {
    let stand = stand(&["good.tg.test"]).await;
    let answer = stand
        .say(
            "POST http://good.tg.test/echo?a=b HTTP/1.1\r\nhost: evil.tg.test\r\nproxy-authorization: x\r\n\
             proxy-connection: keep-alive\r\nconnection: close, x-hop\r\nx-hop: 1\r\nx-end: 2\r\n\
             content-length: 4\r\n\r\nbody",
        )
        .await;
    let (head, seen) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(
        seen.starts_with("POST /echo?a=b HTTP/1.1\r\n") && seen.ends_with("\r\n\r\nbody"),
        "{seen}"
    );
    assert!(seen.contains("host: good.tg.test\r\n") && seen.contains("x-end: 2"), "{seen}");
    for gone in ["evil", "proxy-", "x-hop", "connection:"] {
        assert!(!seen.contains(gone), "{gone}: {seen}");
    }
}

#[tokio::test]
async fn others_are_refused_with_what_to_do() {
    let stand = stand(&["good.tg.test", "inner.tg.test", "rebind.tg.test"]).await;
    let connect =
        |host: &str| format!("CONNECT {host} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let get = |url: &str| format!("GET {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let cases = [
        (connect("evil.tg.test:443"), 403, "permissions.hosts"),
        (connect("good.tg.test:22"), 403, "permissions.hosts"),
        (connect("inner.tg.test:443"), 403, "private network"),
        (connect("127.0.0.1:80"), 403, "private network"),
        (connect("[::1]:80"), 403, "private network"),
        (connect("169.254.169.254:80"), 403, "private network"),
        (connect("0x7f000001:80"), 400, "CONNECT host:port"),
        (connect("good.tg.test:0"), 400, "port 0"),
        (connect("user@good.tg.test:443"), 400, "user name"),
        (get("http://evil.tg.test/"), 403, "permissions.hosts"),
        (get("http://inner.tg.test/"), 403, "private network"),
        (get("http://good.tg.test:8080/"), 403, "permissions.hosts"),
        (get("http://localhost/"), 403, "private network"),
        (get("https://good.tg.test/"), 400, "`https:`"),
        (get("ftp://good.tg.test/"), 400, "`ftp:`"),
        (get("/plain"), 400, "CONNECT host:port"),
        (get("http://user:TGCANARY@good.tg.test/"), 400, "user name"),
    ];
    for (request, status, words) in cases {
        let answer = stand.say(&request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        assert!(answer.contains(words) && !answer.contains("TGCANARY"), "{request}: {answer}");
    }
    assert_eq!((stand.town.visits(), stand.town.breaches()), (0, 0));
}

/// A gateway that answers every connection with the first line that it reads.
#[derive(Debug)]
struct Echo;

impl Internal for Echo {
    fn connect(&self) -> DuplexStream {
        let (near, mut far) = duplex(1024);
        tokio::spawn(async move {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                let Ok(byte) = far.read_u8().await else { return };
                line.push(byte);
            }
            let body = String::from_utf8_lossy(&line).trim().to_owned();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = far.write_all(answer.as_bytes()).await;
        });
        near
    }
}

#[tokio::test]
async fn the_gateway_itself_is_reached_by_those_who_were_given_it() {
    let town = Town::start().await;
    let (proxy, stop) = serve_with(town.network(), &[], Some(Arc::new(Echo))).await;
    let given = Stand { town, proxy, stop };
    let others = stand(&["*"]).await;
    let get = |url: &str| format!("GET {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let connect = |target: &str| {
        format!("CONNECT {target} HTTP/1.1\r\nhost: x\r\n\r\nGET /b HTTP/1.1\r\nhost: x\r\n\r\n")
    };
    for (request, seen) in [
        (get("http://drawgate.internal/a?b=c"), "GET /a?b=c HTTP/1.1"),
        (get("http://DRAWGATE.internal:80/a"), "GET /a HTTP/1.1"),
        (connect("drawgate.internal:80"), "GET /b HTTP/1.1"),
    ] {
        let answer = given.say(&request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{request}: {answer}");
        assert!(answer.ends_with(seen), "{request}: {answer}");
        let answer = others.say(&request).await;
        assert!(!answer.contains(seen), "{request}: {answer}");
    }
    for request in [
        get("http://drawgate.internal:8080/"),
        get("http://x.drawgate.internal/"),
        get("http://good.tg.test/"),
        get("http://127.0.0.1/"),
        "CONNECT drawgate.internal:443 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(),
    ] {
        let answer = given.say(&request).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{request}: {answer}");
    }
    assert_eq!((given.town.visits(), others.town.visits()), (0, 0));
}

#[tokio::test]
async fn names_are_pinned_here_too() {
    let stand = stand(&["rebind.tg.test"]).await;
    for _ in 0..50 {
        let answer = stand
            .say("GET http://rebind.tg.test/plain HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await;
        let served = answer.starts_with("HTTP/1.1 200") && answer.ends_with("plain");
        assert!(served || answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
    assert_eq!((stand.town.visits(), stand.town.breaches()), (25, 0));
}

#[tokio::test]
async fn connections_end_with_the_proxy() {
    let stand = stand(&["good.tg.test"]).await;
    let mut stream = TcpStream::connect(stand.proxy).await.unwrap();
    stream.write_all(b"CONNECT good.tg.test:80 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    opened(&mut stream).await;
    stand.stop.cancel();
    let mut rest = Vec::new();
    let _reset = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn what_is_allowed_is_asked_of_the_operators_own_proxy() {
    let parent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let egress = Egress::over(Arc::new(System));
    let port = parent.local_addr().unwrap().port();
    egress.go_through(Some(ParentProxy::new("127.0.0.1", port).with_login("ada", "secret")));
    let (proxy, stop) = serve_by(egress, &["allowed.tg.test"], None).await;
    let program = async {
        for (host, expected) in [("other.tg.test", "HTTP/1.1 403"), ("10.0.0.1", "HTTP/1.1 403")] {
            let mut stream = TcpStream::connect(proxy).await.unwrap();
            let request =
                format!("CONNECT {host}:443 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&answer), expected, "{host}");
        }
        let mut stream = TcpStream::connect(proxy).await.unwrap();
        let request = b"CONNECT allowed.tg.test:443 HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request).await.unwrap();
        opened(&mut stream).await;
        let mut said = [0; 5];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"hello");
    };
    let operator = async {
        let (mut stream, _) = parent.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let expected = "CONNECT allowed.tg.test:443 HTTP/1.1\r\nHost: allowed.tg.test:443\r\n\
                        Proxy-Authorization: Basic YWRhOnNlY3JldA==\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&head), expected);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").await.unwrap();
        stream
    };
    tokio::join!(program, operator);
    stop.cancel();
}
