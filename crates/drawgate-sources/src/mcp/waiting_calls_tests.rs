use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Counts those that were given up.
struct Call(Arc<AtomicUsize>);

impl Attended for Call {
    async fn attend(&mut self) {
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
    let (parked, dropped) = (Parked::new(), Arc::default());
    parked.park("s".to_owned(), &client("ann"), Call(Arc::clone(&dropped))).unwrap();
    assert!(parked.take("s", &client("bob")).await.is_none());
    assert!(parked.take("other", &client("ann")).await.is_none());
    let call = parked.take("s", &client("ann")).await;
    assert!(call.is_some());
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    assert!(parked.take("s", &client("ann")).await.is_none());
}

#[tokio::test]
async fn what_is_abandoned_is_dropped() {
    let (parked, dropped) = (Parked::new(), Arc::default());
    for state in ["a", "b", "c"] {
        parked.park(state.to_owned(), &client("ann"), Call(Arc::clone(&dropped))).unwrap();
    }
    parked.abandon("a");
    parked.abandon("nothing");
    until_dropped(&dropped, 1).await;
    parked.clear();
    until_dropped(&dropped, 3).await;
    assert!(parked.take("b", &client("ann")).await.is_none());
}

#[tokio::test]
async fn dropping_the_store_gives_all_up() {
    let (parked, dropped) = (Parked::new(), Arc::default());
    parked.park("a".to_owned(), &client("ann"), Call(Arc::clone(&dropped))).unwrap();
    drop(parked);
    until_dropped(&dropped, 1).await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_comes_back_for_is_given_up() {
    let (parked, dropped) = (Parked::new(), Arc::default());
    parked.park("a".to_owned(), &client("ann"), Call(Arc::clone(&dropped))).unwrap();
    tokio::time::advance(PATIENCE + Duration::from_secs(1)).await;
    until_dropped(&dropped, 1).await;
    assert!(parked.take("a", &client("ann")).await.is_none());
    assert!(parked.0.0.lock().is_empty());
}

#[tokio::test]
async fn waiting_calls_are_bounded_for_all_and_for_each() {
    let parked = Parked::new();
    let park = |index: usize, name: &str| {
        parked.park(format!("{name}{index}"), &client(name), Call(Arc::default()))
    };
    for index in 0..MAX_OF_CLIENT {
        park(index, "ann").unwrap();
    }
    assert!(park(MAX_OF_CLIENT, "ann").is_err());
    for index in 0..MAX_CALLS - MAX_OF_CLIENT {
        park(index, &format!("client {}", index / MAX_OF_CLIENT)).unwrap();
    }
    assert!(park(0, "bob").is_err());
    parked.abandon("ann0");
    park(0, "bob").unwrap();
}
