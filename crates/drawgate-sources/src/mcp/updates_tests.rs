use super::*;

fn heard(events: &mut broadcast::Receiver<SourceEvent>) -> Vec<String> {
    let next = || match events.try_recv() {
        Ok(SourceEvent::ResourceUpdated { uri }) => Some(uri),
        Err(_) => None,
    };
    std::iter::from_fn(next).collect()
}

fn report(updates: &Updates, uri: &str) {
    updates.report(uri.to_owned(), vec!["x://".to_owned()]);
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_reported_once_in_an_interval_and_the_last_time_too() {
    let updates = Updates::new();
    let mut events = updates.subscribe();
    (0..10_000).for_each(|_| report(&updates, "x://a"));
    report(&updates, "x://b");
    assert_eq!(heard(&mut events), ["x://a"]);
    tokio::time::sleep(INTERVAL * 2).await;
    assert_eq!(heard(&mut events), ["x://a", "x://b"], "what came last is heard");
    tokio::time::sleep(INTERVAL * 2).await;
    assert_eq!(heard(&mut events), Vec::<String>::new());
    report(&updates, "x://a");
    assert_eq!(heard(&mut events), ["x://a"], "at once, after a silence");
}

#[tokio::test(start_paused = true)]
async fn many_resources_are_reported_in_their_order_and_not_all_at_once() {
    let updates = Updates::new();
    let mut events = updates.subscribe();
    let all: Vec<String> = (0..MAX_EACH * 3).map(|number| format!("x://{number}")).collect();
    for uri in &all {
        report(&updates, uri);
    }
    let mut told = Vec::new();
    while told.len() < all.len() {
        let now = heard(&mut events);
        assert!(now.len() <= MAX_EACH, "{}", now.len());
        told.extend(now);
        tokio::time::sleep(INTERVAL).await;
    }
    assert_eq!(told, all);
}

#[test]
fn of_too_many_reports_the_watched_resource_is_left() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for number in 0..100_000 {
        let watched = vec!["x://".to_owned(), "x://1".to_owned()];
        queue.report(format!("x://1/{number}").into(), watched, now);
    }
    assert_eq!(queue.order.len(), MAX_WAITING + 2);
    assert_eq!(queue.waiting.len(), queue.order.len());
    let mut due = Vec::new();
    while !queue.order.is_empty() {
        due.extend(queue.due(now));
    }
    assert_eq!(due.last().map(AsRef::as_ref), Some("x://1"));
    assert!(queue.waiting.is_empty());
}
