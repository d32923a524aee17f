use super::*;

fn read(lines: &[Value]) -> Option<Result<String, String>> {
    let mut reader = Gemini.reader();
    for line in lines {
        let _ = reader.line(line);
    }
    reader.end()
}

#[test]
fn the_answer_is_what_was_said_after_the_last_call() {
    let init = json!({"type": "init", "session_id": "s"});
    assert_eq!(Gemini.reader().line(&init).as_deref(), Some("s"));
    let said =
        |text| json!({"type": "message", "role": "assistant", "content": text, "delta": true});
    let asked = json!({"type": "message", "role": "user", "content": "prompt"});
    let called = json!({"type": "tool_use", "tool_name": "x"});
    let result = |status| json!({"type": "result", "status": status, "error": {"message": "402"}});
    let lines = [asked, said("I look"), called, said("it "), said("is"), result("success")];
    assert_eq!(read(&lines), Some(Ok("it is".to_owned())));
    assert_eq!(read(&[said("half"), result("error")]), Some(Err("402".to_owned())));
    let loops = json!({"type": "error", "severity": "warning", "message": "Loop detected"});
    let lines = [loops.clone(), result("success")];
    assert_eq!(read(&lines), Some(Err("Loop detected".to_owned())), "it said nothing else");
    assert_eq!(read(&[loops, said("yes"), result("success")]), Some(Ok("yes".to_owned())));
    assert_eq!(read(&[said("half")]), None);
}
