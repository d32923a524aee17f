use super::*;

fn resource(source: &str, own: &str) -> Resource {
    Resource { source: SourceId::new(source).unwrap(), own: own.to_owned() }
}

#[test]
fn a_listener_hears_of_what_it_asked_for_in_its_own_terms() {
    let rows = [
        ("x://a", "x://a", "x://a", Some("x://a")),
        ("shown://s/x://a", "x://a", "x://a", Some("shown://s/x://a")),
        ("shown://s/x://a", "x://a", "x://a/b", Some("shown://s/x://a/b")),
        ("x://a/", "x://a/", "x://a/b", Some("x://a/b")),
        ("x://a", "x://a", "x://a?q", Some("x://a?q")),
        ("x://a", "x://a", "x://ab", None),
        ("x://a", "x://a", "x://", None),
        ("x://a", "x://a", "y://a", None),
    ];
    for (asked, own, changed, told) in rows {
        let subscribed = Subscriptions::default();
        assert_eq!(subscribed.reserve(asked, &resource("s", own)), Reservation::New);
        assert_eq!(subscribed.name(&resource("s", changed)).as_deref(), told, "{asked} {changed}");
        assert_eq!(subscribed.name(&resource("other", changed)), None);
    }
}

#[test]
fn a_listener_is_bounded_and_ends_once() {
    let subscribed = Subscriptions::default();
    for number in 0..MAX_EACH {
        let uri = format!("x://{number}");
        assert_eq!(subscribed.reserve(&uri, &resource("s", &uri)), Reservation::New);
    }
    assert_eq!(subscribed.reserve("x://0", &resource("s", "x://0")), Reservation::Already);
    assert_eq!(subscribed.reserve("x://more", &resource("s", "x://more")), Reservation::Full);
    assert!(subscribed.take("x://0").is_some());
    assert!(subscribed.take("x://0").is_none());
    let long = "x".repeat(MAX_URI + 1);
    assert_eq!(subscribed.reserve(&long, &resource("s", &long)), Reservation::Full);
    assert_eq!(subscribed.end().len(), MAX_EACH - 1);
    assert_eq!(subscribed.reserve("x://0", &resource("s", "x://0")), Reservation::Full);
}
