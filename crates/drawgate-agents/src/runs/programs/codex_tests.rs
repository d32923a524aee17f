use serde_json::json;

use super::*;

fn read(lines: &[Value]) -> Option<Result<String, String>> {
    let mut reader = Codex.reader();
    for line in lines {
        let _ = reader.line(line);
    }
    reader.end()
}

#[test]
fn the_last_message_of_a_completed_turn_is_the_answer() {
    let started = json!({"type": "thread.started", "thread_id": "t"});
    assert_eq!(Codex.reader().line(&started).as_deref(), Some("t"));
    let message =
        |text| json!({"type": "item.completed", "item": {"type": "agent_message", "text": text}});
    let hiccup = json!({"type": "error", "message": "Reconnecting... 1/5"});
    let completed = json!({"type": "turn.completed", "usage": {}});
    let lines = [started, message("a"), hiccup.clone(), message("b"), completed];
    assert_eq!(read(&lines), Some(Ok("b".to_owned())));
    let failed = json!({"type": "turn.failed", "error": {"message": "402"}});
    assert_eq!(read(&[message("a"), hiccup, failed]), Some(Err("402".to_owned())));
    assert_eq!(read(&[message("a")]), None);
}
