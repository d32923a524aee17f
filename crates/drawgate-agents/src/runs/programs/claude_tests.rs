use super::*;

fn read(lines: &[Value]) -> Option<Result<String, String>> {
    let mut reader = Claude.reader();
    for line in lines {
        let _ = reader.line(line);
    }
    reader.end()
}

#[test]
fn an_answer_is_what_the_last_line_says() {
    let init = json!({"type": "system", "subtype": "init", "session_id": "s"});
    assert_eq!(Claude.reader().line(&init).as_deref(), Some("s"));
    let said = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done"});
    assert_eq!(read(&[init.clone(), said]), Some(Ok("done".to_owned())));
    // An error of the API is reported as a success.
    let lied = json!({"type": "result", "subtype": "success", "is_error": true, "result": "API Error: 402"});
    assert_eq!(read(&[lied]), Some(Err("API Error: 402".to_owned())));
    let silent = json!({"type": "result", "subtype": "error_max_turns", "is_error": true});
    assert_eq!(read(&[silent]), Some(Err("error_max_turns".to_owned())));
    assert_eq!(read(&[json!({"type": "result", "result": "x"})]), Some(Err("x".to_owned())));
    assert_eq!(read(&[init]), None);
}
