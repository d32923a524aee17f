use super::*;

async fn lines_of(text: &[u8]) -> Vec<Value> {
    let (sender, mut lines) = mpsc::channel(8);
    read_lines(text, &sender).await;
    drop(sender);
    let mut all = Vec::new();
    while let Some(line) = lines.recv().await {
        all.push(line);
    }
    all
}

#[tokio::test]
async fn lines_that_are_json_are_passed_on() {
    let text = b"a note\n{\"a\":1}\n\n[claude] {\"b\":2}\n{\"c\":3}";
    assert_eq!(lines_of(text).await, [serde_json::json!({"a": 1}), serde_json::json!({"c": 3})]);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped() {
    let mut text = format!("{{\"a\":\"{}\"}}\n", "x".repeat(MAX_LINE + 200_000));
    text.push_str("{\"b\":2}\n");
    assert_eq!(lines_of(text.as_bytes()).await, [serde_json::json!({"b": 2})]);
}

#[tokio::test]
async fn the_end_of_complaints_is_kept() {
    let text = format!("{}the end\n", "x".repeat(3 * MAX_COMPLAINTS));
    let kept = last_words(text.as_bytes()).await;
    assert!(kept.ends_with("xthe end") && kept.len() <= MAX_COMPLAINTS, "{}", kept.len());
}
