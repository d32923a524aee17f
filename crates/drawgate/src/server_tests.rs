//! Connections in memory, under a clock that jumps.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// A client's end of a connection whose every request is answered with `size` bytes.
fn connect(size: usize) -> (DuplexStream, Server) {
    let timeouts = Timeouts::default();
    let server = Server::with_timeouts(1, timeouts);
    let (client, stream) = tokio::io::duplex(4096);
    let driver = server.clone();
    server.connections.spawn(async move {
        let service = move |_: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new(Body::from(vec![b'x'; size])))
        };
        driver.drive(stream, service).await;
    });
    server.connections.close();
    (client, server)
}

async fn ask(client: &mut DuplexStream) {
    client.write_all(ASK).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"xx") {
        assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0);
    }
}

async fn closed_after(client: &mut DuplexStream) -> Duration {
    let start = Instant::now();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_lives_longer_than_a_head_may_take() {
    let (mut client, _server) = connect(2);
    for pause in [0, 60, 74] {
        tokio::time::sleep(SECOND * pause).await;
        ask(&mut client).await;
    }
    assert_eq!(closed_after(&mut client).await.as_secs(), 75);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_has_begun_must_end_soon() {
    let (mut client, _server) = connect(2);
    ask(&mut client).await;
    tokio::time::sleep(SECOND * 60).await;
    client.write_all(b"GET / HT").await.unwrap();
    tokio::time::sleep(SECOND * 9).await;
    // A byte now and then wins no time.
    client.write_all(b"TP/1.1\r\n").await.unwrap();
    assert_eq!(closed_after(&mut client).await.as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_wait_for_the_next_request() {
    let (mut client, _server) = connect(2);
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET").await.unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_take_its_answer_is_cut() {
    let (mut client, server) = connect(1024 * 1024);
    client.write_all(ASK).await.unwrap();
    let start = Instant::now();
    server.connections.wait().await;
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_its_answer_slowly_gets_it() {
    let (mut client, server) = connect(64 * 1024);
    client.write_all(ASK).await.unwrap();
    let mut answer = Vec::new();
    while answer.len() < 64 * 1024 {
        tokio::time::sleep(SECOND * 20).await;
        assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0);
    }
    drop(client);
    server.connections.wait().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_reaches_a_peer_that_is_still_sending() {
    let (mut client, server) = connect(2);
    client
        .write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1048576\r\n\r\n")
        .await
        .unwrap();
    let (mut reading, mut writing) = tokio::io::split(client);
    let sent = tokio::spawn(async move {
        let done = writing.write_all(&vec![b'x'; 1024 * 1024]).await;
        (done, writing)
    });
    let mut answer = Vec::new();
    reading.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"xx"));
    let (done, writing) = sent.await.unwrap();
    done.unwrap();
    drop((reading, writing));
    server.connections.wait().await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_ends_its_request_is_not_heard_for_ever() {
    let (mut client, server) = connect(2);
    client
        .write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1048576\r\n\r\n")
        .await
        .unwrap();
    let start = Instant::now();
    let slowly = tokio::spawn(async move {
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(SECOND).await;
        }
    });
    server.connections.wait().await;
    slowly.abort();
    assert_eq!(start.elapsed().as_secs(), 5);
}
