use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Counts those that were given up.
struct Call(Arc<AtomicUsize>);

impl WhileWaiting for Call {
    async fn while_waiting(&mut self) {
        std::future::pending::<()>().await;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn client(name: &str) -> Arc<str> {
    name.into()
}

async fn until_dropped(dropped: &AtomicUsize, count: usize) {
    while dropped.load(Ordering::SeqCst) < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_call_is_taken_back_once_and_only_by_its_client() {
    let (waiting, dropped) = (WaitingCalls::new(), Arc::default());
    waiting.insert("s".to_owned(), &client("ann"), Call(Arc::clone(&dropped))).unwrap();
    assert!(waiting.take("s", &client("bob")).await.is_none());
    assert!(waiting.take("other", &client("ann")).await.is_none());
    let call = waiting.take("s", &client("ann")).await;
    assert!(call.is_some());
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    assert!(waiting.take("s", &client("ann")).await.is_none());
}

#[tokio::test]
async fn what_is_abandoned_is_dropped() {
    let (waiting, dropped) = (WaitingCalls::new(), Arc::default());
    for state in ["a", "b", "c"] {
        waiting.insert(state.to_owned(), &client("ann"), Call(Arc::clone(&dropped))).unwrap();
    }
    waiting.abandon("a");
    waiting.abandon("nothing");
    until_dropped(&dropped, 1).await;
    waiting.clear();
    until_dropped(&dropped, 3).await;
    assert!(waiting.take("b", &client("ann")).await.is_none());
}

#[tokio::test]
async fn dropping_the_store_gives_all_up() {
    let (waiting, dropped) = (WaitingCalls::new(), Arc::default());
    waiting.insert("a".to_owned(), &client("ann"), Call(Arc::clone(&dropped))).unwrap();
    drop(waiting);
    until_dropped(&dropped, 1).await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_comes_back_for_is_given_up() {
    let (waiting, dropped) = (WaitingCalls::new(), Arc::default());
    waiting.insert("a".to_owned(), &client("ann"), Call(Arc::clone(&dropped))).unwrap();
    tokio::time::advance(PATIENCE + Duration::from_secs(1)).await;
    until_dropped(&dropped, 1).await;
    assert!(waiting.take("a", &client("ann")).await.is_none());
    assert!(waiting.0.0.lock().is_empty());
}

#[tokio::test]
async fn waiting_calls_are_bounded_for_all_and_for_each() {
    let waiting = WaitingCalls::new();
    let park = |index: usize, name: &str| {
        waiting.insert(format!("{name}{index}"), &client(name), Call(Arc::default()))
    };
    for index in 0..MAX_OF_CLIENT {
        park(index, "ann").unwrap();
    }
    assert!(park(MAX_OF_CLIENT, "ann").is_err());
    for index in 0..MAX_CALLS - MAX_OF_CLIENT {
        park(index, &format!("client {}", index / MAX_OF_CLIENT)).unwrap();
    }
    assert!(park(0, "bob").is_err());
    waiting.abandon("ann0");
    park(0, "bob").unwrap();
}
