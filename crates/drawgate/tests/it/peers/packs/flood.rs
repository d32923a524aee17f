//! Strangers who use HTTP/2 against the gateway, frame by frame.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{full, is_listed, one, two_packs};
use crate::peers::Peers;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A request's head: POST, http, a path and an authority, without compression.
fn head(authority: &str) -> Vec<u8> {
    let mut head = vec![0x83, 0x86];
    let path = b"/grpc.health.v1.Health/Check";
    head.extend([0x04, u8::try_from(path.len()).unwrap()]);
    head.extend(path);
    head.extend([0x01, u8::try_from(authority.len()).unwrap()]);
    head.extend(authority.as_bytes());
    head
}

async fn dial(peers: &Peers) -> TcpStream {
    let mut stream = TcpStream::connect(&peers.gateway.address).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    stream
}

/// The code by which the gateway ends the connection; `None` if it just closes it.
async fn goodbye(stream: &mut TcpStream) -> Option<u32> {
    let mut head = [0; 9];
    loop {
        if stream.read_exact(&mut head).await.is_err() {
            return None;
        }
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        if stream.read_exact(&mut payload).await.is_err() {
            return None;
        }
        if head[3] == GOAWAY {
            return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
    }
}

async fn ends(stream: &mut TcpStream) -> Option<u32> {
    tokio::time::timeout(Duration::from_secs(30), goodbye(stream)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_takes_back_requests_in_a_flood_is_shown_the_door() {
    const ENHANCE_YOUR_CALM: u32 = 11;
    let peers = two_packs("");
    let mut stream = dial(&peers).await;
    let head = head(&peers.gateway.address);
    let flood: Vec<u8> = (0..2000_u32)
        .flat_map(|number| {
            let id = number * 2 + 1;
            let mut request = frame(HEADERS, END_HEADERS, id, &head);
            request.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
            request
        })
        .collect();
    // The gateway may hang up before all is said.
    let _ = stream.write_all(&flood).await;
    let code = ends(&mut stream).await;
    assert!(code.is_none_or(|code| code == ENHANCE_YOUR_CALM), "{code:?}");
    serves(&peers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_without_end_is_not_read_to_the_end() {
    let peers = two_packs("");
    let mut stream = dial(&peers).await;
    let mut flood = frame(HEADERS, END_STREAM, 1, &head(&peers.gateway.address));
    // A field that never ends: each frame goes on with 16,000 bytes of it.
    for _ in 0..200 {
        let mut field = vec![0x00, 0x01, b'x', 0x7f, 0x81, 0x7c];
        field.extend(vec![b'v'; 16_000]);
        flood.extend(frame(CONTINUATION, 0, 1, &field));
    }
    let _ = stream.write_all(&flood).await;
    ends(&mut stream).await;
    serves(&peers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_but_grpc_is_sent_to_http_1() {
    let peers = two_packs("");
    let wire = peers.wire().await;
    let mut service = wire.clone();
    let request = http::Request::post(format!("http://{}/mcp", wire.authority()))
        .header("content-type", "application/json")
        .body(tonic::body::Body::empty())
        .unwrap();
    let answer = tower::Service::call(&mut service, request).await.unwrap();
    assert_eq!(answer.status(), http::StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

/// The gateway still does its work.
async fn serves(peers: &Peers) {
    let pack = one(peers).await;
    let _calls = pack.connect(full("one", &["work"])).await.unwrap();
    assert!(is_listed(&peers.gateway, "work").await);
}
