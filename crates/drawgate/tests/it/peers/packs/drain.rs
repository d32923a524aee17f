//! A gateway that stops: packs are told, and what they work on is finished.

use drawgate_sdk::proto::MessageKind;
use serde_json::json;

use super::{any, call, code, full, next, one, output, said, two, two_packs};
use crate::peers::manifest;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_under_way_are_finished_before_a_pack_is_let_go() {
    let peers = two_packs("");
    let pack = one(&peers).await;
    let mut calls = pack.connect(full("one", &["work"])).await.unwrap();
    // One that understands nothing of it is simply let go.
    let plain = two(&peers).await;
    let mut others = plain.connect(manifest("two", Vec::new())).await.unwrap();
    let result = call(&peers, "work", any());
    let request = next(&mut calls, MessageKind::Execute).await;
    let gateway = peers.gateway;
    let stopped = tokio::task::spawn_blocking(move || gateway.terminate());
    next(&mut calls, MessageKind::Shutdown).await;
    pack.answer(&request.request_id, output(&json!("finished"))).await.unwrap();
    assert_eq!(said(&result.await.unwrap()), "finished");
    assert!(calls.message().await.unwrap().is_none(), "the stream ends in order");
    assert!(others.message().await.unwrap().is_none());
    assert_eq!(stopped.await.unwrap(), Some(0));
    let log = peers.place.ok(&["audit", "export", "--json"]);
    let ends = log.lines().filter(|line| line.contains("peer_disconnected"));
    assert_eq!(ends.filter(|line| line.contains(r#""reason":"shutdown""#)).count(), 2, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_never_finishes_does_not_keep_the_gateway() {
    let peers = two_packs("[server]\ndrain_seconds = 1\n");
    let pack = one(&peers).await;
    let mut calls = pack.connect(full("one", &["work"])).await.unwrap();
    let result = call(&peers, "work", any());
    next(&mut calls, MessageKind::Execute).await;
    let gateway = peers.gateway;
    let stopped = tokio::task::spawn_blocking(move || gateway.terminate());
    next(&mut calls, MessageKind::Shutdown).await;
    assert_eq!(stopped.await.unwrap(), Some(0));
    let result = result.await.unwrap();
    assert_eq!(code(&result), "CANCELLED");
    assert!(said(&result).contains("the gateway stopped before the call had ended"), "{result}");
}
