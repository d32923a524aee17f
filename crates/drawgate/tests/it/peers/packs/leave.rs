//! Packs that go: for a moment, for good, without a word, or because they are told to.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use drawgate_sdk::proto::{Heartbeat, MessageKind};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::Code;

use super::{
    any, call, code, departed, full, is_listed, metric, next, one, output, said, two, two_packs,
    unlisted,
};
use crate::peers::{RawPack, Wire, key};
use crate::support::eventually;

fn state(peers: &crate::peers::Peers) -> Option<String> {
    Some(peers.place.json(&["packs", "list"])[0]["state"].as_str()?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_restarts_within_its_grace_keeps_its_place() {
    let peers = two_packs("[grpc]\ngrace_seconds = 3600\n");
    let pack = one(&peers).await;
    let mut calls = pack.connect(full("one", &["work"])).await.unwrap();
    let under_way = call(&peers, "work", any());
    next(&mut calls, MessageKind::Execute).await;
    pack.wire.cut();
    assert_eq!(code(&under_way.await.unwrap()), "UNAVAILABLE");
    eventually("it is away", async || (state(&peers)? == "away").then_some(())).await;
    assert!(is_listed(&peers.gateway, "work").await);
    assert_eq!(code(&call(&peers, "work", any()).await.unwrap()), "UNAVAILABLE");
    let shown = peers.place.ok(&["tools", "list"]);
    assert!(shown.contains("one (away)"), "{shown}");
    // Nobody else gets its names meanwhile.
    let other = two(&peers).await;
    let refused = other.connect(full("two", &["work"])).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);

    let pack = one(&peers).await;
    let mut calls = pack.connect(full("one", &["work"])).await.unwrap();
    assert_eq!(state(&peers).unwrap(), "ready");
    let result = call(&peers, "work", any());
    let request = next(&mut calls, MessageKind::Execute).await;
    pack.answer(&request.request_id, output(&json!("back"))).await.unwrap();
    assert_eq!(said(&result.await.unwrap()), "back");

    // An operator does not have to wait for the grace to end.
    pack.wire.cut();
    eventually("it is away", async || (state(&peers)? == "away").then_some(())).await;
    peers.place.ok(&["packs", "kick", "one"]);
    assert!(!is_listed(&peers.gateway, "work").await);
    assert_eq!(peers.place.json(&["packs", "list"]), json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grace_ends() {
    let peers = two_packs("[grpc]\ngrace_seconds = 1\n");
    let pack = one(&peers).await;
    let _calls = pack.connect(full("one", &["work"])).await.unwrap();
    pack.wire.cut();
    unlisted(&peers.gateway, "work").await;
    assert_eq!(code(&call(&peers, "work", any()).await.unwrap()), "UNAVAILABLE");
    let other = two(&peers).await;
    let _calls = other.connect(full("two", &["work"])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kicked_pack_is_gone_at_once_and_may_come_back() {
    let peers = two_packs("[grpc]\ngrace_seconds = 3600\n");
    let pack = one(&peers).await;
    let mut calls = pack.connect(full("one", &["work"])).await.unwrap();
    let under_way = call(&peers, "work", any());
    next(&mut calls, MessageKind::Execute).await;
    peers.place.ok(&["packs", "kick", "one"]);
    assert!(!is_listed(&peers.gateway, "work").await);
    assert_eq!(code(&under_way.await.unwrap()), "UNAVAILABLE");
    let ended = calls.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
    pack.wire.closed().await;
    departed(&peers, "one", "kicked").await;
    let refused = peers.place.run(&["packs", "kick", "one"]);
    assert!(!refused.status.success());
    let pack = one(&peers).await;
    let _calls = pack.connect(full("one", &["work"])).await.unwrap();
    assert!(is_listed(&peers.gateway, "work").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_whose_key_is_withdrawn_is_out() {
    let peers = two_packs("[grpc]\ngrace_seconds = 3600\n");
    let (pack, away) = (one(&peers).await, two(&peers).await);
    let mut calls = pack.connect(full("one", &["work"])).await.unwrap();
    let gone = away.connect(full("two", &["rest"])).await.unwrap();
    away.wire.cut();
    drop(gone);
    departed(&peers, "two", "lost").await;
    assert!(is_listed(&peers.gateway, "rest").await, "it is away");
    peers.authorize(&[]);
    let ended = calls.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
    unlisted(&peers.gateway, "work").await;
    unlisted(&peers.gateway, "rest").await;
    departed(&peers, "one", "key_removed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_ignores_heartbeats_is_dropped() {
    let peers = two_packs("[grpc]\nheartbeat_seconds = 3\n");
    let (deaf, lively) = (one(&peers).await, two(&peers).await);
    let mut ignored = deaf.connect(full("one", &["deaf"])).await.unwrap();
    let mut calls = lively.connect(full("two", &["lively"])).await.unwrap();
    let answering = lively.wire.clone();
    let answers = tokio::spawn(async move {
        let mut answered = 0;
        while let Ok(Some(message)) = calls.message().await {
            assert_eq!(message.kind(), MessageKind::Heartbeat);
            let alive = Heartbeat { request_id: message.request_id };
            answering.packs().alive(alive).await.unwrap();
            answered += 1;
            if answered == 5 {
                return calls;
            }
        }
        panic!("a pack that answers was dropped");
    });
    for _ in 0..2 {
        assert_eq!(ignored.message().await.unwrap().unwrap().kind(), MessageKind::Heartbeat);
    }
    let ended = ignored.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
    unlisted(&peers.gateway, "deaf").await;
    deaf.wire.closed().await;
    departed(&peers, "one", "silent").await;
    let _calls = answers.await.unwrap();
    assert!(is_listed(&peers.gateway, "lively").await);
}

/// A connection whose other end can fall silent without closing, like a machine that lost its power.
struct Freezing {
    stream: TcpStream,
    is_frozen: Arc<AtomicBool>,
}

impl AsyncRead for Freezing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_frozen.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if self.is_frozen.load(Ordering::SeqCst) {
            buf.set_filled(before);
            return Poll::Pending;
        }
        read
    }
}

impl AsyncWrite for Freezing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_connection_is_found() {
    let peers = two_packs("[grpc]\nheartbeat_seconds = 3\n");
    let address = &peers.gateway.address;
    let is_frozen = Arc::new(AtomicBool::new(false));
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = Freezing { stream, is_frozen: Arc::clone(&is_frozen) };
    let wire = Wire::over(stream, "http", address).await;
    let pack = RawPack::prove(wire, "one", &key(1)).await.unwrap();
    // Without the feature, so that nothing but the connection's own pings can tell.
    let manifest =
        drawgate_sdk::proto::PackManifest { features: Vec::new(), ..full("one", &["work"]) };
    let mut calls = pack.connect(manifest).await.unwrap();
    let under_way = call(&peers, "work", any());
    next(&mut calls, MessageKind::Execute).await;
    is_frozen.store(true, Ordering::SeqCst);
    assert_eq!(code(&under_way.await.unwrap()), "UNAVAILABLE");
    unlisted(&peers.gateway, "work").await;
    departed(&peers, "one", "silent").await;
    assert_eq!(metric(&peers.gateway, "drawgate_packs").await, 0);
}
