//! A pack that dies in the middle of its work, again and again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use drawgate_sdk::proto::MessageKind;
use serde_json::{Value, json};

use super::{call, code, counted, full, next, one, two_packs, unlisted};
use crate::protocol::memory;
use crate::support::{Gateway, eventually};

const KILLS: usize = 200;
/// Calls that a pack has when it dies.
const CALLS: usize = 3;

fn descriptors(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.child.id())).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_kills() {
    let peers = two_packs("");
    let gateway = &peers.gateway;
    let before = descriptors(gateway);
    let mut executed: BTreeMap<u64, u32> = BTreeMap::new();
    let mut slowest = Vec::with_capacity(KILLS);
    let mut memory_after_ten = 0;
    for round in 0..KILLS {
        let pack = one(&peers).await;
        let mut calls = pack.connect(full("one", &["work"])).await.unwrap();
        let under_way: Vec<_> = (0..CALLS)
            .map(|index| call(&peers, "work", json!({ "number": round * CALLS + index })))
            .collect();
        for _ in 0..CALLS {
            let request = next(&mut calls, MessageKind::Execute).await;
            let input: Value = serde_json::from_str(&request.input_json).unwrap();
            *executed.entry(input["number"].as_u64().unwrap()).or_default() += 1;
        }
        let killed = Instant::now();
        pack.wire.cut();
        drop((calls, pack));
        // The pack comes back only after every call has its answer.
        for result in under_way {
            let result = result.await.unwrap();
            assert_eq!(code(&result), "UNAVAILABLE", "{result}");
        }
        slowest.push(killed.elapsed());
        if round == 10 {
            memory_after_ten = memory(gateway);
        }
    }
    assert_eq!(executed.len(), KILLS * CALLS);
    assert!(executed.values().all(|times| *times == 1), "nothing is executed twice");
    unlisted(gateway, "work").await;
    counted(gateway, "drawgate_packs", 0).await;
    counted(gateway, "drawgate_calls_under_way", 0).await;
    eventually("all connections are closed", async || {
        (descriptors(gateway) <= before).then_some(())
    })
    .await;
    let grown = memory(gateway).saturating_sub(memory_after_ten);
    assert!(grown < 64 * 1024, "grew by {grown} KiB");
    slowest.sort();
    let at = |share: usize| slowest[(slowest.len() - 1) * share / 100];
    let (middle, last): (Duration, Duration) = (at(50), at(100));
    eprintln!(
        "{KILLS} kills with {CALLS} calls each: UNAVAILABLE after {middle:?} (median), {last:?} (slowest); memory +{grown} KiB"
    );
}
