//! A gateway that is killed again and again under load keeps every event of an answered call.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::load::{Client, Load, events, fixture, offers};
use crate::support::{Gateway, TestFolder, eventually};

const KILLS: usize = 50;
const CLIENTS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_lose_nothing() {
    let place = TestFolder::new(&fixture());
    let never = place.path().join("never").display().to_string();
    let mut answered = Vec::new();
    let mut starts = Vec::new();
    for round in 0..KILLS {
        let start = Instant::now();
        let mut gateway = place.serve();
        offers(&gateway, "fixture__wait").await;
        starts.push(start.elapsed());
        let load = Load::start(&gateway, &format!("r{round}"), CLIENTS);
        let begun = place.path().join(format!("begun-{round}"));
        let held =
            hold(&gateway, format!("held-{round}"), json!({ "begun": begun, "until": never }));
        eventually("a call that stays open", async || begun.exists().then_some(())).await;
        // Spread over 50 to 400 ms by a step that shares no factor with the span.
        tokio::time::sleep(Duration::from_millis(50 + (round * 137 % 351) as u64)).await;
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
        held.await.unwrap();
        answered.extend(load.answered().await);
    }
    assert_eq!(place.serve().terminate(), Some(0));
    starts.sort();
    eprintln!(
        "{} answered; ready after {:?} at most, {:?} mostly",
        answered.len(),
        starts[49],
        starts[25]
    );
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
    // How many there are beyond that is a matter of the machine.
    let rounds: BTreeSet<&str> = answered.iter().filter_map(|id| id.split('-').next()).collect();
    assert!(rounds.len() > KILLS / 2, "hardly any load: {} rounds", rounds.len());
    check(&events(&place), &answered);
}

/// A call that is under way whenever the gateway is killed.
fn hold(gateway: &Gateway, id: String, arguments: Value) -> tokio::task::JoinHandle<()> {
    let (address, token) = (gateway.address.clone(), gateway.token.clone());
    tokio::spawn(async move {
        let mut client = Client::connect(&address, &token).await.unwrap();
        client.call(&id, "fixture__wait", &arguments).await.unwrap_err();
    })
}

fn check(events: &[Value], answered: &[String]) {
    let mut decided = BTreeSet::new();
    let mut outcomes: BTreeMap<&str, &Value> = BTreeMap::new();
    for event in events {
        let call = || event["callId"].as_str().unwrap();
        match event["kind"].as_str().unwrap() {
            "decision" => assert!(decided.insert(call()), "decided twice: {event}"),
            "outcome" => {
                assert!(event["started"] != true || decided.contains(call()), "undecided: {event}");
                let id = event["requestId"].as_str().unwrap();
                assert!(outcomes.insert(id, event).is_none(), "two outcomes: {event}");
                decided.remove(call());
            }
            _ => {}
        }
    }
    assert_eq!(decided, BTreeSet::new(), "calls without an outcome");
    for id in answered {
        let outcome = outcomes
            .get(id.as_str())
            .unwrap_or_else(|| panic!("{id} was answered and not written down"));
        assert_ne!(outcome["code"], "UNKNOWN", "{id} was answered: {outcome}");
    }
    for round in 0..KILLS {
        let id = format!("held-{round}");
        assert_eq!(outcomes[id.as_str()]["code"], "UNKNOWN", "{id}");
    }
}
