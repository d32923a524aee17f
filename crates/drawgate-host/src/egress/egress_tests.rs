use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Serves each connection with one of the given raw answers, repeating the last, and counts them.
async fn server(answers: Vec<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut answers = answers.into_iter().cycle();
        while let (Ok((mut stream, _)), Some(answer)) = (listener.accept().await, answers.next()) {
            read_head(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    address
}

async fn read_head(stream: &mut TcpStream) {
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        seen.extend(byte);
    }
}

async fn ask(
    egress: &Egress,
    address: &str,
    deadline: Instant,
) -> Result<Response<AnswerBody>, EgressError> {
    let request = Request::get(address).body(Body::default()).unwrap();
    let reach = Reach::own(request.uri());
    egress.request(request, &reach, deadline).await
}

async fn upgrade(address: SocketAddr) -> Result<Upgrade, EgressError> {
    let request = asking(address);
    let reach = Reach::own(request.uri());
    Egress::new().upgrade(request, &reach, soon()).await
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

async fn fetch(answer: &'static str, cap: usize) -> Result<Bytes, EgressError> {
    let address = server(vec![answer]).await;
    let response = ask(&Egress::new(), &format!("http://{address}/"), soon()).await?;
    read_body(response.into_body(), cap, soon()).await
}

#[tokio::test]
async fn bodies_are_whole_and_bounded() {
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(fetch(short, 5).await.unwrap(), "hello");
    assert!(matches!(fetch(short, 4).await, Err(EgressError::TooLarge(4))));
    let chunked =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
    assert_eq!(fetch(chunked, 5).await.unwrap(), "hello");
    assert!(matches!(fetch(chunked, 4).await, Err(EgressError::TooLarge(4))));
}

#[tokio::test]
async fn a_truncated_body_is_an_error() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
    ] {
        let error = fetch(answer, 100).await.unwrap_err();
        assert!(matches!(error, EgressError::Truncated), "{error:?}");
        assert!(!error.nothing_was_sent());
    }
}

#[tokio::test]
async fn redirects_are_answers_like_any_other() {
    let address = server(vec![
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    ])
    .await;
    let response = ask(&Egress::new(), &format!("http://{address}/"), soon()).await.unwrap();
    assert_eq!(response.status(), 302);
}

#[tokio::test]
async fn refused_means_nothing_was_sent() {
    // Bound, so that nobody else gets the port, and not listening.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = nobody.local_addr().unwrap();
    let error = ask(&Egress::new(), &format!("http://{address}/"), soon()).await.unwrap_err();
    assert!(error.nothing_was_sent(), "{error:?}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn a_lost_connection_means_perhaps_sent() {
    let address = server(vec![""]).await;
    let error = ask(&Egress::new(), &format!("http://{address}/"), soon()).await.unwrap_err();
    assert!(matches!(error, EgressError::Lost(_)), "{error:?}");
    assert!(!error.nothing_was_sent());
}

#[tokio::test]
async fn silence_ends_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let deadline = Instant::now() + Duration::from_millis(20);
    let error = ask(&Egress::new(), &format!("http://{address}/"), deadline).await.unwrap_err();
    assert!(matches!(error, EgressError::Deadline), "{error:?}");
}

#[tokio::test]
async fn other_schemes_are_refused() {
    let error = ask(&Egress::new(), "ftp://127.0.0.1/", soon()).await.unwrap_err();
    assert!(matches!(error, EgressError::Address(_)), "{error:?}");
    assert!(error.nothing_was_sent());
}

#[tokio::test]
async fn connections_are_reused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        }
    });
    let egress = Egress::new();
    for _ in 0..3 {
        let response = ask(&egress, &format!("http://{address}/"), soon()).await.unwrap();
        assert_eq!(read_body(response.into_body(), 10, soon()).await.unwrap(), "ok");
    }
    connections.await.unwrap();
}

fn asking(address: SocketAddr) -> Request<Body> {
    Request::get(format!("http://{address}/"))
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .body(Body::default())
        .unwrap()
}

#[tokio::test]
async fn a_connection_can_become_something_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        let agreed = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhello";
        stream.write_all(agreed).await.unwrap();
        let mut said = [0; 3];
        stream.read_exact(&mut said).await.unwrap();
        stream.write_all(&said).await.unwrap();
    });
    let Upgrade::Agreed { headers, mut stream } = upgrade(address).await.unwrap() else {
        panic!("it was refused")
    };
    assert_eq!(headers["upgrade"], "echo");
    stream.write_all(b"you").await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "helloyou");
}

#[tokio::test]
async fn a_refused_change_is_an_answer() {
    let address = server(vec!["HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n"]).await;
    let answer = upgrade(address).await.unwrap();
    assert!(matches!(answer, Upgrade::Refused(response) if response.status() == 426));
}

#[tokio::test]
async fn an_answer_that_is_left_half_read_is_not_mixed_with_the_next() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello";
    let whole = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        for answer in [half, whole] {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
            open.push(stream);
        }
        std::future::pending::<()>().await;
    });
    let egress = Egress::new();
    let mut chunks = Chunks::new(ask(&egress, &address, soon()).await.unwrap().into_body());
    assert_eq!(chunks.next().await.unwrap().unwrap(), "hello");
    drop(chunks);
    let answer = ask(&egress, &address, soon()).await.unwrap();
    assert_eq!(read_body(answer.into_body(), 5, soon()).await.unwrap(), "whole");
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_is_closed_when_nobody_needs_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        }
        // The client's end, and nothing before it.
        stream.read(&mut [0]).await.unwrap()
    });
    let egress = Egress::new();
    for _ in 0..3 {
        ask(&egress, &address, soon()).await.unwrap();
    }
    assert_eq!(server.await.unwrap(), 0);
}
