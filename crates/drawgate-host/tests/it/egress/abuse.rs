//! Programs that use the proxy up, and servers behind it that misbehave. Where time matters it stands
//! still, and jumps to what is waited for.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::hold_time;
use super::proxy::{Stand, opened, stand};

/// Connections of one sandbox at a time.
const CONNECTIONS: usize = 128;
/// The largest head.
const MAX_HEAD: usize = 64 * 1024;

/// No connection stays open for longer when nothing moves on it: two looks, five minutes apart.
const PATIENCE: Duration = Duration::from_mins(11);

const CONNECT: &str = "CONNECT good.tg.test:80 HTTP/1.1\r\nhost: x\r\n\r\n";

fn get(url: &str) -> String {
    format!("GET {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

async fn tunnel(stand: &Stand) -> TcpStream {
    let mut stream = stand.connect().await;
    stream.write_all(CONNECT.as_bytes()).await.unwrap();
    opened(&mut stream).await;
    stream
}

/// A request through a tunnel that stays open, and its answer.
async fn use_tunnel(stream: &mut TcpStream) {
    stream.write_all(b"GET /plain HTTP/1.1\r\n\r\n").await.unwrap();
    opened(stream).await;
    let mut body = [0; 5];
    stream.read_exact(&mut body).await.unwrap();
    assert_eq!(&body, b"plain");
}

/// Everything until the proxy ends the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    // It may end it in the middle of what was written.
    let read = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    let _reset = read.expect("the connection stays open");
    String::from_utf8(rest).unwrap()
}

#[tokio::test]
async fn connections_are_limited_and_seats_are_given_back() {
    let stand = stand(&["good.tg.test"]).await;
    let mut tunnels = Vec::new();
    for _ in 0..CONNECTIONS {
        tunnels.push(tunnel(&stand).await);
    }
    let mut late = stand.connect().await;
    late.write_all(CONNECT.as_bytes()).await.unwrap();
    // Others go on meanwhile, and the late one has had every chance.
    for tunnel in &mut tunnels {
        use_tunnel(tunnel).await;
    }
    assert_eq!(stand.town.visits(), CONNECTIONS);
    drop(tunnels.pop());
    opened(&mut late).await;
    use_tunnel(&mut late).await;
    assert_eq!(stand.town.visits(), CONNECTIONS + 1);
}

#[tokio::test]
async fn refused_and_broken_connections_give_their_seats_back() {
    let stand = stand(&["good.tg.test"]).await;
    for turn in 0..CONNECTIONS + 10 {
        let request = match turn % 3 {
            0 => get("http://evil.tg.test/"),
            1 => get("http://good.tg.test/plain"),
            _ => "\0\0\0\0\r\n\r\n".to_owned(),
        };
        let mut stream = stand.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let _answer = rest(&mut stream).await;
    }
    use_tunnel(&mut tunnel(&stand).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_on_which_nothing_moves_is_closed() {
    let mut hold = hold_time();
    let stand = stand(&["good.tg.test"]).await;
    let mut stream = tunnel(&stand).await;
    for _ in 0..5 {
        drop(hold);
        sleep(Duration::from_mins(4)).await;
        hold = hold_time();
        use_tunnel(&mut stream).await;
    }
    drop(hold);
    assert_eq!(rest(&mut stream).await, "");
}

/// Writes a request while time stands still, until the server has got it.
async fn arrive(stand: &Stand, request: &str) -> TcpStream {
    let hold = hold_time();
    let mut stream = stand.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    stand.town.arrival().await;
    drop(hold);
    stream
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_answering_is_given_up() {
    let stand = stand(&["good.tg.test"]).await;
    let mut stream = arrive(&stand, &get("http://good.tg.test/silence")).await;
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    let mut stream = arrive(&stand, &get("http://good.tg.test/slowbody")).await;
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("slow"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes_is_not_waited_for() {
    let stand = stand(&["good.tg.test"]).await;
    let head = "POST http://good.tg.test/echo HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n";
    let mut stream = arrive(&stand, head).await;
    let answer = rest(&mut stream).await;
    assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_is_cut_off() {
    let stand = stand(&["good.tg.test"]).await;
    let head = get("http://good.tg.test/plain");
    let mut stream = stand.connect().await;
    let mut written = 0;
    for byte in head.bytes() {
        sleep(Duration::from_secs(1)).await;
        if stream.write_all(&[byte]).await.is_err() {
            break;
        }
        written += 1;
    }
    assert!(written < head.len(), "all {written} bytes were taken");
    assert!(!rest(&mut stream).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(stand.town.visits(), 0);
    // The same for a program that says nothing at all, and for one that has had its answer.
    let mut silent = stand.connect().await;
    assert_eq!(rest(&mut silent).await, "");
    let mut kept = stand.connect().await;
    kept.write_all(b"GET http://evil.tg.test/ HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(rest(&mut kept).await.starts_with("HTTP/1.1 403 "));
}

/// A request whose head has this many bytes.
fn padded(length: usize) -> String {
    let start = "GET http://good.tg.test/plain HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-pad: ";
    let padding = "x".repeat(length - start.len() - "\r\n\r\n".len());
    format!("{start}{padding}\r\n\r\n")
}

#[tokio::test]
async fn heads_have_one_bound() {
    let stand = stand(&["good.tg.test"]).await;
    let answer = stand.say(&padded(MAX_HEAD - 1)).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let visits = stand.town.visits();
    let long = |length: usize| get(&format!("http://good.tg.test/{}", "x".repeat(length)));
    let many = format!("GET http://good.tg.test/ HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(101));
    let lengths = [1, 1000, 30_000, MAX_HEAD - 1, MAX_HEAD, 500_000];
    let mut requests: Vec<String> = lengths.map(|more| padded(MAX_HEAD + more)).into();
    requests.extend([long(MAX_HEAD), many]);
    for request in requests {
        for pieces in [request.len(), 1460] {
            let mut stream = stand.connect().await;
            for piece in request.as_bytes().chunks(pieces) {
                // The proxy may hang up before all is written.
                if stream.write_all(piece).await.is_err() {
                    break;
                }
            }
            let answer = rest(&mut stream).await;
            let refused = ["", "HTTP/1.1 431 ", "HTTP/1.1 414 "];
            let expected =
                refused.iter().any(|it| answer.starts_with(it)) && !answer.contains(" 200 ");
            assert!(expected, "{} in {pieces}: {answer}", request.len());
        }
    }
    assert_eq!(stand.town.visits(), visits);
}

#[tokio::test]
async fn every_request_of_a_connection_is_judged() {
    let stand = stand(&["good.tg.test"]).await;
    let ask = |url: &str| format!("GET {url} HTTP/1.1\r\nhost: good.tg.test\r\n\r\n");
    let requests = [
        ask("http://good.tg.test/one"),
        ask("http://evil.tg.test/two"),
        ask("http://127.0.0.1/three"),
        "CONNECT evil.tg.test:443 HTTP/1.1\r\nhost: good.tg.test\r\n\r\n".to_owned(),
        ask("/four"),
        get("http://good.tg.test/five"),
    ];
    let answer = stand.say(&requests.concat()).await;
    let statuses: Vec<&str> =
        answer.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "403", "403", "403", "400", "200"], "{answer}");
    let asked: Vec<String> =
        stand.town.heads().iter().map(|head| head.lines().next().unwrap().to_owned()).collect();
    assert_eq!(asked, ["GET /one HTTP/1.1", "GET /five HTTP/1.1"]);
}

/// What follows on the heels of `CONNECT` belongs to the tunnel.
#[tokio::test]
async fn early_bytes_go_where_the_tunnel_leads() {
    let stand = stand(&["good.tg.test"]).await;
    let early = "GET /once HTTP/1.1\r\nhost: evil.tg.test\r\n\r\n";
    let answer = stand.say(&format!("{CONNECT}{early}")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(stand.town.heads(), [early]);
    assert_eq!(stand.town.visits(), 1);
}

#[tokio::test]
async fn one_host_is_named_and_it_is_the_one_that_was_checked() {
    let stand = stand(&["good.tg.test"]).await;
    for hosts in [
        "",
        "host: evil.tg.test\r\n",
        "host: good.tg.test\r\nhost: evil.tg.test\r\n",
        "host: evil.tg.test\r\nconnection: host\r\n",
        "host: good.tg.test@evil.tg.test\r\n",
        "host: evil.tg.test:443\r\nx-forwarded-host: good.tg.test\r\n",
    ] {
        let before = stand.town.heads().len();
        let request =
            format!("GET http://good.tg.test/plain HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        let answer = stand.say(&request).await;
        let heads = stand.town.heads().split_off(before);
        if answer.starts_with("HTTP/1.1 400 ") {
            assert_eq!(heads, [""; 0], "{hosts}");
            continue;
        }
        let named = heads.iter().flat_map(|head| head.lines()).filter(|it| it.starts_with("host:"));
        assert_eq!(named.collect::<Vec<_>>(), ["host: good.tg.test"], "{hosts}: {answer}");
    }
}

#[tokio::test]
async fn answers_that_break_the_rules_are_not_passed_on() {
    let stand = stand(&["good.tg.test"]).await;
    for path in ["clte", "headers?n=5000", "bigheader", "flood100", "switch"] {
        let answer = stand.say(&get(&format!("http://good.tg.test/{path}"))).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{path}: {answer}");
    }
    let mut stream = stand.connect().await;
    stream.write_all(get("http://good.tg.test/halfclose").as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.contains("content-length: 1000") && answer.ends_with("half"), "{answer}");
}
