use super::*;

async fn all(mut reader: Reader) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(event) = reader.next().await {
        let text = String::from_utf8(event.to_vec()).unwrap();
        all.push(text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned());
    }
    all
}

#[tokio::test]
async fn a_stream_can_be_taken_up_after_any_event() {
    let buffer = Arc::new(EventBuffer::new(Some(3)));
    for text in [b"a", b"b"] {
        buffer.push_required(text);
    }
    buffer.conclude(b"c");
    for (after, expected) in [(0, ["a", "b", "c"].as_slice()), (2, &["b", "c"]), (4, &[]), (9, &[])]
    {
        assert_eq!(all(buffer.read_after(after)).await, expected);
    }
    assert_eq!(parse_id("3-1"), Some((3, 1)));
    for bad in ["", "3", "3-", "-", "x-1", "3-1-1", "99999999999999999999-1"] {
        assert_eq!(parse_id(bad), None, "{bad}");
    }
}

#[tokio::test]
async fn what_can_not_be_taken_up_again_is_not_kept() {
    let buffer = Arc::new(EventBuffer::new(None));
    buffer.push_required(b"a");
    buffer.conclude(b"b");
    assert_eq!(all(buffer.read_after(0)).await, ["a", "b"]);
    assert_eq!(buffer.size(), 0);
}

#[tokio::test]
async fn of_too_many_optional_events_the_last_are_kept_and_nothing_else_is_lost() {
    let buffer = Arc::new(EventBuffer::new(Some(1)));
    buffer.push_required(b"question");
    for number in 0..1000 {
        buffer.push_optional(number.to_string().as_bytes());
    }
    buffer.conclude(b"answer");
    let all = all(buffer.read_after(0)).await;
    assert_eq!(all.len(), MAX_OPTIONAL + 2);
    assert_eq!((all[0].as_str(), all[MAX_OPTIONAL].as_str()), ("question", "999"));
    let buffer = EventBuffer::new(Some(1));
    for _ in 0..20 {
        buffer.push_optional(&vec![b'x'; MAX_OPTIONAL_BYTES / 10]);
    }
    assert!(buffer.size() <= MAX_OPTIONAL_BYTES);
}

#[tokio::test(start_paused = true)]
async fn the_newest_reader_reads_and_the_last_to_leave_is_missed() {
    let buffer = Arc::new(EventBuffer::new(Some(1)));
    let mut first = buffer.read_after(0);
    let second = buffer.read_after(0);
    assert_eq!(first.next().await, None);
    drop(first);
    let limit = Duration::from_mins(1);
    assert!(timeout(limit * 2, buffer.abandoned(limit)).await.is_err(), "one still reads");
    drop(second);
    assert!(timeout(limit / 2, buffer.abandoned(limit)).await.is_err());
    let back = buffer.read_after(0);
    assert!(timeout(limit * 2, buffer.abandoned(limit)).await.is_err());
    drop(back);
    buffer.abandoned(limit).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_shows_that_it_lives() {
    let buffer = Arc::new(EventBuffer::new(None));
    let mut reader = buffer.read_after(0);
    assert_eq!(reader.next().await, Some(sse::keep_alive()));
}
