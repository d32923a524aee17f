use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::load::Target;

/// A server that accepts one connection and answers its requests with these bodies, in order.
async fn server(bodies: [&'static str; 3]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for body in bodies {
            read_request(&mut stream).await;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(body.as_bytes()).await.unwrap();
        }
        read_request(&mut stream).await;
    });
    address
}

/// Reads until the JSON of the body is complete; every request here ends in a brace.
async fn read_request(stream: &mut TcpStream) {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    while !request.ends_with(b"}") {
        match stream.read(&mut chunk).await.unwrap() {
            0 => return,
            count => request.extend_from_slice(&chunk[..count]),
        }
    }
}

async fn load(bodies: [&'static str; 3]) -> Result<Tally> {
    let target = Target { to: server(bodies).await, token: None };
    let args = Args {
        target,
        clients: 1,
        milliseconds: 20_000,
        warm_up_milliseconds: 0,
        list: None,
        watch: None,
    };
    Ok(run(&args).await?.0)
}

const OPENED: &str = r#"{"id":1,"result":{"protocolVersion":"2025-11-25"}}"#;

#[tokio::test]
async fn a_wrong_answer_fails_the_run() {
    let other = r#"{"id":2,"result":{"content":[{"type":"text","text":"for someone else"}]}}"#;
    let error = load([OPENED, "", other]).await.err().unwrap();
    assert!(error.to_string().contains("a wrong answer"), "{error:#}");
}

#[tokio::test]
async fn a_refusal_is_counted_and_ends_its_connection() {
    let refused = r#"{"id":2,"error":{"code":-32000,"message":"too busy"}}"#;
    let tally = load([OPENED, "", refused]).await.unwrap();
    assert_eq!((tally.answered, tally.errors), (0, 1));
    assert!(tally.first_error.unwrap().contains("too busy"));
}
